//! The way to the shim and back: finds it or starts it, sends it orders, and tells the agent in its own words what the
//! shim says. When the shim is gone a new one is started, which says anew what lives.

use super::prober::{result_of, split};
use crate::shim::{
    End, EndedRun, Event, LeaseReader, LiveRun, Request, ShimClient, ShimCommand, ShimError, ShimEvents, ShimSender,
};
use ohm_agent::{FoundExit, FoundRun, LeaseFile, RunnerEvent};
use ohm_model::{Exit, Incarnation, RunRef};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// Bunches of orders that may wait for the shim.
pub(crate) const ORDERS_MAX: usize = 4;
/// Words that may wait for the agent.
pub(crate) const WORDS_MAX: usize = 1024;
/// Between two attempts to come to a shim.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the end of a run that this machine would not start is kept back: on a node that can start nothing the cell
/// would otherwise place the task again as fast as it is refused.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// Orders to one particular shim.
#[derive(Debug)]
pub(crate) struct Orders {
    /// The connection they were meant for; later ones don't get them, because their list has told more by then.
    pub(crate) connection: u64,
    pub(crate) requests: Vec<Request>,
}

/// What the agent hears.
#[derive(Debug)]
pub(crate) enum Word {
    /// A shim is there; the event lists all that it knows.
    Found {
        connection: u64,
        shim: u32,
        event: RunnerEvent,
    },
    Event(RunnerEvent),
    /// The last one: no shim can be had.
    Failed(ShimError),
}

/// The way to the shim of one agent.
pub(crate) struct Runner {
    pub(crate) command: ShimCommand,
    pub(crate) orders: mpsc::Receiver<Orders>,
    pub(crate) words: mpsc::Sender<Word>,
    /// The shim was told to end: its end is the end of this task.
    pub(crate) is_closing: Arc<AtomicBool>,
}

/// Why a connection to the shim ended.
enum Ended {
    Lost(ShimError),
    /// The agent is gone.
    Stopped,
}

impl From<ShimError> for Ended {
    fn from(error: ShimError) -> Self {
        Ended::Lost(error)
    }
}

/// One connection to a shim.
struct Connection {
    number: u64,
    shim: u32,
    events: ShimEvents,
    sender: ShimSender,
    lease: LeaseReader,
    /// The list so far; none once it is complete.
    list: Option<(Vec<FoundRun>, Vec<FoundExit>)>,
    refused: VecDeque<(Instant, RunRef)>,
}

impl Runner {
    /// Works until the agent is gone, the shim has ended as told, or none can be had.
    pub(crate) async fn run(mut self) {
        let mut said = BTreeSet::new();
        for number in 1.. {
            let ended = match self.command.start_or_find().await {
                Ok(client) => self.talk(client, number, &mut said).await,
                Err(error) => Ended::Lost(error),
            };
            let Ended::Lost(error) = ended else { return };
            if self.is_closing.load(Ordering::Acquire) {
                return;
            }
            if is_lasting(&error) {
                // Nobody hears it only when the agent is ending anyway.
                let _ = self.words.send(Word::Failed(error)).await;
                return;
            }
            tracing::warn!(%error, "no shim; looking for it or starting one");
            sleep(AGAIN).await;
        }
    }

    async fn talk(&mut self, client: ShimClient, number: u64, said: &mut BTreeSet<String>) -> Ended {
        for warning in &client.info.warnings {
            if said.insert(warning.clone()) {
                tracing::warn!("{warning}");
            }
        }
        let lease = LeaseReader::open(&self.command.options.folder);
        let lease = match lease {
            Ok(lease) => lease,
            Err(error) => return Ended::Lost(error.into()),
        };
        let shim = client.info.pid;
        tracing::info!(pid = shim, namespace = client.info.has_namespace, "shim found");
        let (sender, events) = client.split();
        let list = Some((Vec::new(), Vec::new()));
        let mut connection = Connection { number, shim, events, sender, lease, list, refused: VecDeque::new() };
        loop {
            if let Err(ended) = self.turn(&mut connection).await {
                return ended;
            }
        }
    }

    async fn turn(&mut self, connection: &mut Connection) -> Result<(), Ended> {
        let refused_until = connection.refused.front().map(|(until, _)| *until);
        tokio::select! { biased;
            Some(orders) = self.orders.recv() => {
                if orders.connection == connection.number {
                    self.send(connection, orders.requests).await?;
                }
            }
            () = sleep_until(refused_until.unwrap_or_else(Instant::now)), if refused_until.is_some() => {
                if let Some((_, run)) = connection.refused.pop_front() {
                    self.say(Word::Event(RunnerEvent::Exited { run, exit: Exit::NeverStarted })).await?;
                }
            }
            event = connection.events.next() => {
                let mut next = Some(event?);
                while let Some(event) = next {
                    if let Some(word) = connection.hear(event) {
                        self.say(word).await?;
                    }
                    next = connection.events.ready()?;
                }
            }
        }
        Ok(())
    }

    async fn say(&self, word: Word) -> Result<(), Ended> {
        self.words.send(word).await.map_err(|_| Ended::Stopped)
    }

    /// Sends all at once; if one of them is too long, one by one, so that only that one fails.
    async fn send(&self, connection: &mut Connection, requests: Vec<Request>) -> Result<(), Ended> {
        match connection.sender.send(&requests).await {
            Err(ShimError::FrameTooLong { .. }) => {}
            sent => return sent.map_err(Ended::Lost),
        }
        for request in requests {
            match connection.sender.send(std::slice::from_ref(&request)).await {
                Ok(()) => {}
                Err(error @ ShimError::FrameTooLong { .. }) => {
                    if let Request::Start { run, .. } = request {
                        self.say(Word::Event(RunnerEvent::StartFailed { run, message: error.to_string() })).await?;
                    }
                }
                Err(error) => return Err(Ended::Lost(error)),
            }
        }
        Ok(())
    }
}

/// What another attempt would not change.
fn is_lasting(error: &ShimError) -> bool {
    matches!(error, ShimError::PathTooLong { .. } | ShimError::Refused(_) | ShimError::Unexpected { .. })
}

impl Connection {
    fn hear(&mut self, event: Event) -> Option<Word> {
        let event = match event {
            Event::Listed { live, ended, is_last } => return self.listed(&live, &ended, is_last),
            Event::Started(live) => RunnerEvent::Started { run: live.run, pid: live.pid },
            Event::Exited(ended) => return self.exited(&ended),
            Event::StartRefused { run, reason } => {
                tracing::warn!(%run, reason, "not started");
                self.refused.push_back((Instant::now() + REFUSED_FOR, run));
                return None;
            }
            Event::Probed { run, number, end } => {
                let (number, kind) = split(number);
                RunnerEvent::Probed { run, kind, number, result: result_of(end) }
            }
            Event::NotKnown { run } => RunnerEvent::Exited { run, exit: Exit::NeverStarted },
            Event::Hello(_) | Event::Refused { .. } => return None,
        };
        Some(Word::Event(event))
    }

    fn exited(&mut self, ended: &EndedRun) -> Option<Word> {
        let (run, exit) = (ended.run, ended.exit());
        match (&ended.end, exit) {
            (End::StartFailed(message), Exit::StartFailed) => {
                Some(Word::Event(RunnerEvent::StartFailed { run, message: message.clone() }))
            }
            _ => Some(Word::Event(RunnerEvent::Exited { run, exit })),
        }
    }

    /// Gathers the parts of the list, which is the first that a shim says.
    fn listed(&mut self, live: &[LiveRun], ended: &[EndedRun], is_last: bool) -> Option<Word> {
        let (all_live, all_exits) = self.list.as_mut()?;
        let found = |live: &LiveRun| FoundRun {
            run: live.run,
            pid: live.pid,
            started_ms: live.at_boottime_ms,
            grace_ms: live.grace_ms,
        };
        all_live.extend(live.iter().map(found));
        all_exits.extend(ended.iter().map(found_exit));
        if !is_last {
            return None;
        }
        let (live, exits) = self.list.take()?;
        let lease = self.lease.read();
        let lease = (lease.deadline_ms > 0).then_some(LeaseFile {
            deadline_ms: lease.deadline_ms,
            since_ms: lease.since_ms,
            incarnation: Incarnation(lease.incarnation),
        });
        let event = RunnerEvent::Found { lease, live, exits };
        Some(Word::Found { connection: self.number, shim: self.shim, event })
    }
}

fn found_exit(ended: &EndedRun) -> FoundExit {
    let message = match &ended.end {
        End::StartFailed(message) | End::NeverStarted(message) => message.clone(),
        End::Code(_) | End::Signal(_) | End::Unseen => String::new(),
    };
    FoundExit { run: ended.run, exit: ended.exit(), message }
}
