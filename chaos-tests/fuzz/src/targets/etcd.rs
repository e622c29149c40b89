//! What etcd holds and answers: values that somebody else wrote, answers out of order, watches that end.
//!
//! A server begins on an etcd of which each part of the input is the next word: an answer to the oldest open call, an
//! event of the log's watch, the end of a watch, or time that passes. Values are framed as those of Ohm, with the
//! format that the part names, so that what is wrong is inside. Besides that nothing panics: entries come to the copy
//! in order.

use crate::pieces::{pieces, push_piece};
use bytes::Bytes;
use ohm_log::{LogEvent, LogRequest};
use ohm_log_etcd::core::call::{CallError, CallId, Command, Heard, Op, Pair, Request, Response, WatchEvent};
use ohm_log_etcd::core::identity::{Identity, Next};
use ohm_log_etcd::{CellRecord, EtcdConfig, EtcdCore, Note};
use ohm_model::{Entry, Index};
use ohm_stdx::codec;
use std::collections::VecDeque;

const PREFIX: &str = "/ohm";
const CELL: CellRecord = CellRecord { cell: 7, incarnation: 1 };
/// Keys that a part can name, in the places of etcd that the core looks at.
const KEYS: [&str; 8] = [
    "/ohm/log/cell",
    "/ohm/log/entry/0000000000000009/0000000000000001",
    "/ohm/log/head",
    "/ohm/log/pointer",
    "/ohm/log/trim",
    "/ohm/snapshot/a/00000000",
    "/ohm/server/00000002",
    "/ohm/number/00000001",
];
/// The formats of values: of an entry, a pointer, a trim, a cell and a chunk.
const FORMATS: [u8; 5] = [0xe1, 0xe2, 0xe3, 0xe4, 0xe5];
/// What the low bits of a part's kind say it is.
const KINDS: u8 = 8;
/// Calls of one run at most: a core that asks for ever is no finding, but long.
const CALLS_MAX: usize = 200;

/// What a part holds: where in etcd it stands, since when, how often it was written, and the bytes.
fn pair(bytes: &[u8]) -> Option<Pair> {
    let [key, format, modified, version, rest @ ..] = bytes else { return None };
    let number = |byte: u8| if byte == u8::MAX { u64::MAX } else { u64::from(byte) };
    let value = match FORMATS.get(usize::from(*format)) {
        Some(format) => {
            let mut framed = Vec::new();
            codec::frame(*format, rest, &mut framed);
            framed
        }
        None => rest.to_vec(),
    };
    let key = match key & 0x80 {
        0 => KEYS[usize::from(key & 7)].to_string(),
        // An entry of another number, or whatever the bytes say.
        _ if key & 0x40 == 0 => format!("/ohm/log/entry/{:016x}/{:016x}", 9, key & 0x3f),
        _ => format!("{}/{}", &KEYS[usize::from(key & 7)], String::from_utf8_lossy(rest)),
    };
    Some(Pair { key, value: value.into(), modified: number(*modified), version: number(*version) })
}

/// Several of them: each a length and its bytes.
fn pairs(mut bytes: &[u8]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    while let [length, rest @ ..] = bytes {
        let (one, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        pairs.extend(pair(one));
        bytes = rest;
    }
    pairs
}

/// The answer to a call that suits it, with what the part holds.
fn answer(request: &Request, found: Vec<Pair>, revision: u64) -> Response {
    let newest = found.iter().map(|pair| pair.modified).max().unwrap_or(0).max(revision);
    match request {
        Request::Txn(txn) => {
            let asks = txn.then.iter().any(|op| matches!(op, Op::Get(_)));
            Response::Txn { succeeded: asks || found.is_empty(), revision: newest, found }
        }
        Request::Range(_) => Response::Range { revision: newest, pairs: found, more: false },
        Request::Compact { .. } => Response::Compacted,
        Request::Grant { ttl_s } => Response::Lease { lease: 5, ttl_s: *ttl_s },
        Request::KeepAlive { lease } => Response::Lease { lease: *lease, ttl_s: 10 },
    }
}

/// A server on the etcd that the input makes up.
struct Line {
    core: EtcdCore,
    now_ms: u64,
    open: VecDeque<(CallId, Request)>,
    watches: Vec<u64>,
    last: Index,
}

impl Line {
    fn new() -> Self {
        let note = Note { cell: CELL, server: 1, key: 5, last: None };
        let core = EtcdCore::new(EtcdConfig::new(PREFIX, note, "http://127.0.0.1:6460", 9));
        Line { core, now_ms: 1_000, open: VecDeque::new(), watches: Vec::new(), last: Index(0) }
    }

    fn take(&mut self, kind: u8, bytes: &[u8]) {
        let revision = u64::from(kind >> 3);
        let watch = self.watches.get(usize::from(kind >> 6)).or(self.watches.last()).copied().unwrap_or(1);
        match kind % KINDS {
            0 | 1 => self.answer(|request| Ok(answer(request, pairs(bytes), revision))),
            2 => self
                .core
                .hear(self.now_ms, Heard::Watched(watch, pairs(bytes).into_iter().map(WatchEvent::Put).collect())),
            3 => {
                let gone = |pair: Pair| WatchEvent::Deleted { key: pair.key, modified: pair.modified };
                self.core.hear(self.now_ms, Heard::Watched(watch, pairs(bytes).into_iter().map(gone).collect()));
            }
            4 => {
                let ended = Heard::WatchEnded { watch, compacted: revision == 1, reason: "it ended".into() };
                self.core.hear(self.now_ms, ended);
            }
            5 => self.answer(|_| Err(CallError::Lost("nobody knows".into()))),
            6 => {
                let token = self.now_ms;
                let request = match revision % 3 {
                    0 => LogRequest::Append { token, bytes: Bytes::from_static(b"entry") },
                    1 => LogRequest::Read { token },
                    _ => LogRequest::Trim { below: self.last },
                };
                let _ = self.core.submit(self.now_ms, request);
            }
            _ => self.core.hear(self.now_ms, Heard::Version(String::from_utf8_lossy(bytes).into_owned())),
        }
        self.go_on();
    }

    fn answer(&mut self, answer: impl FnOnce(&Request) -> Result<Response, CallError>) {
        if let Some((call, request)) = self.open.pop_front() {
            self.core.hear(self.now_ms, Heard::Answer(call, answer(&request)));
        }
    }

    /// Does what is due, and looks at what the copy is told.
    fn go_on(&mut self) {
        self.now_ms += 500;
        self.core.tick(self.now_ms);
        for command in self.core.take_commands() {
            match command {
                Command::Call(call, request) => self.open.push_back((call, request)),
                Command::Watch { watch, .. } => self.watches.push(watch),
                Command::Unwatch(watch) => self.watches.retain(|known| *known != watch),
            }
        }
        let mut told = Vec::new();
        let _ = self.core.poll(&mut told);
        for event in told {
            match event {
                LogEvent::Committed { index, bytes, .. } => {
                    assert!(index > self.last, "entry {index} after {}", self.last);
                    self.last = index;
                    drop(Entry::decode(&bytes));
                }
                LogEvent::InstallSnapshot { index, .. } => self.last = index,
                _ => {}
            }
        }
        let _ = self.core.wake_ms(self.now_ms);
    }
}

pub(crate) fn run(input: &[u8]) {
    identity(input);
    let mut line = Line::new();
    line.go_on();
    for (kind, bytes) in pieces(input).take(CALLS_MAX) {
        line.take(kind, bytes);
    }
    let _ = line.core.note();
}

/// The questions before the log is opened, answered with the same parts.
fn identity(input: &[u8]) {
    let note = input.first().is_some_and(|kind| kind & 0x10 != 0);
    let note = note.then_some(Note { cell: CELL, server: 1, key: 5, last: Some((4, 9, 1)) });
    let (mut identity, mut next) = Identity::new(PREFIX, note, [7, 5], 1_000);
    for (kind, bytes) in pieces(input).take(8) {
        let Next::Ask(request) = &next else { return };
        match identity.answer(&answer(request, pairs(bytes), u64::from(kind >> 3))) {
            Ok(asked) => next = asked,
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
}

/// A cell with entries; one with a snapshot; one that is watched.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let one = |key: u8, format: u8, modified: u8, version: u8, body: Vec<u8>| {
        let pair = [&[key, format, modified, version], &body[..]].concat();
        [&[pair.len() as u8], &pair[..]].concat()
    };
    let cell = || one(0, 3, 1, 1, codec::encode(&CELL));
    let entry = |number: u8, modified| {
        let body = Entry { stamp_ms: 5, commands: Vec::new() }.encode();
        one(0x80 | number, 0, modified, 1, body)
    };
    let head = |modified, version| one(2, 9, modified, version, Vec::new());
    let chunk = b"state";
    let mut digest = ohm_stdx::hash::Digest::new();
    digest.update(chunk);
    let manifest = ("a", 3u64, 0u64, vec![chunk.len() as u64], 1u64, digest.finish());
    let pointer = || one(3, 1, 3, 1, codec::encode(&manifest));
    let trim = || one(4, 2, 4, 1, codec::encode(&3u64));
    let grant: (u8, Vec<u8>) = (0, Vec::new());
    let stories: [Vec<(u8, Vec<u8>)>; 4] = [
        vec![(0, [cell(), head(2, 1)].concat()), grant.clone(), (0, entry(1, 2)), grant.clone()],
        vec![
            grant.clone(),
            (0, [cell(), pointer(), trim(), head(5, 2)].concat()),
            (0, one(5, 4, 3, 1, chunk.to_vec())),
            (0, entry(2, 5)),
            (2, [entry(3, 6), head(6, 3)].concat()),
        ],
        vec![
            (0, cell()),
            grant.clone(),
            (0, Vec::new()),
            (2, [entry(1, 3), head(3, 1)].concat()),
            (6, Vec::new()),
            grant.clone(),
            (4, Vec::new()),
            (6 | 1 << 3, Vec::new()),
        ],
        vec![(0, cell()), (0, one(7, 9, 2, 1, b"0000000000000005".to_vec())), (5, Vec::new()), (7, b"3.5.9".to_vec())],
    ];
    let parts = |story: &Vec<(u8, Vec<u8>)>| {
        let mut bytes = Vec::new();
        story.iter().for_each(|(kind, part)| push_piece(&mut bytes, *kind, part));
        bytes
    };
    stories.iter().map(parts).collect()
}
