//! The contract of the log, kept by a lone member on a disk that crashes and on a real one.

use crate::world;

use ohm_log::contract::{self, Engine};
use ohm_log::{Disk, MemDisk};
use ohm_log_raft::{FileDisk, Folder, RaftLog, Remarks, inspect};
use ohm_stdx::Prng;

fn start<D: Disk>(mut disk: D) -> RaftLog<D> {
    match inspect(&mut disk).unwrap() {
        Folder::Log(_) => RaftLog::open(disk, world::config(), Remarks::none()).unwrap(),
        Folder::Empty | Folder::Unfinished => RaftLog::create(disk, world::config(), Remarks::none()).unwrap(),
    }
}

struct Crashing {
    disk: MemDisk,
    dice: Prng,
}

impl Engine for Crashing {
    type Log = RaftLog<MemDisk>;

    fn start(&mut self) -> Self::Log {
        start(std::mem::take(&mut self.disk))
    }

    fn stop(&mut self, log: Self::Log) {
        self.disk = log.into_disk();
        self.disk.crash(&mut self.dice);
    }
}

struct Real(tempfile::TempDir);

impl Engine for Real {
    type Log = RaftLog<FileDisk>;

    fn start(&mut self) -> Self::Log {
        start(FileDisk::open(self.0.path()).unwrap())
    }

    fn stop(&mut self, log: Self::Log) {
        drop(log);
    }
}

#[test]
fn a_crashing_disk_keeps_the_contract() {
    contract::check(0..20, |seed| Crashing { disk: MemDisk::new(), dice: Prng::new(seed) });
}

#[test]
fn a_real_disk_keeps_the_contract() {
    contract::check(0..1, |_| Real(tempfile::tempdir().unwrap()));
}
