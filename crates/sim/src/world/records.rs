//! The history: what happened goes to the oracle, into the digest, and into the trace if one is wanted.

use super::World;
use ohm_oracle::{Broken, Record};
use ohm_stdx::hash;

impl World {
    /// Hands the history on to the oracle and mixes it into the digest.
    pub(super) fn settle(&mut self) {
        if self.history.is_empty() {
            return;
        }
        let records = std::mem::take(&mut self.history);
        for record in &records {
            self.digest = fold(self.digest, record);
            match record {
                Record::Began { .. } => self.report.began += 1,
                Record::Acknowledged { .. } => self.report.acknowledged += 1,
                _ => {}
            }
            self.note(|| summary(record));
            self.oracle.watch(record);
        }
        if !self.oracle.broken().is_empty() && self.failed.is_none() {
            self.failed = Some(Broken { promise: "oracle", what: "the run ends here".into() });
        }
    }

    /// Writes a line of the trace.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.scenario.trace {
            let now_ms = self.agenda.now_ms();
            self.report.trace.push(format!("{:>5}.{:03} s  {}", now_ms / 1000, now_ms % 1000, text()));
        }
    }
}

fn fold(digest: u64, record: &Record) -> u64 {
    let text = |digest: u64, text: &str| hash::chain(digest, hash::bytes(text.as_bytes()));
    let numbers =
        |digest: u64, numbers: &[u64]| numbers.iter().fold(digest, |digest, number| hash::chain(digest, *number));
    match record {
        Record::Applied { at_ms, copy, index, chain, .. } => text(numbers(digest, &[1, *at_ms, index.0, *chain]), copy),
        Record::Copied { copy, index, chain } => text(numbers(digest, &[2, index.0, *chain]), copy),
        Record::Acknowledged { at_ms, job } => text(numbers(digest, &[3, *at_ms]), job),
        Record::Began { at_ms, node, run, .. } => text(text(numbers(digest, &[4, *at_ms]), node), &run.to_string()),
        Record::Over { at_ms, node, run } => text(text(numbers(digest, &[5, *at_ms]), node), &run.to_string()),
    }
}

/// One record in a line.
fn summary(record: &Record) -> String {
    match record {
        Record::Applied { copy, index, applied, .. } => {
            let kinds: Vec<String> = applied.events.iter().map(|event| format!("{:?}", event.kind)).collect();
            format!("{copy} applies entry {index}: {}", kinds.join("; "))
        }
        Record::Copied { copy, index, .. } => format!("{copy} reaches entry {index}"),
        Record::Acknowledged { job, .. } => format!("a client is told that job {job} is in the cell"),
        Record::Began { node, run, .. } => format!("run {run} begins on {node}"),
        Record::Over { node, run, .. } => format!("run {run} is over on {node}"),
    }
}
