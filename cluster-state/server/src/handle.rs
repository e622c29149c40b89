//! What the rest of the process knows of the replica thread: ask for a copy of the cell, hand a command in, read
//! events.

use crate::log_readers::{AgentOutlet, AgentStream, LogQuery, LogReaders};
use crate::log_relay::{LogRelay, LogStream};
use crate::metrics::Judged;
use ohm_cell::Cell;
use ohm_log::{MemberChange, Members};
use ohm_model::{Asked, Class, Index, NodeId, Outcome};
use ohm_replica::{ChangeFailure, EventPage, TimeView};
use ohm_wire::api::ServerEngine;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Why the replica did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Too much waits; nothing was done.
    #[error("the server is busy: {0}; try again in a moment")]
    Busy(String),
    /// Nobody knows whether the command will happen; ask for its effect.
    #[error("the outcome is not known: {0}; look whether it happened before trying again")]
    Unknown(String),
    /// The server is stopping, starting or has failed.
    #[error("the server is not serving: {0}")]
    NotServing(String),
}

/// What the replica thread answers.
pub(crate) enum Question {
    /// A clone of the cell, taken between two entries.
    Cell(oneshot::Sender<Arc<Cell>>),
    /// A command of a person, under the server's own session.
    Command(Box<Asked>, oneshot::Sender<Result<(Index, Outcome), Unanswered>>),
    /// Events after an index.
    Events(Index, oneshot::Sender<EventPage>),
    /// Answered once the copy shows everything that was acknowledged anywhere before.
    Read(oneshot::Sender<Result<(), Unanswered>>),
    /// Another server is to belong to the group, or one no more.
    ChangeMembers(MemberChange, oneshot::Sender<Result<u64, ChangeFailure>>),
    /// Another server is to lead.
    Transfer(Option<u64>),
    /// The wall clock of this server is right.
    BelieveClock(u64),
    /// Who belongs to the group.
    Servers(oneshot::Sender<Servers>),
    /// The connection of the agent that holds a node, if it is here.
    AgentOf(NodeId, oneshot::Sender<Option<AgentOutlet>>),
}

/// The group of servers, as one of them knows it.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// The one that answers.
    pub here: u64,
    /// What keeps the log.
    pub engine: ServerEngine,
    /// The one that leads, if one is known.
    pub leader: Option<u64>,
    /// Who belongs to it.
    pub members: Members,
    /// Where they listen, as far as that is known.
    pub addresses: BTreeMap<u64, String>,
    /// What time it is, and how the wall clocks differ from that.
    pub time: Option<TimeView>,
    /// What the one that answers saw judged since it started.
    pub(crate) judged: BTreeMap<Class, Judged>,
}

impl Servers {
    /// All but the one that answers, with where they listen. Over etcd nobody is a member.
    fn others(self) -> Vec<(u64, String)> {
        let Servers { here, members, addresses, .. } = self;
        let is_there = |server: u64| members.voters.is_empty() || members.all().any(|member| member == server);
        addresses.into_iter().filter(|(server, _)| *server != here && is_there(*server)).collect()
    }
}

/// A cheap handle of the replica thread.
#[derive(Clone)]
pub struct ReplicaHandle {
    pub(crate) questions: mpsc::Sender<Question>,
    pub(crate) applied: watch::Receiver<Index>,
    pub(crate) log_readers: Arc<LogReaders>,
    pub(crate) log_relay: Arc<LogRelay>,
}

impl ReplicaHandle {
    /// The state as of now. Cheap: chunks are shared, not copied.
    pub async fn cell(&self) -> Result<Arc<Cell>, Unanswered> {
        self.ask(Question::Cell).await
    }

    /// Waits until the state here shows everything that was acknowledged anywhere before this call.
    pub async fn read(&self) -> Result<(), Unanswered> {
        self.ask(Question::Read).await?
    }

    /// Changes who belongs to the group of servers, and gives the server that was added or removed.
    pub async fn change_members(&self, change: MemberChange) -> Result<Result<u64, ChangeFailure>, Unanswered> {
        self.ask(|answer| Question::ChangeMembers(change, answer)).await
    }

    /// Lets another server lead; which one that is shows a little later.
    pub async fn transfer(&self, to: Option<u64>) -> Result<(), Unanswered> {
        self.send(Question::Transfer(to)).await
    }

    /// Believes the wall clock of a server; what time it is then shows a little later.
    pub async fn believe_clock(&self, server: u64) -> Result<(), Unanswered> {
        self.send(Question::BelieveClock(server)).await
    }

    /// Who belongs to the group of servers, as far as this one knows.
    pub async fn servers(&self) -> Result<Servers, Unanswered> {
        self.ask(Question::Servers).await
    }

    /// Puts a command into the log and waits until it is applied here.
    pub async fn command(&self, asked: Asked) -> Result<(Index, Outcome), Unanswered> {
        let (answer, wait) = oneshot::channel();
        self.send(Question::Command(Box::new(asked), answer)).await?;
        // It may be in the log although nobody is left to say so.
        wait.await.map_err(|_| Unanswered::Unknown("the server stopped before it answered".into()))?
    }

    /// The events after `index`.
    pub async fn events_after(&self, index: Index) -> Result<EventPage, Unanswered> {
        self.ask(|answer| Question::Events(index, answer)).await
    }

    /// The last entry applied here; changes with each one.
    pub fn applied(&self) -> watch::Receiver<Index> {
        self.applied.clone()
    }

    /// The output of a task, piece by piece, from whichever server the node's agent is connected to; or why there is
    /// none.
    pub async fn read_log(&self, query: LogQuery) -> Result<Result<LogStream, String>, Unanswered> {
        if let Some(stream) = self.read_log_here(query).await? {
            return Ok(Ok(LogStream::Agent(stream)));
        }
        let others = self.servers().await?.others();
        Ok(self.log_relay.open(&others, &query).await.map(LogStream::Server))
    }

    /// The same; none when the node's agent is not connected to this server.
    pub(crate) async fn read_log_here(&self, query: LogQuery) -> Result<Option<AgentStream>, Unanswered> {
        let agent = self.ask(|answer| Question::AgentOf(query.node, answer)).await?;
        Ok(match agent {
            Some(agent) => Some(Arc::clone(&self.log_readers).open(query, agent).await),
            None => None,
        })
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Unanswered> {
        let (answer, wait) = oneshot::channel();
        self.send(question(answer)).await?;
        wait.await.map_err(|_| Unanswered::NotServing("it stopped before it answered".into()))
    }

    async fn send(&self, question: Question) -> Result<(), Unanswered> {
        self.questions.send(question).await.map_err(|_| Unanswered::NotServing("its replica has stopped".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::Command;

    #[tokio::test]
    async fn a_command_whose_server_stops_has_an_unknown_outcome() {
        let (questions, mut asked) = mpsc::channel(1);
        let (_applied, seen) = watch::channel(Index(0));
        let handle = ReplicaHandle { questions, applied: seen, log_readers: Arc::default(), log_relay: Arc::default() };
        let asking = tokio::spawn({
            let handle = handle.clone();
            async move { handle.command(Command::Tick.into()).await }
        });
        drop(asked.recv().await);
        assert!(matches!(asking.await.unwrap(), Err(Unanswered::Unknown(_))));
        drop(asked);
        assert!(matches!(handle.command(Command::Tick.into()).await, Err(Unanswered::NotServing(_))));
    }
}
