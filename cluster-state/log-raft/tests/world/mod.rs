//! A copy of a tiny state, the list of all numbers ever appended, and a log for it.
#![allow(unreachable_pub)]

use ohm_log::{Alarm, Bytes, Disk, Log, LogEvent, LogFailure, LogRequest, MemDisk, Members, Refusal, SubmitError};
use ohm_log_raft::{OpenError, RaftConfig, RaftLog, Remarks};
use ohm_model::Index;

pub const CELL: u64 = 0x0e11;
/// Tokens from here on are of changes of members and of reads.
pub const CHANGES: u64 = 1 << 40;

/// A lone member with segments and batches so small that every test sees several of them.
pub fn config() -> RaftConfig {
    RaftConfig { segment_bytes: 600, batch_bytes: 300, ..RaftConfig::single(CELL, 1) }
}

pub fn create<D: Disk>(disk: D) -> Copy<D> {
    Copy::new(RaftLog::create(disk, config(), Remarks::none()).unwrap())
}

pub fn open<D: Disk>(disk: D) -> Result<Copy<D>, OpenError> {
    RaftLog::open(disk, config(), Remarks::none()).map(Copy::new)
}

/// A disk with some history on it: `entries` numbers, snapshots on the way if wanted.
pub fn disk_with(entries: u64, snapshots: bool) -> MemDisk {
    let mut copy = create(MemDisk::new());
    for number in 0..entries {
        copy.append(number).unwrap();
        copy.poll().unwrap();
        if snapshots && number % 20 == 19 {
            copy.save_snapshot();
            copy.poll_until(|copy| !copy.saved.is_empty() && copy.saved.last() == Some(&copy.applied));
            copy.trim(copy.applied);
            copy.poll().unwrap();
        }
    }
    copy.log.into_disk()
}

pub struct Copy<D> {
    pub log: RaftLog<D>,
    pub now_ms: u64,
    pub applied: Index,
    pub list: Vec<u64>,
    /// Numbers that were answered with `Committed`.
    pub acknowledged: Vec<u64>,
    pub refused: Vec<u64>,
    pub unknown: Vec<u64>,
    pub saved: Vec<Index>,
    pub snapshots_failed: Vec<Index>,
    pub installed: Vec<Index>,
    pub alarms: Vec<Alarm>,
    pub leads: bool,
    pub sent: Vec<(u64, Bytes)>,
    pub members: Members,
    /// Answers to changes of members: the member, or why not.
    pub changed: Vec<(u64, Result<u64, Refusal>)>,
    /// Answers to reads: how far to be, and how far this copy was then.
    pub readable: Vec<(u64, Index, Index)>,
}

impl<D: Disk> Copy<D> {
    pub fn new(log: RaftLog<D>) -> Self {
        Copy {
            log,
            now_ms: 0,
            applied: Index(0),
            list: Vec::new(),
            acknowledged: Vec::new(),
            refused: Vec::new(),
            unknown: Vec::new(),
            saved: Vec::new(),
            snapshots_failed: Vec::new(),
            installed: Vec::new(),
            alarms: Vec::new(),
            leads: false,
            sent: Vec::new(),
            members: Members::default(),
            changed: Vec::new(),
            readable: Vec::new(),
        }
    }

    /// The number is its own token and its own bytes, with some filler.
    pub fn append(&mut self, number: u64) -> Result<(), SubmitError> {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.resize(8 + (number % 50) as usize, 0xa1);
        self.log.submit(self.now_ms, LogRequest::Append { token: number, bytes: bytes.into() })
    }

    pub fn save_snapshot(&mut self) {
        let bytes: Vec<u8> = self.list.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut pieces: Vec<Bytes> = bytes.chunks(64).map(Bytes::copy_from_slice).collect();
        if pieces.is_empty() {
            pieces.push(Bytes::from_static(&[0xff; 8]));
        }
        self.log.submit(self.now_ms, LogRequest::SaveSnapshot { index: self.applied, pieces }).ok();
    }

    pub fn trim(&mut self, below: Index) {
        self.log.submit(self.now_ms, LogRequest::Trim { below }).unwrap();
    }

    pub fn poll(&mut self) -> Result<(), LogFailure> {
        let mut events = Vec::new();
        let polled = self.log.poll(self.now_ms, &mut events);
        events.into_iter().for_each(|event| self.take(event));
        polled
    }

    pub fn poll_until(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if done(self) {
                return;
            }
            self.now_ms = self.log.wake_ms().unwrap_or(self.now_ms).max(self.now_ms);
            self.poll().unwrap();
        }
        panic!("it never happens; {} entries are there", self.list.len());
    }

    /// Polls until nothing is left to do.
    pub fn rest(&mut self) -> Result<(), LogFailure> {
        while self.log.wake_ms().is_some_and(|wake_ms| wake_ms <= self.now_ms) {
            self.poll()?;
        }
        Ok(())
    }

    pub fn take(&mut self, event: LogEvent) {
        match event {
            LogEvent::Committed { index, bytes, token } => {
                assert!(index > self.applied, "entry {index} after {}", self.applied);
                let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(token.is_none_or(|token| token == number));
                self.applied = index;
                self.list.push(number);
                self.acknowledged.extend(token);
            }
            LogEvent::InstallSnapshot { index, pieces } => {
                assert!(index >= self.applied, "snapshot {index} after {}", self.applied);
                self.applied = index;
                self.list = numbers(&pieces);
                self.installed.push(index);
            }
            LogEvent::Refused { token, reason } if token >= CHANGES => self.changed.push((token, Err(reason))),
            LogEvent::Refused { token, .. } => self.refused.push(token),
            LogEvent::Unknown { token } => self.unknown.push(token),
            LogEvent::SnapshotSaved { index } => self.saved.push(index),
            LogEvent::SnapshotFailed { index, .. } => self.snapshots_failed.push(index),
            LogEvent::Leader { here, .. } => self.leads = here,
            LogEvent::Send { to, bytes } => self.sent.push((to, bytes)),
            LogEvent::Members(members) => self.members = members,
            LogEvent::MembersChanged { token, member } => self.changed.push((token, Ok(member))),
            LogEvent::Readable { token, index } => self.readable.push((token, index, self.applied)),
            LogEvent::SnapshotWanted => self.save_snapshot(),
            LogEvent::Alarm(alarm) => self.alarms.push(alarm),
        }
    }
}

pub fn numbers(pieces: &[Bytes]) -> Vec<u64> {
    let bytes = pieces.concat();
    let numbers = bytes.chunks(8).map(|number| u64::from_le_bytes(number.try_into().unwrap()));
    // A snapshot of nothing still has a piece.
    numbers.filter(|number| *number != u64::MAX).collect()
}
