//! The one thread that owns the replica: it gathers what came in, steps the core, and performs what the core wants
//! done. Disk writes happen here, so everything that arrives during a sync rides in the next one.

use crate::handle::{Question, ReplicaHandle, Servers, Unanswered};
use crate::inbox::{Inbox, Message};
use crate::links::Links;
use crate::log_relay::LogRelay;
use crate::metrics::Meter;
use crate::outlets::Outlets;
use crate::time_file::TimeFile;
use ohm_cell::Cell;
use ohm_log::Log;
use ohm_model::{Asked, Index, Outcome};
use ohm_replica::{
    AppendResult, ChangeFailure, Clock, CopyEffect, Purpose, Replica, ReplicaFailure, RequestId, ServerCore,
    ServerEffect, ServerInput,
};
use ohm_runtime::clock::{boot_ms, wall_ms};
use ohm_runtime::recorder::{Happened, Recorder};
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::api::ServerEngine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Inputs that may wait for the thread; senders wait beyond that.
const INBOX_MAX: usize = 8192;
/// Inputs taken in before the log is flushed.
const BUNCH_MAX: usize = 4096;
/// The longest sleep: clocks and time-outs are looked at this often at least.
const SLEEP_MS_MAX: u64 = 100;
/// How long a server that stops waits for another one to lead.
const HAND_OVER_MS: u64 = 1_500;

/// Which server this is, on which engine, and where it notes the time.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) server: u64,
    pub(crate) cell_incarnation: u64,
    pub(crate) engine: ServerEngine,
    pub(crate) time_file: TimeFile,
}

/// Starts the thread. It ends with the shutdown, or with a failure, which it hands out at `failed`.
pub(crate) fn start<L: Log + 'static>(
    open: impl FnOnce(mpsc::WeakSender<Message>) -> Result<ServerCore<L>, String> + Send + 'static,
    link: impl FnOnce(mpsc::WeakSender<Message>) -> Links + Send + 'static,
    failure: impl FnOnce(&ReplicaFailure, &Cell) + Send + 'static,
    place: Place,
    log_relay: Arc<LogRelay>,
    meter: Meter,
    shutdown: Shutdown,
) -> (ReplicaHandle, Inbox, oneshot::Receiver<String>) {
    let (inbox, receiver) = mpsc::channel(INBOX_MAX);
    let (questions, asked) = mpsc::channel(INBOX_MAX);
    let (applied, applied_seen) = watch::channel(Index(0));
    let (fail, failed) = oneshot::channel();
    let own_inbox = inbox.clone();
    let body = move || {
        let run = || -> Result<(), String> {
            let Place { server, cell_incarnation, engine, time_file } = place;
            let core = open(own_inbox.downgrade())?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let mut worker = Worker {
                core,
                links: link(own_inbox.downgrade()),
                server,
                engine,
                time_file,
                unreachable: Vec::new(),
                reads: BTreeMap::new(),
                changes: BTreeMap::new(),
                meter,
                own_inbox,
                applied,
                outlets: Outlets::new(cell_incarnation),
                requests: BTreeMap::new(),
                next: 1,
                effects: Vec::new(),
                failed: Vec::new(),
                caught_up: false,
                early: Vec::new(),
                recorder: Recorder::from_environment("server", &format!("server-{server}")),
                recorded: Index(0),
            };
            let ran = runtime.block_on(worker.run(receiver, asked, shutdown));
            ran.map_err(|error| {
                failure(&error, worker.core.replica().cell());
                error.to_string()
            })
        };
        if let Err(error) = run() {
            // Nobody waits for it only when the process is ending anyway.
            let _ = fail.send(error);
        }
    };
    let spawned = std::thread::Builder::new().name("replica".into()).spawn(body);
    if let Err(error) = spawned {
        tracing::error!(%error, "the replica thread could not be started");
    }
    let handle = ReplicaHandle { questions, applied: applied_seen, log_readers: Arc::default(), log_relay };
    (handle, Inbox(inbox), failed)
}

/// Where the outcome of a person's command goes.
type Answer = oneshot::Sender<Result<(Index, Outcome), Unanswered>>;

struct Worker<L> {
    core: ServerCore<L>,
    /// The ways to the other servers.
    links: Links,
    server: u64,
    engine: ServerEngine,
    time_file: TimeFile,
    /// Servers that messages could not be sent to.
    unreachable: Vec<u64>,
    reads: BTreeMap<RequestId, oneshot::Sender<Result<(), Unanswered>>>,
    changes: BTreeMap<RequestId, oneshot::Sender<Result<u64, ChangeFailure>>>,
    meter: Meter,
    own_inbox: mpsc::Sender<Message>,
    applied: watch::Sender<Index>,
    outlets: Outlets,
    requests: BTreeMap<RequestId, Answer>,
    next: u64,
    effects: Vec<ServerEffect>,
    /// Snapshots that could not be begun.
    failed: Vec<Purpose>,
    /// Whether questions may be answered: not before the copy has caught up with what was acknowledged before.
    caught_up: bool,
    /// Followers that came before that.
    early: Vec<Message>,
    recorder: Recorder,
    /// The last entry whose hash is recorded.
    recorded: Index,
}

impl<L: Log> Worker<L> {
    async fn run(
        &mut self,
        mut inbox: mpsc::Receiver<Message>,
        mut questions: mpsc::Receiver<Question>,
        shutdown: Shutdown,
    ) -> Result<(), ReplicaFailure> {
        loop {
            let wake_ms = self.core.wake_ms().map_or(SLEEP_MS_MAX, |wake_ms| wake_ms.saturating_sub(boot_ms()));
            let sleep = Duration::from_millis(wake_ms.min(SLEEP_MS_MAX));
            tokio::select! {
                biased;
                () = shutdown.started() => {
                    self.hand_over(&mut inbox).await?;
                    return self.step(ServerInput::Close);
                }
                Some(question) = questions.recv(), if self.caught_up => self.ask(question)?,
                Some(message) = inbox.recv() => self.take(message)?,
                () = tokio::time::sleep(sleep) => {}
            }
            for _ in 0..BUNCH_MAX {
                let question = if self.caught_up { questions.try_recv().ok() } else { None };
                let message = inbox.try_recv().ok();
                if question.is_none() && message.is_none() {
                    break;
                }
                question.map_or(Ok(()), |question| self.ask(question))?;
                message.map_or(Ok(()), |message| self.take(message))?;
            }
            self.step(ServerInput::Flush)?;
            if self.recorder.is_on() {
                self.record_copy();
            }
            if !self.caught_up && self.core.has_caught_up(boot_ms()) {
                self.caught_up = true;
                tracing::info!("caught up: questions are answered");
                for message in std::mem::take(&mut self.early) {
                    self.take(message)?;
                }
            }
        }
    }

    /// A leader that stops lets another one lead first: nobody has to wait for an election then.
    async fn hand_over(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Result<(), ReplicaFailure> {
        let (_, leads) = self.core.leader();
        if !leads || self.core.members().voters.len() < 2 {
            return Ok(());
        }
        let until_ms = boot_ms() + HAND_OVER_MS;
        self.step(ServerInput::Transfer { to: None })?;
        while self.core.leader().1 && boot_ms() < until_ms {
            self.step(ServerInput::Flush)?;
            let wait = Duration::from_millis(5);
            if let Ok(Some(message)) = tokio::time::timeout(wait, inbox.recv()).await {
                self.take(message)?;
            }
        }
        tracing::info!(leader = ?self.core.leader().0, "handed over");
        Ok(())
    }

    fn record_copy(&mut self) {
        let cell = self.core.replica().cell();
        if cell.applied() > self.recorded {
            self.recorded = cell.applied();
            self.recorder.write(|| Happened::Copied { index: cell.applied(), chain: cell.chain() });
        }
    }

    fn step(&mut self, input: ServerInput) -> Result<(), ReplicaFailure> {
        let mut effects = std::mem::take(&mut self.effects);
        let stepped = self.core.step(clock(), input, &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.effects = effects;
        for purpose in std::mem::take(&mut self.failed) {
            let input = ServerInput::Encoded { purpose, index: Index(0), pieces: Vec::new() };
            self.core.step(clock(), input, &mut self.effects)?;
        }
        for gone in self.outlets.take_gone_peers() {
            self.core.step(clock(), ServerInput::Gone { peer: gone }, &mut self.effects)?;
        }
        for server in std::mem::take(&mut self.unreachable) {
            self.core.step(clock(), ServerInput::Unreachable { server }, &mut self.effects)?;
        }
        for follower in self.outlets.take_gone_followers() {
            self.core.step(clock(), ServerInput::Unfollow { follower }, &mut self.effects)?;
        }
        stepped
    }

    fn take(&mut self, message: Message) -> Result<(), ReplicaFailure> {
        match message {
            Message::Input(input) => {
                let input = *input;
                match input {
                    ServerInput::Gone { peer } => self.outlets.remove(peer),
                    ServerInput::Unfollow { follower } => self.outlets.remove_follower(follower),
                    _ => {}
                }
                return self.step(input);
            }
            Message::AppendPeer(peer, sender) => self.outlets.append(peer, sender),
            Message::AgentPeer(peer, sender) => self.outlets.agent(peer, sender),
            Message::DutyPeer(peer, sender) => self.outlets.duty(peer, sender),
            // A copy that lags behind its followers would send them back in time.
            Message::Follower(..) if !self.caught_up => self.early.push(message),
            Message::Follower(follower, from, sender) => {
                self.outlets.follower(follower, sender);
                return self.step(ServerInput::Follow { follower, from });
            }
            Message::ServerAt(server, address) => self.links.note(server, &address),
            #[cfg(feature = "etcd")]
            Message::Wake => {}
        }
        Ok(())
    }

    fn ask(&mut self, question: Question) -> Result<(), ReplicaFailure> {
        match question {
            Question::Cell(answer) => {
                let cell: Arc<Cell> = Arc::new(self.core.replica().cell().clone());
                let _ = answer.send(cell);
            }
            Question::Events(index, answer) => {
                let replica = self.core.replica();
                let _ = answer.send(replica.events().page(index));
            }
            Question::Command(asked, answer) => return self.command(*asked, answer),
            Question::Read(answer) => {
                let request = RequestId(self.number());
                self.reads.insert(request, answer);
                return self.step(ServerInput::Read { request });
            }
            Question::ChangeMembers(change, answer) => {
                let request = RequestId(self.number());
                self.changes.insert(request, answer);
                return self.step(ServerInput::ChangeMembers { request, change });
            }
            Question::BelieveClock(server) => return self.step(ServerInput::BelieveClock { server }),
            Question::Transfer(to) => return self.step(ServerInput::Transfer { to }),
            Question::Servers(answer) => {
                let members = self.core.members().clone();
                let addresses = self.links.addresses().clone();
                let leader = self.core.leader().0;
                let (engine, time) = (self.engine, self.core.replica().time(clock()));
                let (here, judged) = (self.server, self.meter.judged().clone());
                let _ = answer.send(Servers { here, engine, leader, members, addresses, time, judged });
            }
            Question::AgentOf(node, answer) => {
                let peer = self.core.peer_of(node);
                let _ = answer.send(peer.and_then(|peer| self.outlets.agent_outlet(peer)));
            }
        }
        Ok(())
    }

    fn command(&mut self, asked: Asked, answer: Answer) -> Result<(), ReplicaFailure> {
        let request = RequestId(self.number());
        self.requests.insert(request, answer);
        self.step(ServerInput::Command { request, asked })
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn perform(&mut self, effect: ServerEffect) {
        match effect {
            ServerEffect::Appended { peer, ticket, result } => self.outlets.send_append(peer, ticket, result),
            ServerEffect::Done { request, result } => self.finish(request, result),
            ServerEffect::ToAgent { peer, order } => self.outlets.order(peer, order),
            ServerEffect::DutyRefused { peer, session } => {
                tracing::warn!(%peer, %session, "refused as health: the session was opened by somebody else");
                self.outlets.remove(peer);
            }
            ServerEffect::ToDuty { peer, beats } => self.outlets.send_duty(peer, beats),
            ServerEffect::ToServer { to, bytes } => {
                if !self.links.send(to, bytes) {
                    self.unreachable.push(to);
                }
            }
            ServerEffect::Readable { request, result } => {
                if let Some(answer) = self.reads.remove(&request) {
                    let _ = answer.send(result.map_err(Unanswered::NotServing));
                }
            }
            ServerEffect::MembersChanged { request, result } => {
                if let Some(answer) = self.changes.remove(&request) {
                    let _ = answer.send(result);
                }
            }
            ServerEffect::Copy(effect) => self.perform_copy(effect),
        }
    }

    fn perform_copy(&mut self, effect: CopyEffect) {
        match effect {
            CopyEffect::ToFollower { follower, frame } => self.outlets.send_follower(follower, frame),
            CopyEffect::Applied { index, applied, .. } => {
                self.meter.applied(index, &applied, self.core.replica().cell());
                self.applied.send_replace(index);
            }
            CopyEffect::Encode { purpose, cell } => self.encode(purpose, cell),
            CopyEffect::Members(members) => {
                tracing::info!(?members, "the servers of the cell");
                members.addresses.iter().for_each(|(server, address)| self.links.note(*server, address));
                self.links.keep(members.all());
            }
            CopyEffect::Leader { member, here } => tracing::info!(?member, here, "who takes appends"),
            CopyEffect::Time(word) => {
                word.note.into_iter().for_each(|note| self.time_file.keep(note));
                self.meter.time(word);
            }
            CopyEffect::Alarm(alarm) => {
                self.meter.alarm(&alarm);
                tracing::warn!("{alarm}");
            }
            CopyEffect::SnapshotSaved { index } => tracing::info!(%index, "snapshot saved"),
        }
    }

    fn finish(&mut self, request: RequestId, result: AppendResult) {
        let Some(answer) = self.requests.remove(&request) else { return };
        let result = match result {
            AppendResult::Committed { index, mut outcomes } => match outcomes.pop() {
                Some(outcome) => Ok((index, outcome)),
                None => Err(Unanswered::Unknown("the log answered without an outcome".into())),
            },
            AppendResult::Busy(reason) => Err(Unanswered::Busy(reason)),
            AppendResult::NotServing(reason) => Err(Unanswered::NotServing(reason)),
            AppendResult::Unknown(reason) => Err(Unanswered::Unknown(reason)),
        };
        let _ = answer.send(result);
    }

    /// Encoding may take long: it runs on a clone, in a thread of its own.
    fn encode(&mut self, purpose: Purpose, cell: Box<Cell>) {
        let inbox = self.own_inbox.clone();
        let body = move || {
            let (index, pieces) = (cell.applied(), Replica::<ohm_log::MemLog>::encode(&cell));
            if pieces.is_empty() {
                tracing::error!(%index, "the state holds something too large for a snapshot");
            }
            let _ = inbox.blocking_send(Message::Input(Box::new(ServerInput::Encoded { purpose, index, pieces })));
        };
        if let Err(error) = std::thread::Builder::new().name("snapshot".into()).spawn(body) {
            tracing::error!(%error, "no thread for a snapshot; it will be tried again");
            self.failed.push(purpose);
        }
    }
}

/// What the clocks of this machine show.
fn clock() -> Clock {
    Clock { now_ms: boot_ms(), wall_ms: wall_ms() }
}
