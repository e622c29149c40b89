//! Room on nodes that is claimed for somebody who does not stand there yet: preemptors, heads of lines, tasks on the
//! move, and runs that came back with their node. (Spares are in a book of their own.) From the log alone; where it
//! does not say that a claim has ended, it is taken to be there for a while.

use crate::books::Books;
use crate::facts::{Fact, Taken, is_granted};
use ohm_model::transaction::Row;
use ohm_model::{
    Command, EventKind, Index, JobId, NodeHealth, NodeId, Nomination, OnDisconnect, Outcome, Purpose, QueueStopEvent,
    ReadyTimeoutEvent, RunRef, StopCause, Transaction, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

/// No event tells that a claim for tasks on the move has ended unused, nor that what came back with its node has: so
/// long after the last task of the job that stops has ended, or the node came back, it has.
const CLAIM_MS_MAX: u64 = 120_000;

/// Room on a node for tasks of a group.
#[derive(Debug)]
struct Claim {
    job: JobId,
    group: u16,
    node: NodeId,
    count: u32,
    /// Which ones, if they move.
    tasks: Option<BTreeSet<u32>>,
    /// Who stops for it: it is as important as the most important of them.
    victims: Vec<JobId>,
    /// When its job is to start, if it is the head of a line.
    start_ms: Option<u64>,
    since: Index,
    until_ms: u64,
}

/// Room on a node that is promised to the head of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadRoom {
    pub(crate) job: JobId,
    pub(crate) group: u16,
    pub(crate) count: u32,
    /// What has ended by then may use it before.
    pub(crate) start_ms: u64,
    /// The entry that promised it.
    pub(crate) since: Index,
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    /// Tasks that were told to leave for room that is claimed for them, and that are not placed again.
    moving: BTreeMap<(JobId, u16), BTreeSet<u32>>,
    /// Runs that came back with their node, of which it is not said yet what becomes of them.
    returned: BTreeMap<RunRef, (NodeId, u64)>,
}

impl Claims {
    /// Takes note of the commands of an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, (index, now_ms): (Index, u64), taken: &[Taken<'_>], books: &Books) {
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::Commit(transaction), Outcome::Verdict(verdict)) => {
                    self.commit((index, now_ms), transaction, verdict);
                }
                (Command::RegisterNode { alive, .. }, Outcome::Node { node, .. }) => {
                    let stands = |run: &RunRef| {
                        let mut live = books.live(run.task.job, run.task.group.0);
                        live.any(|(task, standing)| (task, standing.node) == (run.task.task.0, *node))
                    };
                    let keeps = |run: &&RunRef| {
                        let spec = books.jobs.get(&run.task.job);
                        spec.is_some_and(|spec| spec.on_disconnect == OnDisconnect::Keep) && !stands(run)
                    };
                    let back = alive.iter().filter(keeps).map(|run| (*run, (*node, now_ms + CLAIM_MS_MAX)));
                    self.returned.extend(back);
                }
                _ => {}
            }
        }
        for claim in self.claims.iter_mut().filter(|claim| claim.tasks.is_some()) {
            if books.live_of(claim.job).any(|standing| standing.stopping) {
                claim.until_ms = now_ms + CLAIM_MS_MAX;
            }
        }
        self.claims.retain(|claim| claim.until_ms > now_ms);
        self.returned.retain(|_, (_, until_ms)| *until_ms > now_ms);
    }

    fn commit(&mut self, (since, now_ms): (Index, u64), transaction: &Transaction, verdict: &Verdict) {
        let granted = |row: Row| is_granted(transaction, verdict, row);
        let is_head = |row: &Nomination| matches!(row.purpose, Purpose::Head { .. });
        let mut heads = transaction.nominate.iter().enumerate().filter(|(_, row)| is_head(row));
        // A head that is planned anew has these rooms in place of its former ones.
        if let Some((_, head)) = heads.rfind(|(at, _)| granted(Row::Nominate(*at as u32))) {
            self.claims.retain(|claim| claim.start_ms.is_none() || claim.job != head.job);
        }
        for (at, row) in transaction.nominate.iter().enumerate() {
            let (tasks, start_ms, until_ms) = match row.purpose {
                Purpose::Preemptor { expires_ms } => (None, None, expires_ms),
                Purpose::Head { start_ms, until_ms, .. } => (None, Some(start_ms), until_ms),
                Purpose::Move => (Some((row.first.0..row.first.0 + row.count).collect()), None, now_ms + CLAIM_MS_MAX),
                Purpose::Spare | Purpose::Repair => continue,
            };
            if granted(Row::Nominate(at as u32)) {
                let (job, group, node, count) = (row.job, row.group.0, row.node, row.count);
                let victims = transaction.preempt.iter().map(|victim| victim.job).collect();
                self.claims.push(Claim { job, group, node, count, tasks, victims, start_ms, since, until_ms });
            }
        }
        let drained = transaction.evict.iter().enumerate().filter(|(_, (_, cause))| *cause == StopCause::Drained);
        for (_, (run, _)) in drained.filter(|(at, _)| granted(Row::Evict(*at as u32))) {
            self.moving.entry((run.task.job, run.task.group.0)).or_default().insert(run.task.task.0);
        }
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>) {
        let Fact::Happened { kind, .. } = *fact else { return };
        match kind {
            EventKind::Placed { job, group, first, count, node } => {
                self.placed((*job, *group), *first..first + count, *node);
                let is_placed = |run: &RunRef| (run.task.job, run.task.group.0) == (*job, *group);
                let tasks = *first..first + count;
                self.returned.retain(|run, (on, _)| on != node || !is_placed(run) || !tasks.contains(&run.task.task.0));
            }
            EventKind::HeadOver { job, .. } => {
                self.claims.retain(|claim| claim.job != *job || claim.start_ms.is_none())
            }
            EventKind::JobState { job, state, .. } if !matches!(state.as_str(), "pending" | "running") => {
                self.claims.retain(|claim| claim.job != *job);
                self.moving.retain(|(of, _), _| of != job);
            }
            // What is kept for a job ends when it is stopped with its queue, is not ready in time, or may not start any
            // more.
            EventKind::QueueStop(QueueStopEvent { job, .. })
            | EventKind::ReadyTimeout(ReadyTimeoutEvent { job, .. }) => {
                self.claims.retain(|claim| claim.job != *job);
                self.moving.retain(|(of, _), _| of != job);
            }
            // What lives on takes its room, before it is placed again, too: its replacement may have to stop first.
            EventKind::Reconciled { job, group, task, incarnation, lives: false, .. }
            | EventKind::Ended { job, group, task, incarnation, .. } => {
                self.returned.remove(&RunRef::new(*job, *group, *task, incarnation.0));
            }
            EventKind::NodeHealth { node, health: NodeHealth::Lost, .. } => {
                self.returned.retain(|_, (on, _)| on != node);
                self.claims.retain(|claim| claim.node != *node);
            }
            _ => {}
        }
    }

    /// What is placed uses up its claims. Those for tasks on the move last as long as one of them waits.
    fn placed(&mut self, group: (JobId, u16), tasks: std::ops::Range<u32>, node: NodeId) {
        let mut left = tasks.len() as u32;
        let moving = self.moving.entry(group).or_default();
        moving.retain(|task| !tasks.contains(task));
        let settled = moving.is_empty();
        if settled {
            self.moving.remove(&group);
        }
        for claim in self.claims.iter_mut().filter(|claim| (claim.job, claim.group) == group) {
            match &mut claim.tasks {
                Some(_) if settled => claim.count = 0,
                Some(named) => {
                    named.retain(|task| !tasks.contains(task));
                    claim.count = named.len() as u32;
                }
                None => {
                    let used = if claim.node == node { claim.count.min(left) } else { 0 };
                    (claim.count, left) = (claim.count - used, left - used);
                }
            }
        }
        self.claims.retain(|claim| claim.count > 0);
    }

    /// Room on `node` that is kept from waiting tasks of `job`, as job, group and count: for tasks on the move, its own
    /// among them, and for preemptors that are others than it and than those who `yield` to it with all their victims.
    pub(crate) fn against(
        &self,
        job: JobId,
        node: NodeId,
        yields: impl Fn(JobId) -> bool,
    ) -> impl Iterator<Item = (JobId, u16, u32)> {
        let binds = move |claim: &&Claim| {
            let gives_way = yields(claim.job) && claim.victims.iter().all(|victim| yields(*victim));
            claim.node == node && (claim.tasks.is_some() || (claim.job != job && !gives_way))
        };
        self.claims.iter().filter(binds).map(|claim| (claim.job, claim.group, claim.count))
    }

    /// What is promised to heads of lines on `node`.
    pub(crate) fn of_heads(&self, node: NodeId) -> impl Iterator<Item = HeadRoom> + '_ {
        let here = self.claims.iter().filter(move |claim| claim.node == node);
        here.filter_map(|claim| {
            let &Claim { job, group, count, since, .. } = claim;
            Some(HeadRoom { job, group, count, start_ms: claim.start_ms?, since })
        })
    }

    /// The heads of lines, each as often as room is promised to it.
    pub(crate) fn heads(&self) -> impl Iterator<Item = JobId> + '_ {
        self.claims.iter().filter(|claim| claim.start_ms.is_some()).map(|claim| claim.job)
    }

    /// Whether tasks of `job` are on the move.
    pub(crate) fn moves(&self, job: JobId) -> bool {
        self.moving.iter().any(|((of, _), tasks)| *of == job && !tasks.is_empty())
    }

    /// Whether room is claimed for `job` anywhere.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.claims.iter().any(|claim| claim.job == job)
    }

    /// Whether room on `node` is claimed for anybody.
    pub(crate) fn is_on(&self, node: NodeId) -> bool {
        self.claims.iter().any(|claim| claim.node == node)
    }

    /// Whether runs that came back with the node may live on there.
    pub(crate) fn is_unsettled(&self, node: NodeId) -> bool {
        self.returned.values().any(|(on, _)| *on == node)
    }
}
