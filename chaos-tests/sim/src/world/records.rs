//! What of the history goes into the digest, and into the trace if one is wanted.

use crate::clocks::EPOCH_MS;
use ohm_model::Command;
use ohm_oracle::Record;
use ohm_stdx::hash;

pub(super) fn fold(digest: u64, record: &Record) -> u64 {
    let text = |digest: u64, text: &str| hash::chain(digest, hash::bytes(text.as_bytes()));
    let numbers =
        |digest: u64, numbers: &[u64]| numbers.iter().fold(digest, |digest, number| hash::chain(digest, *number));
    match record {
        Record::Applied { at_ms, copy, index, chain, .. } => text(numbers(digest, &[1, *at_ms, index.0, *chain]), copy),
        Record::Copied { copy, index, chain } => text(numbers(digest, &[2, index.0, *chain]), copy),
        Record::Acknowledged { at_ms, job } => text(numbers(digest, &[3, *at_ms]), job),
        Record::Began { at_ms, node, run, .. } => text(text(numbers(digest, &[4, *at_ms]), node), &run.to_string()),
        Record::ClocksMoved { at_ms } => numbers(digest, &[6, *at_ms]),
        Record::Stamped { at_ms, stamp_ms } => numbers(digest, &[7, *at_ms, *stamp_ms]),
        Record::Over { at_ms, node, run } => text(text(numbers(digest, &[5, *at_ms]), node), &run.to_string()),
    }
}

/// One record in a line. That a copy follows says nothing, unless it follows another one into nowhere, and then a
/// promise broke.
pub(super) fn summary(record: &Record) -> Option<String> {
    Some(match record {
        Record::Applied { copy, index, entry, applied, .. } if applied.events.is_empty() => {
            let commands: Vec<String> = entry.commands.iter().map(|envelope| word(&envelope.command)).collect();
            format!("{copy} applies entry {index} of {}: {}", stamp(entry.stamp_ms), commands.join(", "))
        }
        Record::Applied { copy, index, entry, applied, .. } => {
            let kinds: Vec<String> = applied.events.iter().map(|event| format!("{:?}", event.kind)).collect();
            format!("{copy} applies entry {index} of {}: {}", stamp(entry.stamp_ms), kinds.join("; "))
        }
        Record::Copied { .. } | Record::Stamped { .. } => return None,
        Record::Acknowledged { job, .. } => format!("a client is told that job {job} is in the cell"),
        Record::ClocksMoved { .. } => "a majority of the clocks was moved".to_string(),
        Record::Began { node, run, .. } => format!("run {run} begins on {node}"),
        Record::Over { node, run, .. } => format!("run {run} is over on {node}"),
    })
}

/// When an entry was made, by the time of the cell: what true clocks show at the beginning of the run is 0.
fn stamp(stamp_ms: u64) -> String {
    let since_ms = stamp_ms as i64 - EPOCH_MS as i64;
    format!("{}.{:03} s", since_ms / 1000, since_ms.rem_euclid(1000))
}

/// The first word of a command, for entries that caused nothing to tell of.
fn word(command: &Command) -> String {
    let text = format!("{command:?}");
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default().to_string()
}
