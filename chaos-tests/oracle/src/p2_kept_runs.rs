//! P2, for jobs that say `onDisconnect: keep`: while a node is away two runs of a task may live, and not after. When
//! the node is back the log says of each kept run which of the two lives on, and why, and tells the other one to stop
//! in the same entry; once everything is quiet every task has one live run at most, and none lives that the log knows
//! nothing of. Books: which runs were kept, where, and what really lives.

use crate::books::Books;
use crate::facts::Taken;
use crate::history::Caused;
use crate::history::{Broken, Record};
use ohm_model::{
    Command, EventKind, Exit, Index, JobId, NodeHealth, NodeId, OnDisconnect, Outcome, PreemptionChange,
    PreemptionEvent, RunRef, TaskRef,
};
use std::collections::{BTreeMap, BTreeSet};

/// What was kept, and what lives.
#[derive(Default)]
pub(crate) struct KeptRuns {
    /// Runs that ended for the log with their node alone, by node.
    away: BTreeMap<NodeId, BTreeSet<RunRef>>,
    /// Names of nodes that were lost.
    lost: BTreeMap<String, NodeId>,
    /// Runs of such jobs that really live, by task, with the name of their node.
    live: BTreeMap<TaskRef, BTreeMap<RunRef, String>>,
}

impl KeptRuns {
    /// Takes note of what really began and ended.
    pub(crate) fn watch(&mut self, record: &Record) {
        match record {
            Record::Began { node, run, keeps: true, .. } => {
                self.live.entry(run.task).or_default().insert(*run, node.clone());
            }
            Record::Over { node, run, .. } => {
                if let Some(live) = self.live.get_mut(&run.task) {
                    live.retain(|other, on| (other, &*on) != (run, node));
                }
            }
            _ => {}
        }
    }

    /// Judges one entry; `books` know of it already.
    pub(crate) fn entry(
        &mut self,
        index: Index,
        taken: &[Taken<'_>],
        applied: &Caused,
        books: &Books,
        broken: &mut Vec<Broken>,
    ) {
        for event in &applied.events {
            self.note(&event.kind, books);
        }
        judge_winners(index, applied, books, broken);
        let told: BTreeSet<RunRef> = applied.events.iter().filter_map(|event| reconciled(&event.kind)).collect();
        for (command, outcome) in taken {
            let (alive, node) = match (command, outcome) {
                (Command::RegisterNode { alive, .. }, Outcome::Node { node, .. }) => (alive, *node),
                _ => continue,
            };
            for run in self.away.remove(&node).unwrap_or_default() {
                if alive.contains(&run) && !told.contains(&run) {
                    let what =
                        format!("entry {index}: run {run} is back on node {node}, and nobody says what becomes of it");
                    broken.push(Broken::new("P2", what));
                }
            }
        }
    }

    fn note(&mut self, kind: &EventKind, books: &Books) {
        match kind {
            EventKind::Ended { job, group, task, incarnation, node, exit: Exit::NodeLost, cause: None } => {
                let keeps = books.jobs.get(job).is_some_and(|spec| spec.on_disconnect == OnDisconnect::Keep);
                if keeps {
                    self.away.entry(*node).or_default().insert(RunRef::new(*job, *group, *task, incarnation.0));
                }
            }
            EventKind::NodeHealth { node, name, health: NodeHealth::Lost } => {
                self.lost.insert(name.clone(), *node);
            }
            // Who comes back under its name is another node, and nobody there knows of its runs.
            EventKind::NodeRemoved { name } => {
                self.lost.remove(name).and_then(|node| self.away.remove(&node));
            }
            // Closed, evicted or preempted whole, stopped with its queue or changed: nothing of it is to come back.
            EventKind::JobState { job, state, .. } if !["pending", "running"].contains(&state.as_str()) => {
                self.forget(*job)
            }
            EventKind::JobUpdated { job, .. } | EventKind::RepairFailed { job, .. } => self.forget(*job),
            EventKind::QueueStop(stop) if stop.stopped => self.forget(stop.job),
            EventKind::ReadyTimeout(late) => self.forget(late.job),
            EventKind::Preemption(PreemptionEvent {
                job,
                change: PreemptionChange::Stopped { runs: None, .. },
                ..
            }) => {
                self.forget(*job);
            }
            _ => {}
        }
    }

    fn forget(&mut self, job: JobId) {
        self.away.values_mut().for_each(|runs| runs.retain(|run| run.task.job != job));
    }

    /// Judges what lives when everything is quiet.
    pub(crate) fn finish(&self, books: &Books, broken: &mut Vec<Broken>) {
        for (task, live) in &self.live {
            let told = || live.iter().map(|(run, node)| format!("{run} on {node}")).collect::<Vec<_>>().join(", ");
            let stands = books.live(task.job, task.group.0).find(|(at, _)| *at == task.task.0);
            let name = stands.and_then(|(_, standing)| books.nodes.get(&standing.node)).map(|book| &book.spec.name);
            let strays = live.values().any(|node| Some(node) != name);
            if live.len() > 1 {
                broken.push(Broken::new("P2", format!("two runs of one task live on in the end: {}", told())));
            } else if strays {
                broken.push(Broken::new(
                    "P2",
                    format!("a kept run lives on in the end that the log has given up: {}", told()),
                ));
            }
        }
    }
}

/// Where a kept run lives on, nothing else stands in its place but what is to stop.
fn judge_winners(index: Index, applied: &Caused, books: &Books, broken: &mut Vec<Broken>) {
    let mut winners: BTreeMap<(JobId, u16, u32), NodeId> = BTreeMap::new();
    for event in &applied.events {
        if let EventKind::Reconciled { job, group, task, node, lives, .. } = &event.kind {
            match lives {
                true => drop(winners.insert((*job, *group, *task), *node)),
                false => drop(winners.remove(&(*job, *group, *task))),
            }
        }
    }
    for ((job, group, task), node) in winners {
        let stands = books.live(job, group).find(|(at, _)| *at == task).map(|(_, standing)| standing);
        if let Some(other) = stands.filter(|other| other.node != node && !other.stopping) {
            let what =
                format!("task {group}/{task} of job {job} lives on on node {node}, and on {} as well", other.node);
            broken.push(Broken::new("P2", format!("entry {index}: {what}")));
        }
    }
}

fn reconciled(kind: &EventKind) -> Option<RunRef> {
    match kind {
        EventKind::Reconciled { job, group, task, incarnation, .. } => {
            Some(RunRef::new(*job, *group, *task, incarnation.0))
        }
        _ => None,
    }
}
