//! The verdict: the oracle over the history, what tasks wrote themselves, and what the scenario expects.

use crate::history::{History, describe};
use crate::scenario::Expectation;
use crate::timeline::{Submission, Timeline};
use ohm_model::{EventKind, JobId, NodeHealth, RunRef};
use ohm_oracle::{Broken, Oracle, Record};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many records before a broken promise are shown.
const SHOWN: usize = 8;

/// A promise that did not hold, and what went before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which and how.
    pub broken: Broken,
    /// The last records before it, for people.
    pub before: Vec<String>,
}

impl Finding {
    /// A finding that no record leads up to.
    pub fn alone(promise: &'static str, what: String) -> Self {
        Finding { broken: Broken { promise, what }, before: Vec::new() }
    }
}

/// Judges a whole history of what was planned.
pub fn judge(history: &History, timeline: &Timeline, expectations: &[Expectation]) -> Vec<Finding> {
    let mut oracle = Oracle::default();
    let mut findings: Vec<Finding> = Vec::new();
    let mut before: VecDeque<String> = VecDeque::new();
    for record in &history.records {
        oracle.watch(record);
        if let Some(line) = describe(record) {
            before.push_back(line);
            if before.len() > SHOWN {
                before.pop_front();
            }
        }
        for broken in &oracle.broken()[findings.len()..] {
            findings.push(Finding { broken: broken.clone(), before: before.iter().cloned().collect() });
        }
    }
    let judged = findings.len();
    oracle.finish();
    let late = oracle.broken()[judged..].iter();
    findings.extend(late.map(|broken| Finding { broken: broken.clone(), before: Vec::new() }));
    findings.extend(signs_of_life(history));
    findings.extend(unrecorded(history));
    findings.extend(half_done(history, timeline));
    findings.extend(expectations.iter().filter_map(|expectation| disappointed(expectation, history)));
    findings
}

/// Takes out what the scenario is there to break, and finds it missing where it is not there: a verdict that never says
/// no is worth nothing.
pub fn expected(expectations: &[Expectation], findings: Vec<Finding>) -> (Vec<Finding>, Vec<Finding>) {
    let wanted: BTreeSet<&str> = expectations.iter().filter_map(Expectation::broken).collect();
    let (hits, mut rest): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| wanted.contains(finding.broken.promise));
    for promise in wanted {
        if !hits.iter().any(|hit| hit.broken.promise == promise) {
            rest.push(Finding::alone("expectation", format!("{promise} was to be seen broken, and was not")));
        }
    }
    (hits, rest)
}

/// Tasks write down that they live: nobody has to be believed about who ran when.
fn signs_of_life(history: &History) -> Vec<Finding> {
    let (mut began, mut over): (BTreeSet<RunRef>, BTreeMap<RunRef, u64>) = Default::default();
    for record in &history.records {
        match record {
            Record::Began { run, .. } => drop(began.insert(*run)),
            Record::Over { at_ms, run, .. } => {
                let last_ms = over.entry(*run).or_default();
                *last_ms = (*last_ms).max(*at_ms);
            }
            _ => {}
        }
    }
    let mut told: BTreeSet<RunRef> = BTreeSet::new();
    let mut findings = Vec::new();
    for sign in &history.signs {
        let what = match over.get(&sign.run) {
            _ if !began.contains(&sign.run) => "and nobody had recorded its beginning".to_string(),
            Some(over_ms) if sign.at_ms > *over_ms => format!("although it was over at {over_ms} ms"),
            _ => continue,
        };
        if told.insert(sign.run) {
            let what = format!("run {} wrote at {} ms on {}, {what}", sign.run, sign.at_ms, sign.node);
            findings.push(Finding::alone("P2", what));
        }
    }
    findings
}

/// A run that the log says was started and that nobody recorded would escape every other judge.
fn unrecorded(history: &History) -> Option<Finding> {
    let (mut began, mut started): (BTreeSet<RunRef>, BTreeSet<RunRef>) = Default::default();
    for record in &history.records {
        match record {
            Record::Began { run, .. } => drop(began.insert(*run)),
            Record::Applied { applied, .. } => {
                started.extend(applied.events.iter().filter_map(|event| match event.kind {
                    EventKind::Started { job, group, task, incarnation, .. } => {
                        Some(RunRef::new(job, group, task, incarnation.0))
                    }
                    _ => None,
                }))
            }
            _ => {}
        }
    }
    let missing: Vec<&RunRef> = started.difference(&began).collect();
    let what = format!("the log tells of {} runs whose beginning nobody recorded", missing.len());
    missing.first().map(|first| Finding::alone("evidence", format!("{what}, such as {first}")))
}

/// A job that is called succeeded and of which a real task never wrote all that it should have.
fn half_done(history: &History, timeline: &Timeline) -> Option<Finding> {
    let (mut names, mut succeeded): (BTreeMap<JobId, &str>, BTreeSet<&str>) = Default::default();
    for record in &history.records {
        let Record::Applied { applied, .. } = record else { continue };
        for event in &applied.events {
            match &event.kind {
                EventKind::JobSubmitted { job, name } => drop(names.insert(*job, name)),
                EventKind::JobState { name, state, .. } if state == "succeeded" => drop(succeeded.insert(name)),
                _ => {}
            }
        }
    }
    let mut written: BTreeMap<RunRef, u64> = BTreeMap::new();
    history.signs.iter().for_each(|sign| *written.entry(sign.run).or_default() += 1);
    let mut most: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for (run, count) in written {
        if let Some(name) = names.get(&run.task.job) {
            let known = most.entry((name, run.task.task.0)).or_default();
            *known = count.max(*known);
        }
    }
    let all = timeline.submissions.iter().flatten().filter(|submission| succeeded.contains(submission.job.as_str()));
    let is_half_done = |submission: &&Submission| {
        let signs = |task: u32| most.get(&(submission.job.as_str(), task)).copied().unwrap_or(0);
        (0..submission.tasks as u32).any(|task| signs(task) < submission.signs())
    };
    let wrong: Vec<&Submission> = all.filter(is_half_done).collect();
    let what = format!("{} jobs are called succeeded with tasks that did not do all of their work", wrong.len());
    wrong.first().map(|first| Finding::alone("P3", format!("{what}, such as {}", first.job)))
}

fn disappointed(expectation: &Expectation, history: &History) -> Option<Finding> {
    let (mut lost, mut again): (BTreeSet<&str>, BTreeSet<RunRef>) = Default::default();
    for record in &history.records {
        match record {
            Record::Applied { applied, .. } => {
                lost.extend(applied.events.iter().filter_map(|event| match &event.kind {
                    EventKind::NodeHealth { name, health: NodeHealth::Lost, .. } => Some(name.as_str()),
                    _ => None,
                }))
            }
            Record::Began { run, .. } if run.incarnation.0 > 1 => drop(again.insert(*run)),
            _ => {}
        }
    }
    let what = match expectation {
        Expectation::Lost(node) if !lost.contains(node.as_str()) => format!("{node} was never declared lost"),
        Expectation::NoneLost if !lost.is_empty() => {
            format!("declared lost: {}", lost.into_iter().collect::<Vec<_>>().join(", "))
        }
        Expectation::NoneStartedAgain if !again.is_empty() => {
            format!("{} tasks were started again, such as run {}", again.len(), again.iter().next()?)
        }
        _ => return None,
    };
    Some(Finding::alone("expectation", what))
}
