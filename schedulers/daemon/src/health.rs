//! The health process: one candidate for the health duty.

use crate::error::DaemonError;
use crate::follower::{Effect, Follower, Input};
use crate::shell;
use ohm_health::{BeatMark, DutyConfig, DutyCore, DutyEffect, DutyInput, HealthConfig};
use ohm_model::Index;
use ohm_runtime::dice;
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::{BeatAnswer, BeatAnswers};

/// Between two looks at what is due, in milliseconds: half of what is gathered into one conclusion.
const TICK_MS: u64 = 100;
/// How long the duty's lease lasts unless told otherwise, in milliseconds.
const DUTY_LEASE_MS: u64 = 4_000;
/// An unanswered command is sent again after this many milliseconds.
const RESEND_MS: u64 = 500;

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
        let (duty_lease_ms, resend_ms) = (DUTY_LEASE_MS, RESEND_MS);
        let config = DutyConfig { name: name.to_string(), duty_lease_ms, resend_ms, health: HealthConfig::default() };
        HealthOptions { servers, config }
    }

    /// The same candidate with node leases of `node_lease_ms` milliseconds.
    pub fn with_node_lease_ms(mut self, node_lease_ms: u64) -> Self {
        self.config.health.node_lease_ms = node_lease_ms;
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
/// See [`DaemonError`]; servers that can't be reached are waited for.
pub async fn run_health(options: HealthOptions, shutdown: Shutdown) -> Result<(), DaemonError> {
    let HealthOptions { servers, config } = options;
    let name = config.name.clone();
    tracing::info!(name, node_lease_ms = config.health.node_lease_ms, "health started");
    let core = DutyCore::new(config, dice::dice());
    shell::run(Candidate { core, effects: Vec::new() }, name, servers, shutdown).await
}

struct Candidate {
    core: DutyCore,
    effects: Vec<DutyEffect>,
}

impl Follower for Candidate {
    const HAS_DUTY: bool = true;

    fn applied(&self) -> Index {
        self.core.cell().applied()
    }

    fn chain(&self) -> u64 {
        self.core.cell().chain()
    }

    fn tick_ms(&self) -> u64 {
        TICK_MS
    }

    fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>) {
        let input = match input {
            Input::Snapshot(cell) => DutyInput::Snapshot(cell),
            Input::Entry { index, entry } => DutyInput::Entry { index, entry },
            Input::Answer { session, sequence, outcome } => DutyInput::Answer { session, sequence, outcome },
            Input::OpenAnswer { nonce, outcome } => DutyInput::OpenAnswer { nonce, outcome },
            Input::Connected => DutyInput::Connected,
            Input::Disconnected => DutyInput::Disconnected,
            Input::Beats { relay, beats } => DutyInput::Beats { relay, beats },
            Input::Tick => DutyInput::Tick,
            Input::Close => DutyInput::Close,
            // It never asks for more.
            Input::Proceed => return,
        };
        self.core.step(now_ms, input, &mut self.effects);
        for effect in self.effects.drain(..) {
            match effect {
                DutyEffect::Send(envelopes) => out.push(Effect::Send(envelopes)),
                DutyEffect::Opened(session) => {
                    tracing::info!(%session, "session open");
                    out.push(Effect::Opened(session));
                }
                DutyEffect::Answers { relay, duty_epoch, lease_ms, interval_ms, answers } => {
                    let answer = |mark: BeatMark| BeatAnswer {
                        node: mark.node.0,
                        incarnation: mark.incarnation.0,
                        sequence: mark.sequence,
                        duty_epoch: duty_epoch.0,
                        interval_ms,
                        lease_ms,
                    };
                    let answers = BeatAnswers { answers: answers.into_iter().map(answer).collect() };
                    out.push(Effect::Answers { relay, answers });
                }
                DutyEffect::BrakeEngaged { count } => {
                    tracing::warn!(
                        missing = count,
                        "very many nodes fell silent at once; conclusions wait for a while"
                    );
                }
                DutyEffect::Duty { held } => tracing::info!(held, "health duty"),
                DutyEffect::Closed => out.push(Effect::Closed),
            }
        }
    }

    fn report(&mut self) {
        let now_ms = ohm_runtime::clock::boot_ms();
        tracing::debug!(duty = self.core.holds_duty(now_ms), applied = %self.core.cell().applied(), "health");
    }
}
