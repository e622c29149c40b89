//! The health process: one candidate for the health duty.

use crate::error::DaemonError;
use crate::follower::{Follower, Wish};
use crate::shell;
use ohm_client::FollowerCore;
use ohm_health::{BeatMark, DutyConfig, DutyCore, DutyWord, HealthConfig, RelayedBeats};
use ohm_runtime::dice;
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::{BeatAnswer, BeatAnswers};

/// Between two looks at what is due, in milliseconds: half of what is gathered into one conclusion.
const TICK_MS: u64 = 100;

/// How a health candidate is started.
#[derive(Clone, Debug)]
pub struct HealthOptions {
    /// The servers of its cell.
    pub servers: Servers,
    /// Its patience and its name. All candidates of a cell must agree.
    pub config: DutyConfig,
}

impl HealthOptions {
    /// A candidate with the values used in a cell (node lease 30 s), called `name` towards people.
    pub fn new(servers: Servers, name: &str) -> Self {
        HealthOptions { servers, config: DutyConfig { name: name.to_string(), health: HealthConfig::default() } }
    }

    /// The same candidate with node leases of `node_lease_ms` milliseconds.
    pub fn with_node_lease_ms(mut self, node_lease_ms: u64) -> Self {
        self.config.health.node_lease_ms = node_lease_ms;
        self
    }

    /// The same candidate with a lease of the duty of `duty_lease_ms` milliseconds.
    pub fn with_duty_lease_ms(mut self, duty_lease_ms: u64) -> Self {
        self.config.health.duty_lease_ms = duty_lease_ms;
        self
    }

    /// The same candidate with a brake that is set off when more than `brake_percent` of the nodes fall silent at once.
    pub fn with_brake_percent(mut self, brake_percent: u64) -> Self {
        self.config.health.brake_permille = brake_percent.saturating_mul(10);
        self
    }
}

/// Runs a health candidate until `shutdown`; then the duty and its session are given back.
///
/// # Errors
/// See [`DaemonError`]; a node lease that is too short is one. Servers that can't be reached are waited for.
pub async fn run_health(options: HealthOptions, shutdown: Shutdown) -> Result<(), DaemonError> {
    let HealthOptions { servers, config } = options;
    config.health.check()?;
    let name = config.name.clone();
    tracing::info!(name, node_lease_ms = config.health.node_lease_ms, "health started");
    let core = DutyCore::new(config, dice::dice());
    shell::run(Candidate { core }, name, servers, shutdown).await
}

struct Candidate {
    core: DutyCore,
}

impl Follower for Candidate {
    type Core = DutyCore;

    const HAS_DUTY: bool = true;

    fn core(&self) -> &DutyCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut DutyCore {
        &mut self.core
    }

    fn tick_ms(&self) -> u64 {
        TICK_MS
    }

    fn perform(&mut self, word: DutyWord) -> Option<Wish> {
        match word {
            DutyWord::Answers { relay, duty_epoch, lease_ms, interval_ms, answers } => {
                let answer = |mark: BeatMark| BeatAnswer {
                    node: mark.node.0,
                    incarnation: mark.incarnation.0,
                    sequence: mark.sequence,
                    duty_epoch: duty_epoch.0,
                    interval_ms,
                    lease_ms,
                };
                let answers = BeatAnswers { answers: answers.into_iter().map(answer).collect() };
                Some(Wish::Answer { relay, answers })
            }
            DutyWord::HearsNobody { silent_ms, nodes } => {
                tracing::warn!(silent_ms, nodes, "holds the duty and hears no beat of any node; connecting anew");
                Some(Wish::Reconnect)
            }
            DutyWord::BrakeEngaged { count } => {
                tracing::warn!(missing = count, "very many nodes fell silent at once; conclusions wait for a while");
                None
            }
        }
    }

    fn beats(beats: RelayedBeats) -> Option<RelayedBeats> {
        Some(beats)
    }

    fn report(&mut self) {
        let now_ms = ohm_runtime::clock::boot_ms();
        tracing::debug!(duty = self.core.holds_duty(now_ms), applied = %self.core.cell().applied(), "health");
    }
}
