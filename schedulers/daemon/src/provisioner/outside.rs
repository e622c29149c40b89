//! The ways to the outside. Every question is answered once, whatever goes wrong.

use super::sim::{self, SimOptions};
use super::{command, webhook};
use ohm_model::Provisioner;
use ohm_provisioning::{Answer, AnswerState, Answered, Ask};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Asks, each question in a task of its own, and hands on what is answered.
pub(super) struct Outside {
    sim: Option<Arc<SimOptions>>,
    answers: mpsc::Sender<Answered>,
}

impl Outside {
    pub(super) fn new(sim: Option<SimOptions>, answers: mpsc::Sender<Answered>) -> Self {
        Outside { sim: sim.map(Arc::new), answers }
    }

    pub(super) fn ask(&self, ask: Ask) {
        let (sim, answers) = (self.sim.clone(), self.answers.clone());
        tokio::spawn(async move {
            let patience = Duration::from_secs(ask.class.call_timeout_seconds.max(1));
            let answer = match &ask.class.provisioner {
                Provisioner::Command { command } => command::ask(command, &ask.question, patience).await,
                Provisioner::Webhook { url } => webhook::ask(url, &ask.question, patience).await,
                Provisioner::Sim => match sim {
                    Some(sim) => sim::ask(&sim, &ask.question).await,
                    None => Answer::of(AnswerState::Failed, "this provisioner was started without --sim-dir"),
                },
            };
            // Nobody listens any more when the process ends.
            let _ = answers.send(Answered { id: ask.question.id().to_string(), epoch: ask.epoch, answer }).await;
        });
    }
}
