//! How often tasks were started, and why more than once: each start but the first has a loss before it, and a program
//! that ended by itself with 0 is not run again unless its node was really lost.
//!
//! A loss is what the log calls one. Of real nodes it is not believed alone: the node was declared lost, its fence
//! struck, or the shim of the run was gone, and what a shim had written down before that is not lost with it.

use crate::history::History;
use crate::timeline::{Submission, Timeline};
use crate::verdict::Finding;
use ohm_model::{EventKind, Exit, JobId, NodeHealth, RunRef, StopCause, TaskRef};
use ohm_oracle::Record;
use serde::Serialize;
use std::collections::BTreeMap;

/// How long the shim may take from the end of a program until that is on its disk, in milliseconds.
const NOTED_MS: u64 = 1_000;

/// Starts of one run of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Starts {
    /// Tasks that were started.
    pub tasks: usize,
    /// How often, together.
    pub starts: usize,
    /// The most starts of one task.
    pub most_of_one: usize,
    /// Starts that follow a real loss.
    pub after_losses: usize,
    /// Starts that follow a stop that the cell asked for.
    pub after_stops: usize,
    /// Starts with neither before them.
    pub without_reason: usize,
    /// Programs that had ended by themselves with 0 and were run again, their node lost.
    pub done_and_lost: usize,
    /// Those whose node was not lost.
    pub done_again: usize,
}

/// What is known of one run.
#[derive(Default)]
struct Run<'h> {
    node: &'h str,
    began_ms: u64,
    over_ms: Option<u64>,
    ended: Option<(Exit, Option<StopCause>)>,
    signs: u64,
}

/// Why a task was started again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Lost,
    Stopped,
    None,
}

impl Starts {
    /// Counts what the history tells; what should not have been started is found.
    pub fn of(history: &History, timeline: &Timeline) -> (Starts, Vec<Finding>) {
        let book = Book::of(history);
        let work = book.work(timeline);
        let (mut starts, mut findings) = (Starts::default(), Vec::new());
        let mut tasks: BTreeMap<TaskRef, Vec<&RunRef>> = BTreeMap::new();
        book.runs.keys().for_each(|run| tasks.entry(run.task).or_default().push(run));
        for (task, runs) in tasks {
            starts.tasks += 1;
            starts.starts += runs.len();
            starts.most_of_one = starts.most_of_one.max(runs.len());
            for before in &runs[..runs.len() - 1] {
                let (run, reason) = (&book.runs[before], book.reason(before));
                *match reason {
                    Reason::Lost => &mut starts.after_losses,
                    Reason::Stopped => &mut starts.after_stops,
                    Reason::None => &mut starts.without_reason,
                } += 1;
                let is_done = work.get(&task.job).is_some_and(|signs| run.signs >= *signs);
                if is_done && reason != Reason::Stopped {
                    *(if reason == Reason::Lost { &mut starts.done_and_lost } else { &mut starts.done_again }) += 1;
                }
                if reason == Reason::None {
                    findings.push(needless(before, run, is_done));
                }
            }
        }
        (starts, findings)
    }

    /// For people.
    pub fn text(&self) -> Vec<String> {
        let Starts { tasks, starts, most_of_one, after_losses, after_stops, without_reason, .. } = self;
        vec![
            format!(
                "{starts} of {tasks} tasks, {most_of_one} of one at most; again after a loss {after_losses}, after a \
                 stop {after_stops}, for no reason {without_reason}"
            ),
            format!(
                "programs that had ended with 0 and ran again: {}, and {} whose node was lost",
                self.done_again, self.done_and_lost
            ),
        ]
    }
}

fn needless(before: &RunRef, run: &Run<'_>, is_done: bool) -> Finding {
    let ended = run.ended.map_or("never ended".to_string(), |(exit, _)| exit.to_string());
    let done = if is_done { ", had ended by itself with 0," } else { "" };
    let what =
        format!("run {before} on {}{done} was not lost (the log says: {ended}), and its task ran again", run.node);
    Finding::alone("P7", what)
}

/// All runs and what became of nodes.
#[derive(Default)]
struct Book<'h> {
    runs: BTreeMap<RunRef, Run<'h>>,
    names: BTreeMap<&'h str, JobId>,
    /// When nodes were declared lost.
    lost_ms: BTreeMap<&'h str, Vec<u64>>,
    /// Runs of shims, and when theirs was gone if it is.
    shims: BTreeMap<RunRef, Option<u64>>,
}

impl<'h> Book<'h> {
    fn of(history: &'h History) -> Self {
        let mut book = Book { shims: history.shims.clone(), ..Book::default() };
        for record in &history.records {
            match record {
                Record::Began { at_ms, node, run, .. } => {
                    let run = book.runs.entry(*run).or_default();
                    (run.node, run.began_ms) = (node, *at_ms);
                }
                Record::Over { at_ms, run, .. } => {
                    let run = book.runs.entry(*run).or_default();
                    run.over_ms = Some(run.over_ms.unwrap_or(0).max(*at_ms));
                }
                Record::Applied { at_ms, applied, .. } => {
                    applied.events.iter().for_each(|event| book.note(*at_ms, &event.kind));
                }
                _ => {}
            }
        }
        for sign in &history.signs {
            if let Some(run) = book.runs.get_mut(&sign.run) {
                run.signs += 1;
            }
        }
        book
    }

    fn note(&mut self, at_ms: u64, kind: &'h EventKind) {
        match kind {
            EventKind::JobSubmitted { job, name } => drop(self.names.insert(name, *job)),
            EventKind::NodeHealth { name, health: NodeHealth::Lost, .. } => {
                self.lost_ms.entry(name).or_default().push(at_ms);
            }
            EventKind::Ended { job, group, task, incarnation, exit, cause, .. } => {
                let run = RunRef::new(*job, *group, *task, incarnation.0);
                if let Some(run) = self.runs.get_mut(&run) {
                    run.ended = Some((*exit, *cause));
                }
            }
            _ => {}
        }
    }

    /// How many signs of life a real task has written when all of its work is done, by job.
    fn work(&self, timeline: &Timeline) -> BTreeMap<JobId, u64> {
        let of = |one: &Submission| Some((*self.names.get(one.job.as_str())?, one.signs()));
        let all = timeline.submissions.iter().flatten().filter(|one| one.load.task_ms.is_some());
        all.filter_map(of).filter(|(_, signs)| *signs > 0).collect()
    }

    /// Why what came after this run could be started.
    fn reason(&self, number: &RunRef) -> Reason {
        let run = &self.runs[number];
        let next_ms = self.runs.range(*number..).nth(1).map_or(u64::MAX, |(_, next)| next.began_ms);
        let node_was_lost = || {
            let lost_ms = self.lost_ms.get(run.node).into_iter().flatten();
            lost_ms.into_iter().any(|lost_ms| (run.began_ms..=next_ms).contains(lost_ms))
        };
        match run.ended {
            Some((_, Some(_))) | Some((Exit::NeverStarted, None)) => Reason::Stopped,
            Some((Exit::NodeLost, None)) if node_was_lost() => Reason::Lost,
            Some((Exit::LeaseExpired, None)) => Reason::Lost,
            // Of simulated nodes nobody but the log knows.
            Some((Exit::Vanished | Exit::NodeShutdown, None)) => match self.shims.get(number) {
                None => Reason::Lost,
                Some(Some(gone_ms)) if *gone_ms <= run.over_ms.unwrap_or(u64::MAX).saturating_add(NOTED_MS) => {
                    Reason::Lost
                }
                Some(_) => Reason::None,
            },
            _ => Reason::None,
        }
    }
}

#[cfg(test)]
#[path = "starts/tests.rs"]
mod tests;
