//! The verdict: the oracle over the history, what tasks wrote themselves, and what the scenario expects.

use crate::history::{History, describe};
use crate::scenario::Expectation;
use ohm_model::{EventKind, NodeHealth, RunRef};
use ohm_oracle::{Broken, Oracle, Record};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many records before a broken promise are shown.
const SHOWN: usize = 12;
/// The promises that the oracle judges here; P10 is judged by whoever waits for the cell to become quiet.
pub const JUDGED: &str = "P1 P2 P3 P4 P6 P9 P10";

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

/// Judges a whole history.
pub fn judge(history: &History, expectations: &[Expectation]) -> Vec<Finding> {
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
    findings.extend(expectations.iter().filter_map(|expectation| disappointed(expectation, history)));
    findings
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
