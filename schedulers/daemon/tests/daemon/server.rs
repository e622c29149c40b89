//! A server of one cell without a disk: what is appended is applied at once and told to all followers.

use bytes::Bytes;
use ohm_cell::{Applied, Cell};
use ohm_model::{Command, Entry, Envelope, Index, Outcome};
use ohm_runtime::test_server::{Replies, TestServer, serve};
use ohm_wire::{
    AppendReply, AppendRequest, BeatAnswers, Beats, Committed, DutyAttach, DutyDown, DutyUp, Entries, FollowReply,
    FollowRequest, LogEntry, SnapshotPiece, append_reply, duty_up, follow_reply, follow_request, write,
};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

type Outlet<T> = mpsc::Sender<Result<T, Status>>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) cell: Cell,
    pub(crate) follows: u32,
    pub(crate) acknowledged: u64,
    pub(crate) attached: Vec<DutyAttach>,
    pub(crate) answers: Vec<BeatAnswers>,
    /// What every follow request is answered with, if not with a stream.
    pub(crate) refusal: Option<Status>,
    followers: Vec<Outlet<FollowReply>>,
    duties: Vec<Outlet<DutyDown>>,
}

impl State {
    /// Appends one entry; gives its outcomes.
    fn append(&mut self, commands: &[Bytes]) -> Vec<Outcome> {
        let index = Index(self.cell.applied().0 + 1);
        let bytes = Entry::assemble(index.0 * 10, commands.iter().map(|command| &command[..]));
        let entry = Entry::decode(&bytes).unwrap();
        let mut applied = Applied::default();
        self.cell.apply(index, &entry, &mut applied);
        self.tell(index, bytes.into());
        applied.outcomes.clone()
    }

    /// Tells all followers of an entry, whatever its bytes are.
    pub(crate) fn tell(&mut self, index: Index, entry_bytes: Bytes) {
        let entries = Entries { entries: vec![LogEntry { index: index.0, entry_bytes }] };
        let reply = FollowReply { kind: Some(follow_reply::Kind::Entries(entries)) };
        self.followers.retain(|follower| follower.try_send(Ok(reply.clone())).is_ok());
    }

    /// Does `command` as somebody without a session may.
    pub(crate) fn command(&mut self, command: Command) -> Outcome {
        let session = match self.append(&[envelope(open_session())])[..] {
            [Outcome::Session(session)] => session,
            ref other => panic!("no session: {other:?}"),
        };
        let sequence = ohm_model::Sequence(1);
        let envelope = Envelope::new(session, sequence, sequence, command);
        self.append(&[envelope.encode().into()]).pop().unwrap()
    }

    /// Breaks all connections off.
    pub(crate) fn hang_up(&mut self) {
        self.followers.clear();
        self.duties.clear();
    }

    pub(crate) fn beat(&mut self, beats: Beats) {
        let down = DutyDown { beats: Some(beats) };
        self.duties.retain(|duty| duty.try_send(Ok(down.clone())).is_ok());
    }
}

fn open_session() -> Command {
    let nonce = ohm_runtime::dice::random_u64();
    Command::OpenSession { nonce, role: ohm_model::Role::Client, name: "test".into() }
}

fn envelope(command: Command) -> Bytes {
    Envelope::without_session(command).encode().into()
}

#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

impl Server {
    /// Serves on a port of its own.
    pub(crate) async fn start() -> (Server, String) {
        let server = Server::default();
        let address = serve(server.clone()).await.unwrap();
        (server, address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

#[tonic::async_trait]
impl TestServer for Server {
    async fn append(&self, mut requests: Streaming<AppendRequest>) -> Result<Replies<AppendReply>, Status> {
        let (sender, receiver) = mpsc::channel(1024);
        let server = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                let (index, outcomes) = {
                    let mut state = server.state();
                    let outcomes = state.append(&request.command_bytes);
                    (state.cell.applied().0, outcomes)
                };
                let outcome_bytes = outcomes.iter().map(write).collect();
                let result = Some(append_reply::Result::Committed(Committed { index, outcome_bytes }));
                if sender.send(Ok(AppendReply { ticket: request.ticket, result })).await.is_err() {
                    return;
                }
            }
        });
        Ok(ReceiverStream::new(receiver))
    }

    async fn follow(&self, mut requests: Streaming<FollowRequest>) -> Result<Replies<FollowReply>, Status> {
        if let Some(refusal) = self.state().refusal.clone() {
            return Err(refusal);
        }
        let Some(Ok(FollowRequest { kind: Some(follow_request::Kind::Start(start)) })) = requests.next().await else {
            return Err(Status::invalid_argument("no start"));
        };
        let (sender, receiver) = mpsc::channel(1024);
        {
            let mut state = self.state();
            state.follows += 1;
            if start.from < state.cell.applied().0 {
                // In two pieces, to be put together.
                let (index, bytes) = (state.cell.applied().0, Bytes::from(state.cell.snapshot_bytes()));
                for (piece, last) in [(bytes.slice(..bytes.len() / 2), false), (bytes.slice(bytes.len() / 2..), true)] {
                    let kind =
                        Some(follow_reply::Kind::Snapshot(SnapshotPiece { index, piece, last, cell_incarnation: 1 }));
                    sender.try_send(Ok(FollowReply { kind })).unwrap();
                }
            }
            state.followers.push(sender);
        }
        let server = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(FollowRequest { kind: Some(follow_request::Kind::Acknowledge(bytes)) })) =
                requests.next().await
            {
                server.state().acknowledged += bytes;
            }
        });
        Ok(ReceiverStream::new(receiver))
    }

    async fn duty(&self, mut messages: Streaming<DutyUp>) -> Result<Replies<DutyDown>, Status> {
        let (sender, receiver) = mpsc::channel(1024);
        self.state().duties.push(sender);
        let server = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                match message.kind {
                    Some(duty_up::Kind::Attach(attach)) => server.state().attached.push(attach),
                    Some(duty_up::Kind::Answers(answers)) => server.state().answers.push(answers),
                    None => {}
                }
            }
        });
        Ok(ReceiverStream::new(receiver))
    }
}
