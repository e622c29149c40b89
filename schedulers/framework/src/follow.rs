//! Following the log: the own copy, what each entry means for the backlog, and who holds which shard.

use crate::admission::need_now;
use crate::input::Effect;
use crate::planner::Planner;
use crate::scheduler::{Changes, SchedulerCore};
use crate::ticket::ticket_of;
use ohm_cell::Cell;
use ohm_client::{LeaseSeen, MemberInput};
use ohm_model::lease::SHARDS_PER_CLASS;
use ohm_model::{
    Command, Entry, Envelope, EventKind, Index, JobId, Lease, NodeHealth, NodeId, Outcome, Sequence, SessionId, Shard,
};
use std::sync::Arc;

impl<P: Planner> SchedulerCore<P> {
    /// Starts again from a restored copy. The session goes on; entries with answers to it may have been jumped over.
    pub(crate) fn replace(&mut self, now_ms: u64, cell: Cell, out: &mut Vec<Effect>) {
        // Of another server, perhaps, that lags behind the one followed before: a copy never steps back.
        if cell.applied() < self.cell.applied() {
            return;
        }
        self.cell = cell;
        self.flights.orphan_all();
        self.land_early(now_ms);
        self.changes = Changes { all: true, improvements: self.changes.improvements + 1, ..Changes::default() };
        self.nominated_nodes = self.cell.nominations().nodes();
        self.rebuild();
        self.tell_leases(now_ms, out);
    }

    /// Applies one entry and everything that follows from it.
    pub(crate) fn follow(&mut self, now_ms: u64, index: Index, entry: &Entry, out: &mut Vec<Effect>) {
        if index <= self.cell.applied() {
            return;
        }
        let mut applied = std::mem::take(&mut self.applied);
        if ohm_stdx::canary::sings(ohm_stdx::canary::Canary::UnorderedApply) {
            let commands = entry.commands.iter().rev().cloned().collect();
            self.cell.apply(index, &Entry { stamp_ms: entry.stamp_ms, commands }, &mut applied);
            applied.outcomes.reverse();
        } else {
            self.cell.apply(index, entry, &mut applied);
        }
        let kinds = Kinds::of(entry);
        self.note_improvements(&applied, kinds.ticks);
        self.changes.nodes.extend(&applied.nodes);
        if kinds.topologies {
            self.changes.all = true;
        }
        self.nominated_nodes = self.cell.nominations().nodes();
        applied.jobs.sort_unstable();
        applied.jobs.dedup();
        self.changes.jobs.extend(&applied.jobs);
        if kinds.queues {
            // Jobs may have moved to other shards, which no list says.
            self.rebuild();
        } else {
            applied.jobs.iter().for_each(|job| self.refresh(*job));
        }
        self.backlog.reached(index);
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            self.hear(now_ms, envelope, outcome, out);
        }
        self.applied = applied;
        if kinds.sessions {
            self.tell_leases(now_ms, out);
        }
    }

    /// Takes note of an answer in the log, if it is an answer to this scheduler.
    fn hear(&mut self, now_ms: u64, envelope: &Envelope, outcome: &Outcome, out: &mut Vec<Effect>) {
        let Some(input) = self.member.heard(envelope, outcome) else { return };
        let sequence = envelope.sequence;
        if matches!(input, MemberInput::Answer { .. })
            && let Some((tag, verdict)) = self.early.remove(&sequence)
        {
            self.land(now_ms, tag, &verdict);
        }
        self.tell_member(now_ms, input, out);
    }

    /// A server's answer. A verdict counts when the own copy has it, because only then are the placements in sight;
    /// before that it is believed only when nothing came of the transaction, or when the copy jumped and may never have
    /// it.
    pub(crate) fn on_direct_answer(
        &mut self,
        now_ms: u64,
        session: SessionId,
        sequence: Sequence,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) {
        self.answering = Some(sequence);
        self.tell_member(now_ms, MemberInput::Answer { session, sequence, outcome }, out);
        self.answering = None;
    }

    /// Looks at one job anew: whether it needs attention, and where it belongs. Jobs in flight wait for their verdict.
    pub(crate) fn refresh(&mut self, job: JobId) {
        if self.flights.has(job) {
            return;
        }
        let found = self.cell.jobs().get(job).filter(|found| self.shards.contains_key(&found.shard));
        let need = found.and_then(|found| need_now(&self.cell, &self.planner, found));
        if !self.is_second_pass(job) {
            self.second_passes.remove(&job);
        }
        match (found, need) {
            (Some(found), Some(need)) => {
                self.backlog.put(ticket_of(found, need, self.cell.nominations().nominates(job)))
            }
            _ => {
                self.backlog.remove(job);
                self.attempts.remove(&job);
            }
        }
    }

    /// Gathers the jobs of the shards gained in this step, in one pass over the cell.
    pub(crate) fn gather(&mut self) {
        let gained = std::mem::take(&mut self.gained);
        if gained.is_empty() {
            return;
        }
        let jobs = self.cell.jobs().iter().filter(|job| gained.contains(&job.shard));
        let jobs: Vec<JobId> = jobs.map(|job| job.id).collect();
        jobs.into_iter().for_each(|job| self.refresh(job));
    }

    /// Makes the backlog anew from the cell.
    fn rebuild(&mut self) {
        self.backlog.clear();
        let lines: Vec<(Arc<str>, u32)> = self
            .cell
            .quota()
            .iter()
            .map(|queue| (Arc::from(queue.spec.name.as_str()), queue.spec.weight_milli))
            .collect();
        lines.iter().for_each(|(line, weight_milli)| self.backlog.set_line(line, *weight_milli, false));
        self.gained = self.shards.keys().copied().collect();
        self.gather();
    }

    /// Finds the nodes that may have more room than before, and the quota trees that may.
    fn note_improvements(&mut self, applied: &ohm_cell::Applied, ticks: bool) {
        for event in &applied.events {
            match &event.kind {
                EventKind::Ended { job, node, .. } => {
                    self.improve(*node);
                    self.note_quota(*job);
                }
                EventKind::NodeRegistered { node, .. }
                | EventKind::NodeHealth { node, health: NodeHealth::Ready, .. }
                | EventKind::NodeCondition { node, .. }
                | EventKind::NodeReleased { node, .. }
                | EventKind::NodeUndrained { node, .. }
                | EventKind::NodeCordoned { node, cordoned: false, .. } => {
                    self.improve(*node);
                }
                // They may give quota back.
                EventKind::CheckChanged { job, .. }
                | EventKind::JobUpdated { job, .. }
                | EventKind::SpareGone { job, .. } => self.note_quota(*job),
                // Whoever leaves both of these states gives a reservation back.
                EventKind::JobState { job, state, .. } if !["pending", "running"].contains(&state.as_str()) => {
                    self.note_quota(*job);
                }
                _ => {}
            }
        }
        if ticks || self.nominated_nodes > 0 {
            // Nominations that ended leave no event.
            applied.nodes.iter().for_each(|node| self.improve(*node));
        }
    }

    pub(crate) fn improve(&mut self, node: NodeId) {
        self.changes.improved.insert(node);
        self.changes.improvements += 1;
    }

    /// Of any class: all classes draw on the same quota.
    fn note_quota(&mut self, job: JobId) {
        let Some(found) = self.cell.jobs().get(job) else { return };
        if !found.spec.queue.is_empty() {
            let root = self.cell.quota().root(&found.spec.queue);
            if !self.changes.quota.contains(root) {
                self.changes.quota.insert(Arc::from(root));
            }
        }
    }

    /// Tells the member what changed about its leases and peers in the own copy.
    pub(crate) fn tell_leases(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let class = self.planner.class();
        let peers: Vec<(SessionId, Index)> = self.cell.replicas(class).collect();
        if peers != self.peers_told {
            self.peers_told.clone_from(&peers);
            self.tell_member(now_ms, MemberInput::Peers(peers), out);
        }
        for number in 0..SHARDS_PER_CLASS {
            let lease = Lease::Shard(Shard { class, number });
            let state = self.cell.sessions().lease(lease);
            // A replica that was started anew need not wait for its own former lease.
            let holder = state.holder.filter(|holder| !self.cell.sessions().is_superseded(*holder));
            let seen = LeaseSeen { lease, holder, epoch: state.epoch, renewed: state.renewed };
            if self.leases_told.insert(lease, seen) != Some(seen) {
                self.tell_member(now_ms, MemberInput::LeaseSeen(seen), out);
            }
        }
    }
}

/// Which kinds of commands an entry holds, as far as more follows from them than their events say.
#[derive(Default)]
struct Kinds {
    sessions: bool,
    queues: bool,
    topologies: bool,
    ticks: bool,
}

impl Kinds {
    fn of(entry: &Entry) -> Self {
        let mut kinds = Kinds::default();
        for envelope in &entry.commands {
            match &envelope.command {
                Command::OpenSession { .. }
                | Command::CloseSession
                | Command::KeepAlive
                | Command::TakeLease { .. }
                | Command::ReleaseLease { .. } => kinds.sessions = true,
                Command::Tick => (kinds.sessions, kinds.ticks) = (true, true),
                Command::PutQueue(_) | Command::RemoveQueue { .. } | Command::PutProvisioningClass(_) => {
                    kinds.queues = true;
                }
                Command::PutTopology(_) | Command::RemoveTopology { .. } => kinds.topologies = true,
                _ => {}
            }
        }
        kinds
    }
}
