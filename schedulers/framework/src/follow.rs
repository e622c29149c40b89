//! Following the log: what each entry means for the backlog and for the transactions under way.

use crate::admission::need_now;
use crate::cost::CellSize;
use crate::input::SchedulerEffect;
use crate::planner::Planner;
use crate::scheduler::{Changes, SchedulerCore};
use crate::ticket::ticket_of;
use ohm_cell::{Applied, Cell, has_neighbour_rules};
use ohm_client::{MemberEffect, SessionInput};
use ohm_model::{Command, Entry, Envelope, Index, JobId, NodeId, Outcome, QueueingStrategy, Sequence, SessionId};
use ohm_stdx::bug::{self, Bug};

impl<P: Planner> SchedulerCore<P> {
    /// Starts again from a restored copy. The session goes on; entries with answers to it may have been jumped over.
    pub(crate) fn replace(&mut self, now_ms: u64, cell: Cell, out: &mut Vec<SchedulerEffect>) {
        if self.follower.replace(cell).is_none() {
            return;
        }
        self.land_judged(now_ms);
        self.flights.orphan_all();
        self.changes = Changes { all: true, improvements: self.changes.improvements + 1, ..Changes::default() };
        self.rebuild();
        self.with_follower(now_ms, out, |follower, effects| follower.tell_leases(now_ms, effects));
    }

    /// Applies one entry and everything that follows from it.
    pub(crate) fn follow(&mut self, now_ms: u64, index: Index, entry: &Entry, out: &mut Vec<SchedulerEffect>) {
        let Some(mut applied) = self.apply(index, entry) else { return };
        let kinds = Kinds::of(entry);
        self.note_freed(&applied.freed);
        self.changes.nodes.extend(&applied.nodes);
        if kinds.topologies || kinds.profiles {
            self.changes.all = true;
        }
        applied.jobs.sort_unstable();
        applied.jobs.dedup();
        self.changes.jobs.extend(&applied.jobs);
        self.heads.note_placed(self.follower.cell(), &applied.events);
        let (cell, told) = (self.follower.cell(), (applied.jobs.as_slice(), applied.events.as_slice()));
        self.abroad.note(&mut self.backlog, (cell, &self.shards, &self.size), told);
        let rules = has_neighbour_rules(self.follower.cell());
        let other_kin = std::mem::replace(&mut self.neighbour_rules, rules) != rules;
        if kinds.queues || kinds.profiles || other_kin {
            // Queues may have other quota and other roots; what found no room may find some by other strategies.
            self.rebuild();
        } else {
            applied.jobs.iter().for_each(|job| self.refresh(*job));
        }
        self.backlog.reached(index);
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            self.hear(now_ms, envelope, outcome, out);
        }
        self.with_follower(now_ms, out, |follower, effects| follower.finish(now_ms, entry, applied, effects));
    }

    fn apply(&mut self, index: Index, entry: &Entry) -> Option<Applied> {
        if !bug::is_planted(Bug::UnorderedApply) {
            return self.follower.apply(index, entry);
        }
        let commands = entry.commands.iter().rev().cloned().collect();
        let mut applied = self.follower.apply(index, &Entry { stamp_ms: entry.stamp_ms, commands })?;
        applied.outcomes.reverse();
        Some(applied)
    }

    /// Takes note of an answer in the log, if it is an answer to this scheduler.
    fn hear(&mut self, now_ms: u64, envelope: &Envelope, outcome: &Outcome, out: &mut Vec<SchedulerEffect>) {
        let Some(input) = self.follower.member().heard(envelope, outcome) else { return };
        if matches!(input, SessionInput::Answer { .. })
            && let Some((tag, verdict)) = self.flights.judged_by(envelope.sequence)
        {
            self.land(now_ms, tag, &verdict);
        }
        self.with_follower(now_ms, out, |follower, effects| follower.step(now_ms, input, effects));
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
        out: &mut Vec<SchedulerEffect>,
    ) {
        let mut effects = Vec::new();
        self.follower.step(now_ms, SessionInput::Answer { session, sequence, outcome }, &mut effects);
        for effect in effects {
            match effect {
                MemberEffect::Answered { tag, outcome: Outcome::Verdict(verdict) } => {
                    if self.flights.judge(tag, sequence, &verdict) {
                        self.land(now_ms, tag, &verdict);
                    }
                }
                effect => self.perform(now_ms, effect, out),
            }
        }
    }

    /// Looks at one job anew: whether it needs attention, and where it belongs. Jobs in flight wait for their verdict.
    pub(crate) fn refresh(&mut self, job: JobId) {
        if self.flights.has(job) {
            return;
        }
        let found = self.follower.cell().jobs().get(job).filter(|found| self.shards.contains_key(&found.shard));
        let need = found.and_then(|found| need_now(self.follower.cell(), &self.planner, found));
        if !self.is_second_pass(job) {
            self.second_passes.remove(&job);
        }
        match (found, need) {
            (Some(found), Some(need)) => self.backlog.put(ticket_of(self.follower.cell(), found, need)),
            _ => {
                self.backlog.remove(job);
                self.attempts.remove(&job);
                self.heads.forget(job);
            }
        }
    }

    /// Gathers the jobs of the shards gained in this step, in one pass over the cell.
    pub(crate) fn gather(&mut self) {
        let gained = std::mem::take(&mut self.gained);
        if gained.is_empty() {
            return;
        }
        let jobs = self.follower.cell().jobs().iter().filter(|job| gained.contains(&job.shard));
        let jobs: Vec<JobId> = jobs.map(|job| job.id).collect();
        jobs.into_iter().for_each(|job| self.refresh(job));
    }

    /// Makes the backlog anew from the cell.
    fn rebuild(&mut self) {
        self.backlog.clear();
        self.size = CellSize::of(self.follower.cell());
        let quota = self.follower.cell().quota();
        for queue in quota.iter() {
            let (line, root) = (queue.spec.name.as_str(), quota.root(&queue.spec.name));
            let strict = queue.spec.queueing_strategy == QueueingStrategy::StrictFifo;
            self.backlog.set_line(&line.into(), queue.spec.weight_milli, strict, &root.into());
        }
        self.abroad.change();
        self.gained = self.shards.keys().copied().collect();
        self.gather();
    }

    /// Takes note of the room and the quota that the entry gave back.
    fn note_freed(&mut self, freed: &ohm_cell::Freed) {
        freed.nodes.iter().for_each(|node| self.improve(*node));
        self.changes.quota.extend(freed.roots.iter().cloned());
        if freed.neighbours {
            self.changes.neighbours = true;
            self.changes.improvements += 1;
        }
        if !freed.roots.is_empty() {
            self.abroad.change();
        }
    }

    pub(crate) fn improve(&mut self, node: NodeId) {
        self.changes.improved.insert(node);
        self.changes.improvements += 1;
    }
}

/// Which kinds of commands an entry holds, as far as more follows from them than the lists of changes say.
#[derive(Default)]
struct Kinds {
    queues: bool,
    topologies: bool,
    profiles: bool,
}

impl Kinds {
    fn of(entry: &Entry) -> Self {
        let mut kinds = Kinds::default();
        for envelope in &entry.commands {
            match &envelope.command {
                Command::PutQueue(_) | Command::RemoveQueue { .. } | Command::PutProvisioningClass(_) => {
                    kinds.queues = true;
                }
                Command::PutTopology(_) | Command::RemoveTopology { .. } => kinds.topologies = true,
                Command::PutSchedulingProfile(_) | Command::RemoveSchedulingProfile { .. } => kinds.profiles = true,
                _ => {}
            }
        }
        kinds
    }
}
