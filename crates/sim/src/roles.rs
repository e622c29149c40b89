//! The simulated processes that follow the log, and the clients.

use crate::clocks::Clock;
use crate::planners::AnyPlanner;
use ohm_framework::{SchedulerConfig, SchedulerCore};
use ohm_health::{DutyConfig, DutyCore, HealthConfig};
use ohm_log::Bytes;
use ohm_model::{Class, Command, Index, SessionId};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// What every process but the server has.
pub(crate) struct Shell {
    pub(crate) clock: Clock,
    pub(crate) up: bool,
    pub(crate) starts: u64,
    pub(crate) paused_until_ms: u64,
    pub(crate) connection: Option<u64>,
    /// Pieces of a snapshot that is arriving.
    pub(crate) pieces: Vec<Bytes>,
}

impl Shell {
    pub(crate) fn new(clock: Clock) -> Self {
        Shell { clock, up: false, starts: 0, paused_until_ms: 0, connection: None, pieces: Vec::new() }
    }
}

/// A scheduler replica.
pub(crate) struct SchedulerProcess {
    pub(crate) shell: Shell,
    pub(crate) class: Class,
    pub(crate) core: Option<SchedulerCore<AnyPlanner>>,
}

impl SchedulerProcess {
    pub(crate) fn start(&mut self, number: usize, dice: &mut Prng) {
        self.shell.starts += 1;
        self.shell.up = true;
        let name = format!("{}-{number} #{}", self.class.name(), self.shell.starts);
        let config = SchedulerConfig { lease_ms: 3_000, ..SchedulerConfig::new(&name) };
        self.core = Some(SchedulerCore::new(config, AnyPlanner::new(self.class), dice.fork()));
    }
}

/// A candidate for the health duty.
pub(crate) struct HealthProcess {
    pub(crate) shell: Shell,
    pub(crate) session: Option<SessionId>,
    pub(crate) core: Option<DutyCore>,
}

impl HealthProcess {
    pub(crate) fn start(&mut self, number: usize, node_lease_ms: u64, dice: &mut Prng) {
        self.shell.starts += 1;
        self.shell.up = true;
        let health = HealthConfig { node_lease_ms, ..HealthConfig::default() };
        let name = format!("health-{number} #{}", self.shell.starts);
        let config = DutyConfig { name, duty_lease_ms: 3_000, resend_ms: 500, health };
        self.core = Some(DutyCore::new(config, dice.fork()));
    }
}

/// A person with a script: what was asked and not answered yet is asked again.
pub(crate) struct ClientProcess {
    pub(crate) shell: Shell,
    pub(crate) next_at_ms: u64,
    pub(crate) submitted: Vec<String>,
    pub(crate) open: BTreeMap<u64, (Command, u64)>,
    pub(crate) next_request: u64,
    pub(crate) left: u64,
}

/// Where a follower stands.
pub(crate) fn applied_of(scheduler: Option<&SchedulerCore<AnyPlanner>>) -> Index {
    scheduler.map_or(Index(0), |core| core.cell().applied())
}
