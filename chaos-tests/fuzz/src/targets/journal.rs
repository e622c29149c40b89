//! Journals: that of a node's shim, read at its start, and the recordings of a chaos run, read by the judges.
//!
//! With [`RECORDS`] as the first byte the rest is a file of records; otherwise each part of the input is the body of a
//! frame of the shim's journal, or with [`RAW`] bytes as they are. Besides that nothing panics: a journal is read up to
//! what is wrong with it, records that are read can be written, and damage has a place.

use crate::pieces::{pieces, push_piece};
use ohm_model::{Index, JobId, RunRef};
use ohm_node::cgroup::MemoryKill;
use ohm_node::processes::Identity;
use ohm_node::shim::{Cause, End, EndedRun, JournalRecord, ReplayedJournal};
use ohm_runtime::recorder::{Happened, Line, parse};
use ohm_stdx::codec;

/// The input is a file of records.
const RECORDS: u8 = 0xff;
/// The part is no body of a frame.
const RAW: u8 = 0x80;
const FORMAT: u8 = 1;

pub(crate) fn run(input: &[u8]) {
    match input {
        [RECORDS, text @ ..] => records(&String::from_utf8_lossy(text)),
        parts => journal(parts),
    }
}

fn records(text: &str) {
    match parse("records", text) {
        Ok(lines) => {
            let line = |line: &Line| serde_json::to_string(line).expect("a record can be written") + "\n";
            let written: String = lines.iter().map(line).collect();
            assert_eq!(parse("written", &written).ok().as_ref(), Some(&lines), "they do not read back");
        }
        Err(error) => assert!(error.to_string().starts_with("records:"), "{error}"),
    }
}

fn journal(input: &[u8]) {
    let mut bytes = Vec::new();
    for (kind, part) in pieces(input) {
        match kind & RAW {
            0 => codec::frame(FORMAT, part, &mut bytes),
            _ => bytes.extend_from_slice(part),
        }
    }
    let replayed = ReplayedJournal::of(&bytes);
    let mut again = Vec::new();
    JournalRecord::Boot(replayed.boot.clone()).encode(&mut again);
    for (run, identity) in &replayed.open {
        JournalRecord::Intent(*run).encode(&mut again);
        identity.iter().for_each(|identity| JournalRecord::Started(*run, *identity).encode(&mut again));
    }
    replayed.ended.values().for_each(|ended| JournalRecord::Ended(ended.clone()).encode(&mut again));
    let read = ReplayedJournal::of(&again);
    assert_eq!((read.warning, &read.boot, &read.ended), (None, &replayed.boot, &replayed.ended));
    let open = replayed.open.into_iter().filter(|(run, _)| !replayed.ended.contains_key(run));
    assert!(open.eq(read.open), "what was read is another journal when it is written anew");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let run = |task| RunRef::new(JobId::new(0, 1), 0, task, 1);
    let ended = |task, end| EndedRun {
        run: run(task),
        end,
        memory_kill: MemoryKill::None,
        at_boottime_ms: 5,
        cause: Cause::Own,
    };
    let journal = [
        JournalRecord::Boot("boot".into()),
        JournalRecord::Intent(run(1)),
        JournalRecord::Started(run(1), Identity { pid: 40, start_time_ticks: 99 }),
        JournalRecord::Ended(ended(1, End::Code(3))),
        JournalRecord::Intent(run(2)),
        JournalRecord::Ended(ended(2, End::Signal(9))),
        JournalRecord::Forgotten(run(1)),
        JournalRecord::Withdrawn(run(3)),
    ];
    let (mut parts, mut bytes) = (Vec::new(), Vec::new());
    journal.iter().for_each(|record| push_piece(&mut parts, 0, &codec::encode(record)));
    journal.iter().for_each(|record| record.encode(&mut bytes));
    let mut raw = Vec::new();
    push_piece(&mut raw, RAW, &bytes);
    let node = || "n0".to_string();
    let happened = [
        Happened::Process { role: "shim".into(), name: node(), pid: 7, wall_ms: 5 },
        Happened::Began { node: node(), run: run(1), keeps: false, fence_in_ms: 9 },
        Happened::Over { node: node(), run: run(1) },
        Happened::Acknowledged { job: "train".into() },
        Happened::Copied { index: Index(4), chain: 5 },
        Happened::Exited { name: node(), pid: 7 },
        Happened::Fault { what: "kill".into() },
    ];
    let line = |what| serde_json::to_string(&Line { at_ms: 5, what }).expect("a record can be written") + "\n";
    let text: String = happened.into_iter().map(line).collect();
    vec![parts, raw, [&[RECORDS], text.as_bytes()].concat()]
}
