//! What members of the embedded log say to each other: words of raft, pieces of snapshots, farewells.
//!
//! Each part of the input is the body of one message of the kind that its kind names, sealed as members do, or with
//! [`RAW`] bytes as they are; with [`APPEND`] the receiver is asked to append. Time passes after each. The receiver is
//! one of three voters. Besides that nothing panics: what it yields is in order, and a log that ends says why.

use crate::pieces::{pieces, push_piece};
use bytes::Bytes;
use ohm_log::{Delivery, Log, LogEvent, LogRequest, MemDisk};
use ohm_log_raft::{RaftConfig, RaftLog, Remarks};
use ohm_model::Index;
use ohm_stdx::hash;
use std::collections::BTreeMap;

/// The part is a whole message.
const RAW: u8 = 0x40;
/// The receiver is asked to append the part.
const APPEND: u8 = 0x80;
/// The format of messages.
const FORMAT: u8 = 0xb1;
const CELL: u64 = 7;
const HEAD_BYTES: usize = 18;
const PARTS_MAX: usize = 60;

fn config(member: u64) -> RaftConfig {
    RaftConfig { segment_bytes: 256, ..RaftConfig::group(CELL, member, vec![1, 2, 3]) }
}

/// A message as a member seals it.
fn sealed(kind: u8, body: &[u8]) -> Bytes {
    let sum = hash::mix(hash::bytes(body) ^ CELL ^ (u64::from(kind) << 56));
    let mut bytes = vec![FORMAT, kind];
    bytes.extend_from_slice(&CELL.to_le_bytes());
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes.into()
}

pub(crate) fn run(input: &[u8]) {
    let mut log = RaftLog::create(MemDisk::new(), config(1), Remarks::none()).expect("an empty folder");
    let (mut now_ms, mut last) = (1_000, Index(0));
    for (kind, part) in pieces(input).take(PARTS_MAX) {
        if kind & APPEND != 0 {
            let bytes = Bytes::copy_from_slice(part);
            let _ = log.submit(now_ms, LogRequest::Append { token: now_ms, bytes });
        } else {
            let bytes = if kind & RAW != 0 { Bytes::copy_from_slice(part) } else { sealed(kind & 7, part) };
            if let Err(error) = log.deliver(now_ms, Delivery::Message(bytes)) {
                assert!(!error.to_string().is_empty());
            }
        }
        // Some parts come at once, some long after.
        now_ms += if kind & 0x20 != 0 { 2_000 } else { 20 };
        for _ in 0..4 {
            let mut events = Vec::new();
            let polled = log.poll(now_ms, &mut events);
            last = assert_in_order(&events, last);
            if let Err(failure) = polled {
                return assert!(!failure.to_string().is_empty());
            }
        }
    }
}

fn assert_in_order(events: &[LogEvent], mut last: Index) -> Index {
    for event in events {
        match event {
            LogEvent::Committed { index, .. } => {
                assert!(*index > last, "entry {index} after {last}");
                last = *index;
            }
            LogEvent::InstallSnapshot { index, .. } => last = *index,
            _ => {}
        }
    }
    last
}

/// What the first of three real members hears: an election, appends, a snapshot after it was cut off.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for leads in [false, true] {
        let mut group = Group::new();
        group.pass(3_000);
        if leads {
            group.ask_leader(LogRequest::Transfer { to: Some(1) });
            group.pass(1_000);
        }
        group.append(5);
        group.pass(500);
        seeds.push(std::mem::take(&mut group.heard));
        group.cut = true;
        group.pass(4_000);
        group.append(9);
        group.pass(1_000);
        group.save();
        group.cut = false;
        group.pass(4_000);
        seeds.push(std::mem::take(&mut group.heard));
    }
    // The first parts of each, and those that are more than a sign of life.
    let some = |seed: &Vec<u8>, bytes_min: usize| {
        let mut parts = Vec::new();
        let longer = pieces(seed).filter(|(_, part)| part.len() >= bytes_min);
        longer.take(10).for_each(|(kind, part)| push_piece(&mut parts, kind, part));
        parts
    };
    seeds.iter().flat_map(|seed| [some(seed, 0), some(seed, 40)]).collect()
}

/// Three members on one network.
struct Group {
    logs: BTreeMap<u64, RaftLog<MemDisk>>,
    now_ms: u64,
    /// Whether the first is cut off.
    cut: bool,
    /// What the first has heard, as parts.
    heard: Vec<u8>,
}

impl Group {
    fn new() -> Self {
        let log = |member| RaftLog::create(MemDisk::new(), config(member), Remarks::none()).expect("an empty folder");
        let logs = (1..=3).map(|member| (member, log(member))).collect();
        Group { logs, now_ms: 1_000, cut: false, heard: Vec::new() }
    }

    fn pass(&mut self, time_ms: u64) {
        let end_ms = self.now_ms + time_ms;
        while self.now_ms < end_ms {
            self.now_ms += 10;
            let mut sent = Vec::new();
            for (member, log) in &mut self.logs {
                let mut events = Vec::new();
                log.poll(self.now_ms, &mut events).expect("nothing is wrong");
                for event in events {
                    if let LogEvent::Send { to, bytes } = event
                        && (!self.cut || (to != 1 && *member != 1))
                    {
                        sent.push((to, bytes));
                    }
                }
            }
            for (to, bytes) in sent {
                if to == 1 && bytes.len() < 2048 {
                    push_piece(&mut self.heard, bytes[1], &bytes[HEAD_BYTES..]);
                }
                let log = self.logs.get_mut(&to).expect("a member");
                log.deliver(self.now_ms, Delivery::Message(bytes)).expect("a member's word");
            }
        }
    }

    /// Whoever leads those who hear of each other.
    fn leader(&mut self) -> &mut RaftLog<MemDisk> {
        let cut = self.cut;
        let mut leaders = self.logs.iter_mut().filter(|(member, log)| log.status().leads && (!cut || **member != 1));
        leaders.next().expect("somebody leads").1
    }

    fn ask_leader(&mut self, request: LogRequest) {
        let now_ms = self.now_ms;
        self.leader().submit(now_ms, request).expect("there is room");
    }

    fn append(&mut self, count: u64) {
        for number in 0..count {
            let bytes = Bytes::from(vec![number as u8 + 1; 20]);
            self.ask_leader(LogRequest::Append { token: self.now_ms + number, bytes });
        }
    }

    /// Whoever leads takes a snapshot and forgets the entries before it.
    fn save(&mut self) {
        let index = Index(self.leader().status().committed.0);
        self.ask_leader(LogRequest::SaveSnapshot { index, pieces: vec![Bytes::from_static(b"state")] });
        self.pass(500);
        self.ask_leader(LogRequest::Trim { below: index });
        self.pass(500);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_hold_what_members_say() {
        let kinds: Vec<u8> =
            seeds().iter().flat_map(|seed| pieces(seed).map(|(kind, _)| kind).collect::<Vec<_>>()).collect();
        assert!(kinds.contains(&1) && kinds.contains(&2), "words of raft and pieces of a snapshot: {kinds:?}");
    }
}
