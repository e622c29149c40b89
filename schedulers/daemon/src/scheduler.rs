//! The scheduler process: one scheduler core with the planner of its class.

use crate::error::DaemonError;
use crate::follower::{Effect, Follower, Input};
use crate::shell;
use ohm_batch::BatchPlanner;
use ohm_framework::{Counters, Effect as CoreEffect, Input as CoreInput, Planner, SchedulerConfig, SchedulerCore};
use ohm_model::{Class, Index};
use ohm_runtime::dice;
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;
use ohm_service::ServicePlanner;
use ohm_tas::TasPlanner;

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
    match options.class {
        Class::Batch => run(BatchPlanner::default(), options, shutdown).await,
        Class::Service => run(ServicePlanner::default(), options, shutdown).await,
        Class::Tas => run(TasPlanner::default(), options, shutdown).await,
    }
}

async fn run<P: Planner>(planner: P, options: SchedulerOptions, shutdown: Shutdown) -> Result<(), DaemonError> {
    let SchedulerOptions { servers, class, config } = options;
    let (name, tick_ms) = (config.name.clone(), config.tick_ms());
    tracing::info!(class = class.name(), name, "scheduler started");
    let core = SchedulerCore::new(config, planner, dice::dice());
    shell::run(Scheduler { core, tick_ms, effects: Vec::new(), told: Counters::default() }, name, servers, shutdown)
        .await
}

struct Scheduler<P> {
    core: SchedulerCore<P>,
    tick_ms: u64,
    effects: Vec<CoreEffect>,
    /// The counters as they were reported last.
    told: Counters,
}

impl<P: Planner> Follower for Scheduler<P> {
    const HAS_DUTY: bool = false;

    fn applied(&self) -> Index {
        self.core.cell().applied()
    }

    fn chain(&self) -> u64 {
        self.core.cell().chain()
    }

    fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>) {
        let input = match input {
            Input::Snapshot(cell) => CoreInput::Snapshot(cell),
            Input::Entry { index, entry } => CoreInput::Entry { index, entry },
            Input::Answer { session, sequence, outcome } => CoreInput::Answer { session, sequence, outcome },
            Input::OpenAnswer { nonce, outcome } => CoreInput::OpenAnswer { nonce, outcome },
            Input::Connected => CoreInput::Connected,
            Input::Disconnected => CoreInput::Disconnected,
            Input::Proceed => CoreInput::Proceed,
            Input::Tick => CoreInput::Tick,
            Input::Close => CoreInput::Close,
            // It has no duty stream.
            Input::Beats { .. } => return,
        };
        self.core.step(now_ms, input, &mut self.effects);
        let (mut gained, mut dropped) = (0, 0);
        for effect in self.effects.drain(..) {
            match effect {
                CoreEffect::Send(envelopes) => out.push(Effect::Send(envelopes)),
                CoreEffect::Again => out.push(Effect::Again),
                CoreEffect::Opened(session) => {
                    tracing::info!(%session, "session open");
                    out.push(Effect::Opened(session));
                }
                CoreEffect::SessionGone => {
                    tracing::warn!("session gone; everything is planned anew under the next one")
                }
                CoreEffect::OpenRefused(refusal) => tracing::warn!(%refusal, "no session"),
                CoreEffect::Gained(_) => gained += 1,
                CoreEffect::Dropped(_) => dropped += 1,
                CoreEffect::Closed => out.push(Effect::Closed),
            }
        }
        if gained + dropped > 0 {
            tracing::info!(gained, dropped, held = self.core.shards().count(), "shards");
        }
    }

    fn report(&mut self) {
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
