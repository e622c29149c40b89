//! P7 for probes: what counts as ready runs, and its node said so last; what its node said last counts. Nothing is
//! ended by a probe that it does not have, and what fails its liveness probe lives on for no longer than that takes,
//! once all is quiet. That what starts again in place has its place at all times is judged with restarts.

use crate::books::Books;
use crate::facts::{Fact, Taken};
use crate::history::{Broken, Record};
use ohm_model::{
    Command, EventKind, Exit, Incarnation, Index, JobId, NodeId, Outcome, Probe, Probes, RunRef, RunReportKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// What failed its liveness probe is over this long after that at the latest when nothing goes wrong any more: an agent
/// that was restarted counts anew, and a stop takes its grace.
const SLACK_MS: u64 = 30_000;

/// What is known of one run that runs.
#[derive(Debug)]
struct Running {
    run: RunRef,
    node: NodeId,
    /// What its node said last, with the number of that.
    said: (u64, bool),
    /// What was told of it last.
    told: bool,
    /// It came back with its node: what it said before may count or not.
    is_unsure: bool,
}

/// The books.
#[derive(Default)]
pub(crate) struct Probed {
    running: BTreeMap<(JobId, u16, u32), Running>,
    /// What nodes say in the entry at hand, in order.
    words: Vec<(NodeId, RunRef, u64, bool)>,
    /// Runs that came back with their nodes in it.
    returned: BTreeSet<RunRef>,
    /// Since when runs really live, in real time.
    lives: BTreeMap<RunRef, u64>,
    now_ms: u64,
}

impl Probed {
    /// Takes note of what really begins and ends.
    pub(crate) fn watch_lives(&mut self, record: &Record) {
        match record {
            Record::Began { at_ms, run, .. } => {
                self.now_ms = *at_ms;
                self.lives.insert(*run, *at_ms);
            }
            Record::Over { at_ms, run, .. } => {
                self.now_ms = *at_ms;
                self.lives.remove(run);
            }
            Record::Applied { at_ms, .. } => self.now_ms = *at_ms,
            _ => {}
        }
    }

    /// Takes note of what nodes say, before the facts of an entry.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>]) {
        self.words.clear();
        self.returned.clear();
        for (command, outcome) in taken {
            let (Command::Report { node, reports }, Outcome::Done) = (command, outcome) else { continue };
            for report in reports {
                if let RunReportKind::Ready { ready, number, .. } = report.kind {
                    self.words.push((*node, report.run, number, ready));
                }
            }
        }
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        let Fact::Happened { kind, .. } = *fact else { return };
        let problem = match *kind {
            EventKind::Started { job, group, task, incarnation, node } => {
                let run = run_of(job, group, task, incarnation);
                if probes_of((job, group, task), books).is_some_and(decides) {
                    let is_unsure = self.returned.contains(&run);
                    let running = Running { run, node, said: (0, false), told: false, is_unsure };
                    self.running.insert((job, group, task), running);
                }
                None
            }
            EventKind::Reconciled { job, group, task, incarnation, lives: true, .. } => {
                self.returned.insert(run_of(job, group, task, incarnation));
                None
            }
            EventKind::Ended { job, group, task, exit, .. } => {
                self.running.remove(&(job, group, task));
                let may = may_be_unhealthy((job, group, task), books);
                let by_none = exit == Exit::Unhealthy && !may;
                by_none.then_some((job, "is ended by a probe that it does not have"))
            }
            EventKind::Readiness(ref told) => {
                let run = run_of(told.job, told.group, told.task, told.incarnation);
                match self.running.get_mut(&(told.job, told.group, told.task)).filter(|known| known.run == run) {
                    Some(known) if known.node == told.node => {
                        known.told = told.ready;
                        None
                    }
                    _ => Some((told.job, "is told of readiness, and no such run with probes runs there")),
                }
            }
            EventKind::Unhealthy(ref told) => {
                let stands =
                    books.live(told.job, told.group).any(|(live, at)| live == told.task && at.node == told.node);
                (!stands).then_some((told.job, "is told to start again where it does not stand"))
            }
            _ => None,
        };
        if let Some((job, what)) = problem {
            let name = books.jobs.get(&job).map_or("?", |spec| spec.name.as_str());
            broken.push(Broken::new("P7", format!("entry {index}: a task of {name} {what}")));
        }
    }

    /// What was said last is what was told.
    pub(crate) fn entry_over(&mut self, index: Index, books: &Books, broken: &mut Vec<Broken>) {
        let mut touched: BTreeSet<(JobId, u16, u32)> = BTreeSet::new();
        for (node, run, number, ready) in std::mem::take(&mut self.words) {
            let key = (run.task.job, run.task.group.0, run.task.task.0);
            let known = self.running.get_mut(&key).filter(|known| known.run == run && known.node == node);
            if let Some(known) = known.filter(|known| known.said.0 < number) {
                known.said = (number, ready);
                touched.insert(key);
            }
        }
        for key in touched {
            let Some(known) = self.running.get_mut(&key) else { continue };
            if known.said.1 != known.told && !known.is_unsure {
                let name = books.jobs.get(&key.0).map_or("?", |spec| spec.name.as_str());
                let (said, told) = (known.said.1, known.told);
                let what =
                    format!("entry {index}: task {}/{} of {name} said ready: {said}, told: {told}", key.1, key.2);
                broken.push(Broken::new("P7", what));
            }
            // What it says from here on counts in any case.
            if known.said.1 == known.told {
                known.is_unsure = false;
            }
        }
    }

    /// Nothing that fails its liveness probe lives on once all is quiet.
    pub(crate) fn finish(&self, books: &Books, broken: &mut Vec<Broken>) {
        for (run, began_ms) in &self.lives {
            let (job, group) = (run.task.job, run.task.group.0);
            let Some(probes) = probes_of((job, group, run.task.task.0), books) else { continue };
            let (Some(probe), fails_ms @ 1..) = (&probes.liveness, probes.sim.unhealthy_after_ms) else { continue };
            let due_ms = began_ms + fails_ms + takes_ms(probe) + SLACK_MS;
            // Until it has started nobody asks whether it is well.
            let has_started = probes.startup.is_none() || probes.sim.ready_after_ms < fails_ms;
            if has_started && due_ms < self.now_ms && books.jobs.contains_key(&job) {
                let name = &books.jobs[&job].name;
                let what = format!("run {run} of {name} has failed its liveness probe since {due_ms} ms and lives on");
                broken.push(Broken::new("P7", what));
            }
        }
    }
}

fn run_of(job: JobId, group: u16, task: u32, incarnation: Incarnation) -> RunRef {
    RunRef::new(job, group, task, incarnation.0)
}

/// Whether the task is ready only when its probes say so.
pub(crate) fn waits_for_probes(task: (JobId, u16, u32), books: &Books) -> bool {
    probes_of(task, books).is_some_and(decides)
}

/// Whether probes may end the task.
pub(crate) fn may_be_unhealthy(task: (JobId, u16, u32), books: &Books) -> bool {
    probes_of(task, books).is_some_and(may_end)
}

fn probes_of((job, group, task): (JobId, u16, u32), books: &Books) -> Option<&Probes> {
    books.made_of(job, group, task)?.task.probes.as_deref()
}

/// Whether a run with these is ready only when its node says so.
fn decides(probes: &Probes) -> bool {
    probes.startup.is_some() || probes.readiness.is_some()
}

/// Whether they may end a run.
fn may_end(probes: &Probes) -> bool {
    probes.startup.is_some() || probes.liveness.is_some()
}

/// How long it takes at most from the first failure to the last that is allowed.
fn takes_ms(probe: &Probe) -> u64 {
    let seconds = probe.initial_delay_seconds + probe.period_seconds * (probe.failure_threshold + 1);
    u64::from(seconds + probe.timeout_seconds) * 1000
}
