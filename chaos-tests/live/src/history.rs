//! What the processes recorded and what the log says, merged by time into the one history that the oracle judges.

use ohm_model::{Entry, Index, RunRef};
use ohm_oracle::{Caused, Record};
use ohm_runtime::recorder::{Happened, Line};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The records of one process, in order.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    role: String,
    name: String,
    pid: u32,
    lines: Vec<Line>,
}

impl Tape {
    /// The records of one file; nothing when its process died before the first one was whole.
    pub fn of(lines: Vec<Line>) -> Option<Tape> {
        match lines.first().map(|line| line.what.clone())? {
            Happened::Process { role, name, pid, .. } => Some(Tape { role, name, pid, lines }),
            _ => None,
        }
    }

    /// What the wall clock is ahead of CLOCK_BOOTTIME, by the first record.
    fn wall_ahead_ms(&self) -> Option<u64> {
        match self.lines.first()? {
            Line { at_ms, what: Happened::Process { wall_ms, .. } } => Some(wall_ms.saturating_sub(*at_ms)),
            _ => None,
        }
    }
}

/// One entry of the log, replayed.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Its index.
    pub index: Index,
    /// The entry.
    pub entry: Arc<Entry>,
    /// What it caused.
    pub applied: Arc<Caused>,
    /// The running hash after it.
    pub chain: u64,
}

/// What a task itself wrote down: that it lived at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// Which run wrote.
    pub run: RunRef,
    /// When, in milliseconds of CLOCK_BOOTTIME.
    pub at_ms: u64,
    /// Where.
    pub node: String,
}

/// Everything, in the order of real time.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// For the oracle.
    pub records: Vec<Record>,
    /// Faults and their ends.
    pub faults: Vec<(u64, String)>,
    /// What tasks wrote themselves.
    pub signs: Vec<Sign>,
    /// Runs of real nodes, and when the shim that started each was gone if it is.
    pub shims: BTreeMap<RunRef, Option<u64>>,
}

impl History {
    /// Merges the tapes of all processes with the log.
    pub fn merge(tapes: &[Tape], log: &[Logged], signs: Vec<Sign>) -> History {
        let mut history = History { signs, ..History::default() };
        let ends = ends_of_processes(tapes);
        let mut copies = Vec::new();
        let mut timed: Vec<Record> = Vec::new();
        for tape in tapes {
            for Line { at_ms, what } in &tape.lines {
                let at_ms = *at_ms;
                match what.clone() {
                    Happened::Began { node, run, keeps, fence_in_ms } => {
                        timed.push(Record::Began { at_ms, node, run, keeps, fence_in_ms });
                    }
                    Happened::Over { node, run } => timed.push(Record::Over { at_ms, node, run }),
                    Happened::Acknowledged { job } => timed.push(Record::Acknowledged { at_ms, job }),
                    Happened::Copied { index, chain } => {
                        let copy = format!("{} ({})", tape.name, tape.pid);
                        copies.push(Record::Copied { copy, index, chain });
                    }
                    Happened::Fault { what } => history.faults.push((at_ms, what)),
                    Happened::Process { .. } | Happened::Exited { .. } => {}
                }
            }
            if tape.role == "shim" {
                let gone_ms = ends.get(&tape.pid).copied().or_else(|| gone_by_itself(tape, tapes));
                history.shims.extend(begun(tape).map(|run| (run, gone_ms)));
            }
            if let Some(&at_ms) = ends.get(&tape.pid) {
                let over = |(node, run)| Record::Over { at_ms, node, run };
                timed.extend(open_runs(tape).into_iter().map(over));
            }
        }
        let ahead_ms = tapes.iter().filter(|tape| tape.role == "server").find_map(Tape::wall_ahead_ms).unwrap_or(0);
        let mut floor_ms = 0;
        for logged in log {
            floor_ms = logged.entry.stamp_ms.saturating_sub(ahead_ms).max(floor_ms);
            let Logged { index, entry, applied, chain } = logged.clone();
            timed.push(Record::Applied { at_ms: floor_ms, copy: "the log".into(), index, entry, applied, chain });
        }
        timed.sort_by_key(moment);
        // Hashes of copies have no moment that matters; they come after those that they are compared with.
        history.records = timed.into_iter().chain(copies).collect();
        history.faults.sort();
        history
    }
}

/// Where a record stands. Within one millisecond the runs of a task come one after another: the clock has no finer
/// word, and whoever was told of an end may begin at once.
fn moment(record: &Record) -> (u64, u8, u32, u8) {
    match record {
        Record::Began { at_ms, run, .. } => (*at_ms, 0, run.incarnation.0, 0),
        Record::Over { at_ms, run, .. } => (*at_ms, 0, run.incarnation.0, 1),
        Record::Applied { at_ms, .. } => (*at_ms, 1, 0, 0),
        Record::Acknowledged { at_ms, .. } => (*at_ms, 2, 0, 0),
        _ => (u64::MAX, 0, 0, 0),
    }
}

/// When processes ended with which everything they ran ended too.
fn ends_of_processes(tapes: &[Tape]) -> BTreeMap<u32, u64> {
    let ended = |line: &Line| match line.what {
        Happened::Exited { pid, .. } => Some((pid, line.at_ms)),
        _ => None,
    };
    tapes.iter().flat_map(|tape| &tape.lines).filter_map(ended).collect()
}

/// When a shim that nobody struck wrote its last record, if another one came in its place: its own fence ended it.
fn gone_by_itself(tape: &Tape, tapes: &[Tape]) -> Option<u64> {
    let last_ms = tape.lines.last()?.at_ms;
    let is_next = |other: &Tape| {
        let first = other.lines.first();
        other.role == tape.role && other.name == tape.name && first.is_some_and(|first| first.at_ms > last_ms)
    };
    tapes.iter().any(is_next).then_some(last_ms)
}

fn begun(tape: &Tape) -> impl Iterator<Item = RunRef> {
    tape.lines.iter().filter_map(|line| match &line.what {
        Happened::Began { run, .. } => Some(*run),
        _ => None,
    })
}

/// Runs that began and of whose end the process that ran them could not tell.
fn open_runs(tape: &Tape) -> BTreeSet<(String, RunRef)> {
    let mut open = BTreeSet::new();
    if matches!(tape.role.as_str(), "shim" | "fleet") {
        for line in &tape.lines {
            match &line.what {
                Happened::Began { node, run, .. } => drop(open.insert((node.clone(), *run))),
                Happened::Over { node, run } => drop(open.remove(&(node.clone(), *run))),
                _ => {}
            }
        }
    }
    open
}

/// One record as a line for people; hashes of copies say nothing to them.
pub fn describe(record: &Record) -> Option<String> {
    match record {
        Record::Applied { at_ms, index, applied, entry, .. } => {
            let events: Vec<String> = applied.events.iter().take(4).map(|event| format!("{:?}", event.kind)).collect();
            let commands = entry.commands.len();
            (!events.is_empty()).then(|| format!("{at_ms} entry {index} ({commands} commands): {}", events.join(", ")))
        }
        Record::Acknowledged { at_ms, job } => Some(format!("{at_ms} a client is told that {job} is in the cell")),
        Record::Began { at_ms, node, run, .. } => Some(format!("{at_ms} run {run} begins on {node}")),
        Record::Over { at_ms, node, run } => Some(format!("{at_ms} run {run} is over on {node}")),
        _ => None,
    }
}

#[cfg(test)]
#[path = "history/tests.rs"]
mod tests;
