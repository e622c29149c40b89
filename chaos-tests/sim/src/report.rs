//! What a run found, and what many runs found together.

use ohm_model::{EventKind, RunRef};
use ohm_oracle::{Broken, Record};
use std::collections::BTreeMap;

/// The outcome of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// A hash over everything that happened: equal for equal seeds.
    pub digest: u64,
    /// Promises that did not hold; empty when all is well.
    pub broken: Vec<Broken>,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// How many rows were refused for each reason.
    pub conflicts: BTreeMap<&'static str, u64>,
    /// Entries applied by servers, restarts included.
    pub entries: u64,
    /// Jobs acknowledged to clients.
    pub acknowledged: u64,
    /// Tasks that really began.
    pub began: u64,
    /// Virtual time at which the last of them began.
    pub last_began_ms: u64,
    /// In which virtual time each task ran that is over.
    pub ran_ms: Vec<(u64, u64)>,
    /// When those that run began.
    pub(crate) running_ms: BTreeMap<RunRef, u64>,
    /// In stamped time, when heads of lines were to start as it was first said, by the name of the job.
    pub planned_ms: BTreeMap<String, u64>,
    /// Virtual time at the end.
    pub virtual_ms: u64,
    /// How many nodes the cell had.
    pub nodes: usize,
    /// How many servers founded it.
    pub servers: usize,
    /// Linearizable reads answered.
    pub reads: u64,
    /// How many faults were drawn, and each of them as a line of a scenario.
    pub fault_lines: Vec<String>,
    /// Everything that happened, or the last of it, for people; empty unless a trace was asked for.
    pub trace: Vec<String>,
}

impl Report {
    /// Counts what happened.
    pub(crate) fn note(&mut self, record: &Record) {
        match record {
            Record::Began { at_ms, run, .. } => {
                (self.began, self.last_began_ms) = (self.began + 1, *at_ms);
                self.running_ms.insert(*run, *at_ms);
            }
            Record::Over { at_ms, run, .. } => {
                self.ran_ms.extend(self.running_ms.remove(run).map(|began_ms| (began_ms, *at_ms)));
            }
            Record::Acknowledged { .. } => self.acknowledged += 1,
            Record::Applied { applied, .. } => {
                for event in &applied.events {
                    if let EventKind::HeadWaits(head) = &event.kind {
                        self.planned_ms.entry(head.name.clone()).or_insert(head.start_ms);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Every reason for which a row of a transaction can be refused.
pub const CONFLICT_REASONS: &[&str] = &[
    "NodeGone",
    "NodeNotReady",
    "NodeClassChanged",
    "NodeFull",
    "PortTaken",
    "LimitReached",
    "PodAffinity",
    "PodAntiAffinity",
    "PodTopologySpread",
    "Held",
    "NodeChanged",
    "TaskNotPending",
    "JobChanged",
    "JobClosed",
    "NotReserved",
    "QuotaExceeded",
    "FlavorMissing",
    "QueueHeld",
    "OutOfTurn",
    "BacksOff",
    "NoNeed",
    "GangShort",
    "TopologyBroken",
    "ShardLost",
    "SessionGone",
    "Malformed",
    "Together",
];

/// What many runs found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many runs there were.
    pub runs: u64,
    /// How many of them broke a promise.
    pub failed: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Refused rows by reason.
    pub conflicts: BTreeMap<&'static str, u64>,
    /// Entries applied.
    pub entries: u64,
    /// Jobs acknowledged.
    pub acknowledged: u64,
    /// Tasks begun.
    pub began: u64,
    /// Virtual time.
    pub virtual_ms: u64,
    /// Runs of large cells.
    pub large: u64,
    /// Runs with several servers.
    pub grouped: u64,
    /// Linearizable reads answered.
    pub reads: u64,
}

impl Summary {
    /// Adds one run.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.failed += u64::from(!report.broken.is_empty());
        report.faults.iter().for_each(|(kind, count)| *self.faults.entry(kind).or_insert(0) += count);
        report.conflicts.iter().for_each(|(reason, count)| *self.conflicts.entry(reason).or_insert(0) += count);
        self.entries += report.entries;
        self.acknowledged += report.acknowledged;
        self.began += report.began;
        self.virtual_ms += report.virtual_ms;
        self.grouped += u64::from(report.servers > 1);
        self.reads += report.reads;
        self.large += u64::from(report.nodes > 200);
    }

    /// Kinds of faults and reasons of conflicts that no run has met.
    pub fn missing(&self) -> Vec<&'static str> {
        let grouped = crate::GROUP_FAULT_KINDS.iter().filter(|_| self.grouped > 0);
        let faults = crate::FAULT_KINDS.iter().chain(grouped).filter(|kind| !self.faults.contains_key(*kind));
        let conflicts = CONFLICT_REASONS.iter().filter(|reason| !self.conflicts.contains_key(*reason));
        faults.chain(conflicts).copied().collect()
    }
}
