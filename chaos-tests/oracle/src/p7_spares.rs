//! P7 for spares: what was lost goes where a spare of its group is held, as long as one is. Books: which tasks wait
//! because they lost their node, and which nodes were ever promised to others.

use crate::books::Books;
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::spares::{Spares, node_of};
use ohm_model::{
    Command, EventKind, Exit, Index, JobId, NodeHealth, NodeId, Nomination, Outcome, RepairPolicy, resources,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is lost, and what the entry at hand makes of it.
#[derive(Default)]
pub(crate) struct SparesFirst {
    /// Tasks that lost their node while others of their group stood there all the time since.
    lost: BTreeSet<(JobId, u16, u32)>,
    registered: BTreeMap<NodeId, Index>,
    /// Nodes where room was ever kept for preemptors or moves: whether it still is is not known.
    promised: BTreeSet<NodeId>,
    /// What was held when the entry began, of groups of which something stood.
    before: BTreeMap<(JobId, u16), BTreeMap<NodeId, u32>>,
    /// Spares that were used and whose tasks have not been placed yet.
    used: BTreeMap<(JobId, u16, NodeId), u32>,
    /// Groups of which a lost task goes where no spare is.
    elsewhere: BTreeSet<(JobId, u16)>,
    /// Nodes that anything happened to: what room there was in between is not known.
    touched: BTreeSet<NodeId>,
    /// The oldest state a plan for the job was made on.
    seen: BTreeMap<JobId, Index>,
    /// Jobs of which a run came back with its node: it stands where it stood.
    returned: BTreeSet<JobId>,
}

impl SparesFirst {
    /// Takes note of what is held before the facts of an entry.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>], spares: &Spares, books: &Books) {
        let (lost, registered) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.registered));
        *self = SparesFirst { lost, registered, promised: std::mem::take(&mut self.promised), ..Self::default() };
        for (command, outcome) in taken {
            let (Command::Commit(transaction), Outcome::Verdict(_)) = (command, outcome) else { continue };
            let others = transaction.nominate.iter().filter(|row: &&Nomination| !row.is_spare());
            self.promised.extend(others.map(|row| row.node));
            for guard in &transaction.jobs {
                let seen = self.seen.entry(guard.job).or_insert(transaction.seen);
                *seen = (*seen).min(transaction.seen);
            }
        }
        let hurt: BTreeSet<(JobId, u16)> = self.lost.iter().map(|(job, group, _)| (*job, *group)).collect();
        for (job, group) in hurt.into_iter().filter(|(job, _)| self.seen.contains_key(job)) {
            if books.live(job, group).next().is_some() {
                self.before.insert((job, group), spares.of(job, group).collect());
            }
        }
    }

    /// Takes note of one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books) {
        let kind = match *fact {
            Fact::Registered { node, .. } => {
                self.registered.insert(node, index);
                self.touched.insert(node);
                return;
            }
            Fact::Submitted { .. } => return,
            // Its groups may have other numbers from here on.
            Fact::Updated { job, .. } => return self.forget(job),
            Fact::Happened { kind, .. } => kind,
        };
        self.touched.extend(node_of(kind));
        match kind {
            EventKind::SpareGone { job, group, node, count, reason, .. } if reason == "used" => {
                *self.used.entry((*job, *group, *node)).or_insert(0) += count;
            }
            EventKind::Placed { job, group, first, count, node } => self.placed((*job, *group), *first, *count, *node),
            EventKind::Reconciled { job, .. } => drop(self.returned.insert(*job)),
            EventKind::Stopping { job, group, .. } => self.settle(*job, *group, books),
            EventKind::Ended { job, group, task, exit, cause, .. } => {
                let by_node = matches!(exit, Exit::NodeLost | Exit::Vanished | Exit::LeaseExpired | Exit::NodeShutdown);
                let spec = books.jobs.get(job).and_then(|spec| spec.groups.get(usize::from(*group)));
                // What was told to leave may have a room of its own.
                if by_node && cause.is_none() && spec.is_some_and(|spec| *task < spec.count) {
                    self.lost.insert((*job, *group, *task));
                }
                self.settle(*job, *group, books);
            }
            EventKind::RepairFailed { job, .. } => self.forget(*job),
            EventKind::JobState { job, state, .. } if state != "running" && state != "pending" => self.forget(*job),
            _ => {}
        }
    }

    fn placed(&mut self, (job, group): (JobId, u16), first: u32, count: u32, node: NodeId) {
        let lost = (first..first + count).filter(|task| self.lost.remove(&(job, group, *task))).count() as u32;
        let used = self.used.entry((job, group, node)).or_insert(0);
        let seated = lost.min(*used);
        *used -= seated;
        if lost > seated {
            self.elsewhere.insert((job, group));
        }
    }

    /// A group of which nothing stays starts anew; what it lost is nobody's repair any more.
    fn settle(&mut self, job: JobId, group: u16, books: &Books) {
        if !books.live(job, group).any(|(_, standing)| !standing.stopping) {
            self.lost.retain(|(of, at, _)| (*of, *at) != (job, group));
        }
    }

    fn forget(&mut self, job: JobId) {
        self.lost.retain(|(of, _, _)| *of != job);
        self.before.retain(|(of, _), _| *of != job);
    }

    /// A spare that was held all the while, on a node that nothing else happened to, could have been used.
    pub(crate) fn entry_over(&self, index: Index, spares: &Spares, books: &Books, broken: &mut Vec<Broken>) {
        for &(job, group) in self.elsewhere.iter().filter(|(job, _)| !self.returned.contains(job)) {
            let (Some(spec), Some(before)) = (books.jobs.get(&job), self.before.get(&(job, group))) else { continue };
            let Some(wish) = spec.groups.get(usize::from(group)) else { continue };
            // A repair may leave the domain of its spares; how devices, ports and limits add up is not known here.
            let plain = |resource: &String| resource == resources::CPU || resource == resources::MEMORY;
            let is_plain = wish.requests.keys().all(plain) && wish.ports.is_empty() && wish.max_per_node == 0;
            if spec.repair.policy == RepairPolicy::Widen || !is_plain {
                continue;
            }
            let unused =
                |(node, count): &(NodeId, u32)| before.get(node) == Some(count) && self.is_open(job, *node, books);
            if let Some((node, _)) =
                spares.of(job, group).filter(|(node, _)| !spares.has_others(job, *node)).find(unused)
            {
                let what = format!(
                    "entry {index}: what {}/{} lost is placed elsewhere while its spare on {node} stays unused",
                    spec.name, wish.name
                );
                broken.push(Broken::new("P7", what));
            }
        }
    }

    /// Whether nothing kept the planner from `node`: it takes work, nobody else was ever promised room there, and the
    /// plan was made with the node as it is.
    fn is_open(&self, job: JobId, node: NodeId, books: &Books) -> bool {
        let Some(book) = books.nodes.get(&node) else { return false };
        let known = self.seen.get(&job).zip(self.registered.get(&node)).is_some_and(|(seen, since)| since <= seen);
        let takes = book.health == NodeHealth::Ready && !book.cordoned && !book.draining;
        known && takes && !self.promised.contains(&node) && !self.touched.contains(&node)
    }
}
