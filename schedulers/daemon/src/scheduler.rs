//! The scheduler process: one scheduler core with the planner of its class.

use crate::error::DaemonError;
use crate::follower::{Follower, Wish};
use crate::shell;
use ohm_framework::{Again, Counters, Proceed, SchedulerConfig, SchedulerCore, is_class_known};
use ohm_model::Class;
use ohm_planner::ProfilePlanner;
use ohm_runtime::dice;
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;

/// How a scheduler is started.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// The servers of its cell.
    pub servers: Servers,
    /// Which jobs it places.
    pub class: Class,
    /// Its bounds and its name. All replicas of a class must agree on the lease.
    pub config: SchedulerConfig,
}

impl SchedulerOptions {
    /// A scheduler of `class` with the values used in a cell, called `name` towards people.
    pub fn new(servers: Servers, class: Class, name: &str) -> Self {
        SchedulerOptions { servers, class, config: SchedulerConfig::new(name) }
    }
}

/// Runs a scheduler until `shutdown`; then its shards and its session are given back.
///
/// # Errors
/// See [`DaemonError`]; servers that can't be reached are waited for.
pub async fn run_scheduler(options: SchedulerOptions, shutdown: Shutdown) -> Result<(), DaemonError> {
    let SchedulerOptions { servers, class, config } = options;
    let (name, tick_ms) = (config.name.clone(), config.tick_ms());
    tracing::info!(class = class.name(), name, "scheduler started");
    let core = SchedulerCore::new(config, ohm_planner::of(class), dice::dice());
    shell::run(Scheduler { core, class, tick_ms, told: Counters::default(), is_known: true }, name, servers, shutdown)
        .await
}

struct Scheduler {
    core: SchedulerCore<ProfilePlanner>,
    class: Class,
    tick_ms: u64,
    /// Whether the class was known when that was told last.
    is_known: bool,
    /// The counters as they were reported last.
    told: Counters,
}

impl Scheduler {
    /// A class may come after its scheduler; until then there is nothing to do, which should not look like a mistake in
    /// silence.
    fn tell_of_class(&mut self) {
        let is_known = is_class_known(&self.core);
        if is_known == self.is_known {
            return;
        }
        self.is_known = is_known;
        let class = self.class.name();
        match is_known {
            true => tracing::info!(class, "the cell knows the class now"),
            false => {
                tracing::warn!(class, "the cell has no such class; `ohm submit` a SchedulingProfile that names it")
            }
        }
    }
}

impl Follower for Scheduler {
    type Core = SchedulerCore<ProfilePlanner>;

    fn core(&self) -> &SchedulerCore<ProfilePlanner> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut SchedulerCore<ProfilePlanner> {
        &mut self.core
    }

    fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    fn perform(&mut self, Again: Again) -> Option<Wish> {
        Some(Wish::Again)
    }

    fn proceed() -> Option<Proceed> {
        Some(Proceed)
    }

    fn report(&mut self) {
        self.tell_of_class();
        let counters = self.core.counters();
        // Time alone moves these two.
        let told = Counters { steps: counters.steps, sweeps: counters.sweeps, ..self.told.clone() };
        if *counters == told {
            return;
        }
        self.told = counters.clone();
        let Counters { passes, planned, transactions, committed, tasks, retries, lost, unplaced, collided, .. } =
            *counters;
        tracing::debug!(
            passes,
            planned,
            transactions,
            committed,
            tasks,
            retries,
            lost,
            unplaced,
            collided,
            conflicts = ?counters.conflicts,
            backlog = self.core.backlog(),
            in_flight = self.core.in_flight(),
            "counters"
        );
    }
}
