//! The provisioner process: one candidate for the provisioning duty, and the ways to the outside.

mod answer;
mod command;
mod outside;
mod sim;
mod webhook;

use crate::error::DaemonError;
use crate::follower::{Follower, Wish};
use crate::shell;
use ohm_client::FollowerCore;
use ohm_provisioning::{Answered, Ask, ProvisionerConfig, ProvisionerCore};
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
    shell::run(Candidate { core, outside, answers }, name, servers, shutdown).await
}

struct Candidate {
    core: ProvisionerCore,
    outside: Outside,
    answers: mpsc::Receiver<Answered>,
}

impl Follower for Candidate {
    type Core = ProvisionerCore;

    fn core(&self) -> &ProvisionerCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut ProvisionerCore {
        &mut self.core
    }

    fn tick_ms(&self) -> u64 {
        TICK_MS
    }

    fn perform(&mut self, ask: Box<Ask>) -> Option<Wish> {
        tracing::info!(id = ask.question.id(), class = ask.class.name, "asks who brings nodes");
        self.outside.ask(*ask);
        None
    }

    fn arrived(&mut self) -> Option<Answered> {
        let answered = self.answers.try_recv().ok()?;
        let Answered { id, answer, .. } = &answered;
        tracing::info!(id, state = ?answer.state, message = answer.message, "the outside answers");
        Some(answered)
    }

    fn report(&mut self) {
        let duty = self.core.holds_duty(ohm_runtime::clock::boot_ms());
        tracing::debug!(duty, open = self.core.open(), applied = %self.core.cell().applied(), "provisioner");
    }
}
