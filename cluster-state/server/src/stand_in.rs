//! A cell that answers a [`ReplicaHandle`] with no process, log or disk behind it: for those who try the routes of HTTP
//! out with very many requests.

use crate::handle::{Question, ReplicaHandle, Servers};
use ohm_cell::Cell;
use ohm_log::Members;
use ohm_model::{Asked, Event, Index, Outcome};
use ohm_replica::{ChangeFailure, EventRing};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Questions that may wait.
const QUESTIONS_MAX: usize = 64;
/// Events that are remembered.
const EVENTS_MAX: usize = 100;

/// The end of a handle at which questions come out.
pub struct StandIn {
    questions: mpsc::Receiver<Question>,
    applied: watch::Sender<Index>,
    events: EventRing,
}

/// What is asked of whoever owns the cell.
pub trait Truth {
    /// The cell as it is.
    fn cell(&self) -> &Cell;
    /// Applies a command of a person: where, with which outcome, and what happened.
    fn apply(&mut self, asked: Asked) -> (Index, Outcome, Vec<Event>);
}

impl StandIn {
    /// A handle, and its other end.
    pub fn new() -> (ReplicaHandle, StandIn) {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        let (applied, seen) = watch::channel(Index(0));
        let (log_readers, log_relay) = Default::default();
        let handle = ReplicaHandle { questions, applied: seen, log_readers, log_relay };
        (handle, StandIn { questions: asked, applied, events: EventRing::new(EVENTS_MAX) })
    }

    /// Begins anew: nothing has happened, and nobody has asked.
    pub fn forget(&mut self) {
        while self.questions.try_recv().is_ok() {}
        self.events = EventRing::new(EVENTS_MAX);
        self.applied.send_replace(Index(0));
    }

    /// The next question; never ends while there is a handle.
    pub async fn answer(&mut self, truth: &mut impl Truth) {
        let Some(question) = self.questions.recv().await else { return std::future::pending().await };
        // Whoever asked may have gone; that is no matter of ours.
        match question {
            Question::Cell(answer) => drop(answer.send(Arc::new(truth.cell().clone()))),
            Question::Command(asked, answer) => {
                let (index, outcome, events) = truth.apply(*asked);
                self.events.extend(&events);
                self.applied.send_replace(index);
                drop(answer.send(Ok((index, outcome))));
            }
            Question::Events(index, answer) => drop(answer.send(self.events.page(index))),
            Question::Read(answer) => drop(answer.send(Ok(()))),
            Question::ChangeMembers(_, answer) => {
                drop(answer.send(Err(ChangeFailure { again: false, reason: "it is the last voter".into() })));
            }
            Question::Transfer(_) | Question::BelieveClock(_) => {}
            Question::Servers(answer) => {
                let members = Members { voters: vec![1], ..Members::default() };
                drop(answer.send(Servers { here: 1, leader: Some(1), members, ..Servers::default() }));
            }
            Question::AgentOf(_, answer) => drop(answer.send(None)),
        }
    }
}
