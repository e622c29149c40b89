//! A simulated server process: a server core over the real write-ahead log, on a disk that forgets what was not synced
//! and that fails when told to.

use crate::clocks::Clock;
use crate::knobs::Knobs;
use ohm_log::{Disk, Fault as DiskFault, MemDisk};
use ohm_log_raft::{OpenError, RaftConfig, RaftLog, Remarks};
use ohm_model::Index;
use ohm_replica::{Replica, ReplicaConfig, ReplicaFailure, ServerConfig, ServerCore, ServerEffect, ServerInput};
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::rc::Rc;

/// The world keeps a handle on the disk, so that it can fail under a running server.
type SharedDisk = Rc<RefCell<MemDisk>>;
type Core = ServerCore<RaftLog<SharedDisk>>;

/// A bit that was flipped: file and position.
pub(crate) type FlippedBit = (String, u64);

/// A server, up or down.
pub(crate) struct ServerProcess {
    pub(crate) clock: Clock,
    number: usize,
    config: ReplicaConfig,
    raft: RaftConfig,
    core: Option<Box<Core>>,
    disk: SharedDisk,
    /// How often it was started.
    pub(crate) starts: u64,
    pub(crate) flush_planned: bool,
    /// The start and the entry at which its copy was last looked at as a whole.
    pub(crate) swept: (u64, Index),
    pub(crate) paused_until_ms: u64,
    /// It left the group, or its disk is gone: it never comes back.
    pub(crate) over: bool,
    /// Whether it may answer questions since its last start.
    pub(crate) caught_up: bool,
    /// The disk was made to fail: the process may end because of it, and stays down this long.
    pub(crate) doomed: Option<u64>,
    pub(crate) slow_disk: Option<(u64, u64)>,
}

impl ServerProcess {
    pub(crate) fn new(number: usize, clock: Clock, knobs: &Knobs) -> Self {
        ServerProcess {
            clock,
            number,
            config: knobs.replica,
            raft: knobs.raft(number),
            core: None,
            disk: SharedDisk::default(),
            starts: 0,
            flush_planned: false,
            swept: (0, Index(0)),
            paused_until_ms: 0,
            over: false,
            caught_up: false,
            doomed: None,
            slow_disk: None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.core.is_some()
    }

    pub(crate) fn core(&self) -> Option<&Core> {
        self.core.as_deref()
    }

    pub(crate) fn applied(&self) -> Index {
        self.core().map_or(Index(0), |core| core.replica().cell().applied())
    }

    /// Notes whether the process would answer questions by now.
    pub(crate) fn look_whether_caught_up(&mut self, real_ms: u64) {
        let now_ms = self.clock.boot_ms(real_ms);
        self.caught_up |= self.core().is_some_and(|core| core.has_caught_up(now_ms));
    }

    pub(crate) fn leads(&self) -> bool {
        self.core().is_some_and(|core| core.replica().leads())
    }

    /// What the history calls this start of this server.
    pub(crate) fn copy(&self) -> String {
        format!("server {} #{}", self.number + 1, self.starts)
    }

    /// Starts the process from what its disk holds.
    pub(crate) fn start(&mut self, dice: &mut Prng) -> Result<(), OpenError> {
        if self.is_up() || self.over {
            return Ok(());
        }
        let disk = Rc::clone(&self.disk);
        let config = RaftConfig { seed: dice.u64(), ..self.raft.clone() };
        let log = match self.starts {
            0 => RaftLog::create(disk, config, Remarks::none())?,
            _ => RaftLog::open(disk, config, Remarks::none())?,
        };
        self.starts += 1;
        let server =
            ServerConfig { name: self.copy(), cell_incarnation: 1, resend_ms: 500, server: self.number as u64 + 1 };
        self.core = Some(Box::new(ServerCore::new(Replica::new(log, self.config), server, dice.fork())));
        (self.flush_planned, self.caught_up) = (false, false);
        Ok(())
    }

    /// The process is killed; with `power_loss` what was not synced may be gone.
    pub(crate) fn crash(&mut self, power_loss: bool, dice: &mut Prng) {
        self.core = None;
        // A disk that is about to fail does not work again because a process ended.
        let power_loss = power_loss || self.doomed.is_some();
        (self.doomed, self.slow_disk) = (None, None);
        let mut disk = self.disk.borrow_mut();
        if power_loss {
            disk.crash(dice);
        } else {
            disk.power_on();
        }
    }

    /// The process ends for good.
    pub(crate) fn end(&mut self) {
        (self.core, self.over, self.doomed) = (None, true, None);
    }

    /// From so many more disk calls on, every one fails: the machine is losing power.
    pub(crate) fn lose_power_after(&mut self, calls: u64, down_ms: u64) {
        let mut disk = self.disk.borrow_mut();
        let last = disk.calls() + calls;
        disk.power_off_after(last);
        self.doomed = Some(down_ms);
    }

    /// One disk call fails, after so many more.
    pub(crate) fn fail_disk_after(&mut self, calls: u64, down_ms: u64) {
        let mut disk = self.disk.borrow_mut();
        let at = disk.calls() + calls + 1;
        disk.fail_at(at, DiskFault::Failed);
        self.doomed = Some(down_ms);
    }

    /// Leaves the disk no room, or gives all of it back.
    pub(crate) fn fill_disk(&mut self, full: bool) {
        let mut disk = self.disk.borrow_mut();
        let used = disk.used_bytes();
        disk.set_capacity_bytes(full.then_some(used));
    }

    /// Flips a bit of something that was durable long ago: anywhere but in the last write to the newest segment, where
    /// it would look like an unfinished one.
    pub(crate) fn flip_bit(&mut self, dice: &mut Prng) -> Option<FlippedBit> {
        let mut disk = self.disk.borrow_mut();
        let files = disk.list().ok()?;
        let newest = files.iter().filter(|file| file.name.starts_with("wal-")).map(|file| file.name.clone()).max();
        let old_bytes = |file: &ohm_log::FileStatus| match newest.as_ref() == Some(&file.name) {
            true => disk.settled_bytes(&file.name),
            false => file.bytes,
        };
        let is_log = |name: &str| name.starts_with("wal-") || name.starts_with("snapshot-");
        let old = |file: &ohm_log::FileStatus| is_log(&file.name) && old_bytes(file) > 512;
        let files: Vec<ohm_log::FileStatus> = files.into_iter().filter(old).collect();
        let file = dice.pick(&files)?;
        let bit = dice.below(old_bytes(file) * 8);
        disk.flip_bit(&file.name, bit).then(|| (file.name.clone(), bit))
    }

    /// Flips it back: somebody restored the file.
    pub(crate) fn restore_bit(&mut self, (file, bit): &FlippedBit) {
        self.disk.borrow_mut().flip_bit(file, *bit);
    }

    /// How many syncs of files there were.
    pub(crate) fn syncs(&self) -> u64 {
        self.disk.borrow().syncs()
    }

    pub(crate) fn step(
        &mut self,
        real_ms: u64,
        input: ServerInput,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let (now_ms, wall_ms) = (self.clock.boot_ms(real_ms), self.clock.wall_ms(real_ms));
        match &mut self.core {
            Some(core) => core.step(now_ms, wall_ms, input, out),
            None => Ok(()),
        }
    }
}
