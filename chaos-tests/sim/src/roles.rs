//! The simulated processes that follow the log, and the clients.

use crate::clocks::Clock;
use crate::knobs::Knobs;
use crate::mischief::Mischief;
use crate::planners::SpoiltPlanner;
use ohm_client::FollowerCore;
use ohm_framework::SchedulerCore;
use ohm_health::{DutyConfig, DutyCore};
use ohm_log::Bytes;
use ohm_model::{Class, Command, Index, JobSpec, SessionId};
use ohm_provisioning::{ProvisionerConfig, ProvisionerCore};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// What every process but the servers has.
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

/// A scheduler replica. It has no disk: each start begins with nothing.
pub(crate) struct SchedulerProcess {
    pub(crate) shell: Shell,
    pub(crate) class: Class,
    pub(crate) core: Option<SchedulerCore<SpoiltPlanner>>,
}

impl SchedulerProcess {
    pub(crate) fn start(&mut self, number: usize, knobs: &Knobs, mischief: &Mischief, dice: &mut Prng) {
        self.shell.starts += 1;
        self.shell.up = true;
        let name = format!("{}-{number} #{}", self.class.name(), self.shell.starts);
        let planner = SpoiltPlanner::new(self.class, Mischief::clone(mischief));
        self.core = Some(SchedulerCore::new(knobs.scheduler(&name), planner, dice.fork()));
    }
}

/// A candidate for the health duty.
pub(crate) struct HealthProcess {
    pub(crate) shell: Shell,
    pub(crate) session: Option<SessionId>,
    pub(crate) core: Option<DutyCore>,
}

impl HealthProcess {
    pub(crate) fn start(&mut self, number: usize, knobs: &Knobs, dice: &mut Prng) {
        self.shell.starts += 1;
        self.shell.up = true;
        let name = format!("health-{number} #{}", self.shell.starts);
        let mut health = knobs.health();
        if knobs.leases_differ {
            health.node_lease_ms += knobs.theme.lease_differences_ms()[dice.below(4) as usize];
        }
        let duty_lease_ms = knobs.duty_lease_ms;
        self.core = Some(DutyCore::new(DutyConfig { name, duty_lease_ms, resend_ms: 500, health }, dice.fork()));
    }
}

/// A candidate for the provisioning duty.
pub(crate) struct ProvisionerProcess {
    pub(crate) shell: Shell,
    pub(crate) core: Option<ProvisionerCore>,
}

impl ProvisionerProcess {
    pub(crate) fn start(&mut self, number: usize, knobs: &Knobs, dice: &mut Prng) {
        self.shell.starts += 1;
        self.shell.up = true;
        let name = format!("provisioner-{number} #{}", self.shell.starts);
        let config = ProvisionerConfig { name, duty_lease_ms: knobs.duty_lease_ms, resend_ms: 500 };
        self.core = Some(ProvisionerCore::new(config, dice.fork()));
    }
}

/// A person with a script: what was asked and not answered yet is asked again.
pub(crate) struct ClientProcess {
    pub(crate) shell: Shell,
    pub(crate) next_at_ms: u64,
    pub(crate) submitted: Vec<JobSpec>,
    pub(crate) open: BTreeMap<u64, (Command, u64)>,
    pub(crate) next_request: u64,
    pub(crate) left: u64,
    pub(crate) greeted: bool,
}

/// Where a follower stands.
pub(crate) fn applied_of(scheduler: Option<&SchedulerCore<SpoiltPlanner>>) -> Index {
    scheduler.map_or(Index(0), |core| core.cell().applied())
}
