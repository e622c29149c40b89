//! The way to the servers and back: one task that connects, reads all streams, decodes, and starts anew when it fails.

use crate::error::DaemonError;
use crate::snapshot::Pieces;
use ohm_cell::Cell;
use ohm_health::BeatMark;
use ohm_model::{Entry, Incarnation, Index, NodeId};
use ohm_runtime::connect::Client;
use ohm_runtime::servers::Dialer;
use ohm_wire::{
    AppendReply, AppendRequest, DutyDown, DutyUp, Entries, FollowReply, FollowRequest, FollowStart, follow_reply,
    follow_request, window_bytes,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// Append requests that may wait for the network; beyond that they are dropped and sent again later.
const REQUESTS_MAX: usize = 1024;
/// Messages to the duty stream that may wait.
const ANSWERS_MAX: usize = 1024;
/// Acknowledgements that may wait.
const ACKNOWLEDGEMENTS_MAX: usize = 64;

/// What reaches the shell.
pub(crate) enum Arrival {
    Connected(Outlets),
    Disconnected,
    Snapshot(Box<Cell>),
    Entries(Vec<(Index, Entry)>),
    Reply(AppendReply),
    Beats {
        relay: u64,
        beats: Vec<BeatMark>,
    },
    /// The last one: the process can't go on.
    Failed(DaemonError),
}

/// Where messages of one connection leave.
pub(crate) struct Outlets {
    /// Which connection; beats carry it as their relay.
    pub(crate) number: u64,
    pub(crate) appends: mpsc::Sender<AppendRequest>,
    pub(crate) duty: Option<mpsc::Sender<DutyUp>>,
}

/// The link of one process.
pub(crate) struct Link {
    pub(crate) dialer: Dialer,
    pub(crate) name: String,
    pub(crate) has_duty: bool,
    /// The last entry in the shell's copy.
    pub(crate) applied: Arc<AtomicU64>,
    /// How often the cell had been restored from a backup when that copy was taken.
    pub(crate) cell_incarnation: AtomicU64,
    pub(crate) arrivals: mpsc::Sender<Arrival>,
    /// The shell gives the connection up.
    pub(crate) reconnect: Arc<Notify>,
}

/// Why one connection ended.
enum Ended {
    /// Another one may do better.
    Lost(String),
    /// None will.
    Failed(DaemonError),
    /// The shell is gone.
    Stopped,
}

impl From<Status> for Ended {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::FailedPrecondition | Code::Unauthenticated | Code::PermissionDenied => {
                Ended::Failed(DaemonError::Refused(status.message().to_string()))
            }
            _ => Ended::Lost(status.message().to_string()),
        }
    }
}

impl From<DaemonError> for Ended {
    fn from(error: DaemonError) -> Self {
        Ended::Failed(error)
    }
}

/// The streams of one connection.
struct Streams {
    follow: Streaming<FollowReply>,
    replies: Streaming<AppendReply>,
    duty: Option<Streaming<DutyDown>>,
    acknowledgements: mpsc::Sender<FollowRequest>,
}

impl Link {
    /// Works until the shell is gone or nothing helps any more.
    pub(crate) async fn run(mut self) {
        for number in 1.. {
            let (client, address) = self.dialer.dial().await;
            let ended = self.serve(client, number, &address).await;
            let arrival = match ended {
                Ended::Lost(reason) => {
                    tracing::warn!(address, reason, "connection lost");
                    Arrival::Disconnected
                }
                Ended::Failed(error) => Arrival::Failed(error),
                Ended::Stopped => return,
            };
            if self.arrivals.send(arrival).await.is_err() {
                return;
            }
        }
    }

    async fn serve(&self, client: Client, number: u64, address: &str) -> Ended {
        let opened = match self.open(client, number).await {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        tracing::info!(address, "connected");
        match self.read(opened, number).await {
            Ok(()) => Ended::Lost("the server ended a stream".into()),
            Err(ended) => ended,
        }
    }

    async fn open(&self, mut client: Client, number: u64) -> Result<Streams, Ended> {
        let (acknowledgements, follow_requests) = mpsc::channel(ACKNOWLEDGEMENTS_MAX);
        let from = self.applied.load(Ordering::Acquire);
        let start = FollowStart {
            from,
            apply_version: ohm_cell::VERSION,
            name: self.name.clone(),
            cell_incarnation: self.cell_incarnation.load(Ordering::Acquire),
        };
        let start = FollowRequest { kind: Some(follow_request::Kind::Start(start)) };
        acknowledgements.send(start).await.map_err(|_| Ended::Stopped)?;
        let follow = client.follow(ReceiverStream::new(follow_requests)).await?.into_inner();
        let (appends, requests) = mpsc::channel(REQUESTS_MAX);
        let replies = client.append(ReceiverStream::new(requests)).await?.into_inner();
        let (duty_sender, duty) = match self.has_duty {
            true => {
                let (sender, answers) = mpsc::channel(ANSWERS_MAX);
                (Some(sender), Some(client.duty(ReceiverStream::new(answers)).await?.into_inner()))
            }
            false => (None, None),
        };
        self.hand_in(Arrival::Connected(Outlets { number, appends, duty: duty_sender })).await?;
        Ok(Streams { follow, replies, duty, acknowledgements })
    }

    /// Reads all streams until one ends.
    async fn read(&self, mut streams: Streams, number: u64) -> Result<(), Ended> {
        let mut pieces = Pieces::default();
        loop {
            let arrival = tokio::select! { biased;
                () = self.reconnect.notified() => return Err(Ended::Lost("given up here".into())),
                reply = streams.replies.next() => match reply {
                    Some(reply) => Some(Arrival::Reply(reply?)),
                    None => return Ok(()),
                },
                beats = next_beats(&mut streams.duty) => match beats {
                    Some(beats) => Some(Arrival::Beats { relay: number, beats: marks(beats?) }),
                    None => return Ok(()),
                },
                reply = streams.follow.next() => match reply {
                    Some(reply) => {
                        let reply = reply?;
                        let bytes = window_bytes(&reply);
                        let arrival = self.follow(&mut pieces, reply).await?;
                        acknowledge(&streams.acknowledgements, bytes).await?;
                        arrival
                    }
                    None => return Ok(()),
                },
            };
            if let Some(arrival) = arrival {
                self.hand_in(arrival).await?;
            }
        }
    }

    async fn follow(&self, pieces: &mut Pieces, reply: FollowReply) -> Result<Option<Arrival>, Ended> {
        match reply.kind {
            Some(follow_reply::Kind::Snapshot(piece)) => {
                let incarnation = piece.cell_incarnation;
                let Some(cell) = pieces.take(piece).await? else { return Ok(None) };
                let own = self.applied.load(Ordering::Acquire);
                // A cell that was restored from a backup is the truth now, however little it knows.
                let is_restored = incarnation > self.cell_incarnation.fetch_max(incarnation, Ordering::AcqRel).max(1);
                if cell.applied().0 < own && !is_restored {
                    let found = cell.applied();
                    return Err(Ended::Lost(format!("the server is at index {found}, this copy is at {own} already")));
                }
                tracing::info!(index = %cell.applied(), "snapshot restored");
                Ok(Some(Arrival::Snapshot(cell)))
            }
            Some(follow_reply::Kind::Entries(entries)) => Ok(Some(Arrival::Entries(decode(&entries)?))),
            None => Ok(None),
        }
    }

    /// Waits until the shell has room for it.
    async fn hand_in(&self, arrival: Arrival) -> Result<(), Ended> {
        self.arrivals.send(arrival).await.map_err(|_| Ended::Stopped)
    }
}

fn decode(entries: &Entries) -> Result<Vec<(Index, Entry)>, DaemonError> {
    let decode = |one: &ohm_wire::LogEntry| {
        let index = Index(one.index);
        let entry = Entry::decode(&one.entry_bytes).map_err(|source| DaemonError::Entry { index, source })?;
        Ok((index, entry))
    };
    entries.entries.iter().map(decode).collect()
}

async fn acknowledge(acknowledgements: &mpsc::Sender<FollowRequest>, bytes: u64) -> Result<(), Ended> {
    let message = FollowRequest { kind: Some(follow_request::Kind::Acknowledge(bytes)) };
    acknowledgements.send(message).await.map_err(|_| Ended::Lost("the follow stream ended".into()))
}

/// The next message of the duty stream; never, where there is none.
async fn next_beats(duty: &mut Option<Streaming<DutyDown>>) -> Option<Result<DutyDown, Status>> {
    match duty {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

fn marks(down: DutyDown) -> Vec<BeatMark> {
    let mark = |beat: ohm_wire::Beat| BeatMark {
        node: NodeId(beat.node),
        incarnation: Incarnation(beat.incarnation),
        sequence: beat.sequence,
    };
    down.beats.map(|beats| beats.beats.into_iter().map(mark).collect()).unwrap_or_default()
}
