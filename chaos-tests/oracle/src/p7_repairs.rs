//! P7: a repair keeps every healthy placement of the job, moves the fewest tasks, and is never charged. Books: how
//! often each task failed by itself, and which tasks wait because they lost their node.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{Class, EventKind, Exit, Index, JobId, NodeId, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// What was charged, and what is being repaired.
#[derive(Default)]
pub(crate) struct Repairs {
    failures: BTreeMap<(JobId, u16, u32), u32>,
    first_placed_ms: BTreeMap<JobId, u64>,
    /// Tasks that lost their node and have no new place yet.
    lost: BTreeMap<JobId, BTreeSet<(u16, u32)>>,
    /// Nodes that were registered anew in the entry at hand.
    renewed: BTreeSet<NodeId>,
}

impl Repairs {
    /// Takes note of the nodes that an entry registers anew: what it says of them may come in any order.
    pub(crate) fn entry_begins(&mut self, facts: &[Fact<'_>]) {
        let renewed = facts.iter().filter_map(|fact| match fact {
            Fact::Registered { node, .. } => Some(*node),
            _ => None,
        });
        self.renewed = renewed.collect();
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        let (at_ms, kind) = match *fact {
            Fact::Registered { .. } | Fact::Submitted { .. } => return,
            Fact::Happened { at_ms, kind } => (at_ms, kind),
        };
        match kind {
            EventKind::Placed { job, group, first, count, .. } => {
                self.first_placed_ms.entry(*job).or_insert(at_ms);
                if let Some(lost) = self.lost.get_mut(job) {
                    lost.retain(|(of, task)| of != group || !(*first..first + count).contains(task));
                }
            }
            EventKind::Ended { job, group, task, exit, cause, .. } => match (exit, cause) {
                (Exit::NodeLost | Exit::Vanished | Exit::LeaseExpired, None) => {
                    self.lost.entry(*job).or_default().insert((*group, *task));
                }
                // A success is charged to nobody, but of a service it is an end that should not be.
                (Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory | Exit::StartFailed, None)
                    if *exit != Exit::Code(0) =>
                {
                    *self.failures.entry((*job, *group, *task)).or_insert(0) += 1;
                }
                _ => {}
            },
            EventKind::Stopping { job, group, task, cause: StopCause::Moved, node, .. } => {
                let repairing = self.lost.get(job).is_some_and(|lost| !lost.is_empty());
                if repairing && !self.renewed.contains(node) {
                    let name = books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                    let what = format!("entry {index}: a repair of {name} moves task {group}/{task} off node {node}");
                    broken.push(Broken::new("P7", what));
                }
            }
            EventKind::Stopping { job, cause: StopCause::GangRestart, .. } => {
                self.judge_restart(index, *job, books, broken);
            }
            EventKind::JobState { job, state, reason, .. } if state == "failed" => {
                self.judge_failure(index, *job, at_ms, reason, books, broken);
            }
            _ => {}
        }
    }

    /// A gang may only be taken down whole when what is left of it is below its minimum.
    fn judge_restart(&self, index: Index, job: JobId, books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let lost = self.lost.get(&job);
        let short = spec.groups.iter().enumerate().any(|(at, group)| {
            let gone = lost.map_or(0, |lost| lost.iter().filter(|(of, _)| usize::from(*of) == at).count());
            (group.count as usize).saturating_sub(gone) < group.min_count as usize
        });
        if !short {
            let what = format!("entry {index}: {} is restarted whole although its minimum still stands", spec.name);
            broken.push(Broken::new("P7", what));
        }
    }

    /// A job fails because a task failed by itself too often, or because its time is over, and for nothing else.
    fn judge_failure(
        &self,
        index: Index,
        job: JobId,
        at_ms: u64,
        reason: &str,
        books: &Books,
        broken: &mut Vec<Broken>,
    ) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let mut failures = self.failures.range((job, 0, 0)..=(job, u16::MAX, u32::MAX));
        let too_often = spec.class != Class::Service && failures.any(|(_, failures)| *failures > spec.retries);
        let since_ms = self.first_placed_ms.get(&job).map_or(0, |first_ms| at_ms.saturating_sub(*first_ms));
        let too_long = spec.active_deadline_seconds > 0 && since_ms >= spec.active_deadline_seconds * 1000;
        if !too_often && !too_long {
            let what = format!(
                "entry {index}: {} fails ({reason}) although no task failed more than {} times by itself",
                spec.name, spec.retries
            );
            broken.push(Broken::new("P7", what));
        }
    }
}
