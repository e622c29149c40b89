//! What roles and other servers say to a server: decoded as its RPC side does, then taken by the whole server core.
//!
//! Each part of the input is one message of the stream that its kind names, or time that passes. Besides that nothing
//! panics: nobody's message ends the server, and its copy of the cell keeps all invariants.

use crate::cell::documents;
use crate::pieces::{pieces, push_piece};
use crate::targets::wire;
use bytes::Bytes;
use ohm_log::{MemFaults, MemLog, MemStore};
use ohm_model::{Command, Envelope, Index, Role};
use ohm_replica::{Clock, FollowerId, Peer, Replica, ReplicaConfig, RequestId, ServerConfig, ServerCore, ServerInput};
use ohm_server::heard::{self, AgentWord};
use ohm_stdx::Prng;
use ohm_wire::{AgentUp, AppendRequest, DutyUp, FollowRequest, follow_request};
use prost::Message;

const PARTS_MAX: usize = 40;

/// A server on its own, with the jobs of [`crate::cell`] and a node.
struct Server {
    core: ServerCore<MemLog>,
    clock: Clock,
}

impl Server {
    fn new() -> Self {
        let log = MemStore::new(1, MemFaults::default()).open();
        let config = ServerConfig { name: "server".into(), cell_incarnation: 1, resend_ms: 500, server: 1 };
        let core = ServerCore::new(Replica::new(log, ReplicaConfig::default()), config, Prng::new(1));
        let mut server = Server { core, clock: Clock { now_ms: 1_000, wall_ms: 1_000_000 } };
        server.pass(3);
        for (number, command) in documents().into_iter().enumerate() {
            let request = RequestId(number as u64);
            server.take(ServerInput::Command { request, asked: command.into() });
        }
        server.pass(2);
        server
    }

    fn take(&mut self, input: ServerInput) {
        if let Err(failure) = self.core.step(self.clock, input, &mut Vec::new()) {
            panic!("a message ended the server: {failure}");
        }
    }

    fn pass(&mut self, turns: u64) {
        for _ in 0..turns {
            self.clock.now_ms += 200;
            self.clock.wall_ms += 200;
            self.take(ServerInput::Flush);
        }
    }

    fn hear(&mut self, kind: u8, bytes: &[u8]) {
        let (peer, follower) = (Peer(u64::from(kind >> 6)), FollowerId(u64::from(kind >> 6)));
        let input = match kind & 7 {
            0 => AppendRequest::decode(bytes).ok().and_then(|message| heard::append(peer, message).ok()),
            1 => AgentUp::decode(bytes).ok().and_then(|message| match heard::agent(peer, message) {
                Ok(Some(AgentWord::Input(input))) => Some(*input),
                _ => None,
            }),
            2 => DutyUp::decode(bytes).ok().and_then(|message| heard::duty(peer, message)),
            3 => Some(ServerInput::FromServer { from: 2 + peer.0, bytes: Bytes::copy_from_slice(bytes) }),
            4 => FollowRequest::decode(bytes).ok().and_then(|message| message.kind).map(|kind| match kind {
                follow_request::Kind::Start(start) => ServerInput::Follow { follower, from: Index(start.from) },
                follow_request::Kind::Acknowledge(bytes) => {
                    ServerInput::Acknowledge { follower, bytes: bytes as usize }
                }
            }),
            5 => Some(ServerInput::Gone { peer }),
            6 => Some(ServerInput::Unfollow { follower }),
            _ => None,
        };
        match input {
            Some(input) => self.take(input),
            None => self.pass(3),
        }
        if kind & 8 != 0 {
            self.pass(1);
        }
    }
}

pub(crate) fn run(input: &[u8]) {
    let mut server = Server::new();
    for (kind, bytes) in pieces(input).take(PARTS_MAX) {
        server.hear(kind, bytes);
    }
    server.pass(3);
    assert_eq!(server.core.replica().cell().invariants(), Vec::<String>::new());
}

/// A part for each message that a server hears, alone and in stories.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // What `wire` calls a message is its first byte there.
    let kinds = [(0, 8), (4, 8 | 1), (6, 8 | 2), (2, 4)];
    let messages: Vec<(u8, Vec<u8>)> = wire::seeds()
        .into_iter()
        .filter_map(|seed| Some((kinds.iter().find(|(kind, _)| *kind == seed[0])?.1, seed[1..].to_vec())))
        .collect();
    let parcels = parcels().into_iter().map(|parcel| (8 | 3, parcel));
    let all: Vec<(u8, Vec<u8>)> = messages.into_iter().chain(parcels).collect();
    let parts = |said: &[(u8, Vec<u8>)]| {
        let mut bytes = Vec::new();
        said.iter().for_each(|(kind, part)| push_piece(&mut bytes, *kind, part));
        bytes
    };
    all.iter().map(|one| parts(std::slice::from_ref(one))).chain([parts(&all)]).collect()
}

/// What another server says: commands, beats, hashes; see `between` in `ohm-replica` for the form.
fn parcels() -> Vec<Vec<u8>> {
    let session = Command::OpenSession { nonce: 77, role: Role::Client, name: "c".into() };
    let commands = [Envelope::without_session(session), Envelope::without_session(Command::Tick)];
    let mut forwarded = [&[3][..], &5u64.to_le_bytes()].concat();
    for command in commands {
        let bytes = command.encode();
        forwarded.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        forwarded.extend_from_slice(&bytes);
    }
    // One of each message: which it is, and fields that are numbers or empty.
    let messages = (0..7u8).map(|variant| vec![2, variant, 1, 0, 0, 0]);
    messages.chain([forwarded, vec![1, 1, 2, 3]]).collect()
}
