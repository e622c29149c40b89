//! The simulated server process: a server core over a raft log on a disk that forgets what was not synced.

use crate::clocks::Clock;
use ohm_log::MemDisk;
use ohm_log_raft::{RaftConfig, RaftLog, Remarks};
use ohm_replica::{Replica, ReplicaConfig, ReplicaFailure, ServerConfig, ServerCore, ServerEffect, ServerInput};
use ohm_stdx::Prng;

type Core = ServerCore<RaftLog<MemDisk>>;

/// A server, up or down.
pub(crate) struct ServerProcess {
    pub(crate) clock: Clock,
    config: ReplicaConfig,
    core: Option<Box<Core>>,
    disk: Option<MemDisk>,
    /// How often it was started.
    pub(crate) starts: u64,
    pub(crate) flush_planned: bool,
    pub(crate) paused_until_ms: u64,
}

impl ServerProcess {
    pub(crate) fn new(clock: Clock, config: ReplicaConfig) -> Self {
        ServerProcess {
            clock,
            config,
            core: None,
            disk: Some(MemDisk::new()),
            starts: 0,
            flush_planned: false,
            paused_until_ms: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.core.is_some()
    }

    pub(crate) fn core(&self) -> Option<&Core> {
        self.core.as_deref()
    }

    /// Starts the process from what its disk holds.
    pub(crate) fn start(&mut self, dice: &mut Prng) -> Result<(), String> {
        let Some(disk) = self.disk.take() else { return Ok(()) };
        let config = RaftConfig::single(7, 1);
        let log = if self.starts == 0 {
            RaftLog::create(disk, config, Remarks::none())
        } else {
            RaftLog::open(disk, config, Remarks::none())
        };
        let log = log.map_err(|error| format!("the log does not open again: {error}"))?;
        self.starts += 1;
        let server =
            ServerConfig { name: format!("server #{}", self.starts), cell_incarnation: 1, resend_ms: 500, server: 1 };
        self.core = Some(Box::new(ServerCore::new(Replica::new(log, self.config), server, dice.fork())));
        self.flush_planned = false;
        Ok(())
    }

    /// The process is killed; with `power_loss` what was not synced may be gone.
    pub(crate) fn crash(&mut self, power_loss: bool, dice: &mut Prng) {
        let Some(core) = self.core.take() else { return };
        let mut disk = core.into_log().into_disk();
        if power_loss {
            disk.crash(dice);
        }
        self.disk = Some(disk);
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
