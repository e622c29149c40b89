//! The provisioner process: one candidate for the provisioning duty, and the ways to the outside.

mod command;
mod outside;
mod sim;
mod webhook;

use crate::error::DaemonError;
use crate::follower::{Effect, Follower, Input};
use crate::shell;
use ohm_model::{Epoch, Index};
use ohm_provisioning::{Answer, Effect as CoreEffect, Input as CoreInput, ProvisionerConfig, ProvisionerCore};
use ohm_runtime::dice;
use ohm_runtime::servers::Servers;
use ohm_runtime::shutdown::Shutdown;
use outside::Outside;
use tokio::sync::mpsc;

pub use sim::SimOptions;

/// Between two looks at what is due and what was answered, in milliseconds.
const TICK_MS: u64 = 50;
/// How long the duty's lease lasts, in milliseconds.
const DUTY_LEASE_MS: u64 = 4_000;
/// An unanswered command is sent again after this many milliseconds.
const RESEND_MS: u64 = 500;
/// Answers that may wait for the core; more than it may have asked for.
const ANSWERS_MAX: usize = 256;

/// How a candidate is started.
#[derive(Clone, Debug)]
pub struct ProvisionerOptions {
    /// The servers of its cell.
    pub servers: Servers,
    /// For people: host and process.
    pub name: String,
    /// How simulated nodes are started; without it, classes of the kind `sim` fail.
    pub sim: Option<SimOptions>,
}

/// Runs a candidate until `shutdown`; then the duty and its session are given back.
///
/// # Errors
/// See [`DaemonError`]; servers that can't be reached are waited for.
pub async fn run_provisioner(options: ProvisionerOptions, shutdown: Shutdown) -> Result<(), DaemonError> {
    let ProvisionerOptions { servers, name, sim } = options;
    tracing::info!(name, "provisioner started");
    let config = ProvisionerConfig { name: name.clone(), duty_lease_ms: DUTY_LEASE_MS, resend_ms: RESEND_MS };
    let (sender, answers) = mpsc::channel(ANSWERS_MAX);
    let core = ProvisionerCore::new(config, dice::dice());
    let outside = Outside::new(sim, sender);
    shell::run(Candidate { core, outside, answers, effects: Vec::new() }, name, servers, shutdown).await
}

struct Candidate {
    core: ProvisionerCore,
    outside: Outside,
    answers: mpsc::Receiver<(String, Epoch, Answer)>,
    effects: Vec<CoreEffect>,
}

impl Candidate {
    fn feed(&mut self, now_ms: u64, input: CoreInput, out: &mut Vec<Effect>) {
        self.core.step(now_ms, input, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                CoreEffect::Send(envelopes) => out.push(Effect::Send(envelopes)),
                CoreEffect::Opened(session) => {
                    tracing::info!(%session, "session open");
                    out.push(Effect::Opened(session));
                }
                CoreEffect::Ask(ask) => {
                    tracing::info!(id = ask.request.id, class = ask.class.name, "asks for nodes");
                    self.outside.ask(*ask);
                }
                CoreEffect::Duty { held } => tracing::info!(held, "provisioning duty"),
                CoreEffect::Closed => out.push(Effect::Closed),
            }
        }
    }
}

impl Follower for Candidate {
    const HAS_DUTY: bool = false;

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
            Input::Snapshot(cell) => CoreInput::Snapshot(cell),
            Input::Entry { index, entry } => CoreInput::Entry { index, entry },
            Input::Answer { session, sequence, outcome } => CoreInput::Answer { session, sequence, outcome },
            Input::OpenAnswer { nonce, outcome } => CoreInput::OpenAnswer { nonce, outcome },
            Input::Connected => CoreInput::Connected,
            Input::Disconnected => CoreInput::Disconnected,
            Input::Tick => {
                while let Ok((id, epoch, answer)) = self.answers.try_recv() {
                    tracing::info!(id, state = ?answer.state, message = answer.message, "the outside answers");
                    self.feed(now_ms, CoreInput::Answered { id, epoch, answer }, out);
                }
                CoreInput::Tick
            }
            Input::Close => CoreInput::Close,
            // It has no beats, and never asks for more.
            Input::Beats { .. } | Input::Proceed => return,
        };
        self.feed(now_ms, input, out);
    }

    fn report(&mut self) {
        let duty = self.core.holds_duty(ohm_runtime::clock::boot_ms());
        tracing::debug!(duty, open = self.core.open(), applied = %self.core.cell().applied(), "provisioner");
    }
}
