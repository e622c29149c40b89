//! Where messages leave: one bounded queue per connection. A peer that does not keep up loses its connection and starts
//! anew; it never holds the others up.

use crate::log_readers::AgentOutlet;
use bytes::Bytes;
use ohm_replica::{AgentOrder, AppendResult, Beat, FollowFrame, FollowerId, Peer};
use ohm_wire::{
    AgentDown, AppendReply, BeatAnswer, BeatAnswers, Beats, Committed, DutyDown, Entries, FollowReply, LogEntry,
    MESSAGE_BYTES_MAX, Registered, RegistrationEnded, ReportsTaken, SnapshotPiece, WantedRuns, agent_down,
    append_reply, follow_reply, write,
};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// A set of wanted runs takes at most this, or it is not sent; the rest of a message is small.
const SET_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1024;

/// All connections that messages can be sent to.
#[derive(Default)]
pub(crate) struct Outlets {
    appends: BTreeMap<Peer, mpsc::Sender<AppendReply>>,
    agents: BTreeMap<Peer, mpsc::Sender<AgentDown>>,
    duties: BTreeMap<Peer, mpsc::Sender<DutyDown>>,
    followers: BTreeMap<FollowerId, mpsc::Sender<FollowReply>>,
    cell_incarnation: u64,
    gone_peers: Vec<Peer>,
    gone_followers: Vec<FollowerId>,
}

impl Outlets {
    /// No connections yet; followers are told how often the cell was restored.
    pub(crate) fn new(cell_incarnation: u64) -> Self {
        Outlets { cell_incarnation, ..Outlets::default() }
    }

    pub(crate) fn append(&mut self, peer: Peer, sender: mpsc::Sender<AppendReply>) {
        self.appends.insert(peer, sender);
    }

    pub(crate) fn agent(&mut self, peer: Peer, sender: mpsc::Sender<AgentDown>) {
        self.agents.insert(peer, sender);
    }

    pub(crate) fn duty(&mut self, peer: Peer, sender: mpsc::Sender<DutyDown>) {
        self.duties.insert(peer, sender);
    }

    pub(crate) fn follower(&mut self, follower: FollowerId, sender: mpsc::Sender<FollowReply>) {
        self.followers.insert(follower, sender);
    }

    pub(crate) fn remove(&mut self, peer: Peer) {
        self.appends.remove(&peer);
        self.agents.remove(&peer);
        self.duties.remove(&peer);
    }

    pub(crate) fn remove_follower(&mut self, follower: FollowerId) {
        self.followers.remove(&follower);
    }

    pub(crate) fn take_gone_peers(&mut self) -> Vec<Peer> {
        std::mem::take(&mut self.gone_peers)
    }

    pub(crate) fn take_gone_followers(&mut self) -> Vec<FollowerId> {
        std::mem::take(&mut self.gone_followers)
    }

    pub(crate) fn send_append(&mut self, peer: Peer, ticket: u64, result: AppendResult) {
        let result = match result {
            AppendResult::Committed { index, outcomes } => append_reply::Result::Committed(Committed {
                index: index.0,
                outcome_bytes: outcomes.iter().map(write).collect(),
            }),
            AppendResult::Busy(reason) => append_reply::Result::Busy(reason),
            AppendResult::NotServing(reason) => append_reply::Result::Busy(reason),
            AppendResult::Unknown(reason) => append_reply::Result::Unknown(reason),
        };
        push(&mut self.appends, peer, AppendReply { ticket, result: Some(result) }, &mut self.gone_peers);
    }

    pub(crate) fn send_duty(&mut self, peer: Peer, beats: Vec<Beat>) {
        let beat =
            |beat: Beat| ohm_wire::Beat { node: beat.node.0, incarnation: beat.incarnation.0, sequence: beat.sequence };
        let beats = beats.into_iter().map(beat).collect();
        push(&mut self.duties, peer, DutyDown { beats: Some(Beats { beats }) }, &mut self.gone_peers);
    }

    pub(crate) fn send_follower(&mut self, follower: FollowerId, frame: FollowFrame) {
        let kind = match frame {
            FollowFrame::Snapshot { index, piece, last } => follow_reply::Kind::Snapshot(SnapshotPiece {
                index: index.0,
                piece,
                last,
                cell_incarnation: self.cell_incarnation,
            }),
            FollowFrame::Entries(entries) => {
                let entry = |(index, bytes): (ohm_model::Index, Bytes)| LogEntry { index: index.0, entry_bytes: bytes };
                follow_reply::Kind::Entries(Entries { entries: entries.into_iter().map(entry).collect() })
            }
        };
        push(&mut self.followers, follower, FollowReply { kind: Some(kind) }, &mut self.gone_followers);
    }

    pub(crate) fn order(&mut self, peer: Peer, order: AgentOrder) {
        let kind = agent_message(order);
        if let agent_down::Kind::Wanted(WantedRuns { node, set_bytes }) = &kind
            && set_bytes.len() > SET_BYTES_MAX
        {
            // It would end the connection of all nodes of this agent, again and again.
            tracing::error!(node, bytes = set_bytes.len(), "what a node should run is too long for a message");
            return;
        }
        self.send_agent(peer, AgentDown { kind: Some(kind) });
    }

    pub(crate) fn send_agent(&mut self, peer: Peer, message: AgentDown) {
        push(&mut self.agents, peer, message, &mut self.gone_peers);
    }

    /// The way to an agent, for those who read output through it.
    pub(crate) fn agent_outlet(&self, peer: Peer) -> Option<AgentOutlet> {
        self.agents.get(&peer).map(|orders| AgentOutlet { peer, orders: orders.downgrade() })
    }
}

fn push<K: Ord + Copy, T>(to: &mut BTreeMap<K, mpsc::Sender<T>>, key: K, message: T, gone: &mut Vec<K>) {
    if let Some(sender) = to.get(&key)
        && sender.try_send(message).is_err()
    {
        to.remove(&key);
        gone.push(key);
    }
}

fn agent_message(order: AgentOrder) -> agent_down::Kind {
    match order {
        AgentOrder::Registered { local, instance, node, incarnation } => agent_down::Kind::Registered(Registered {
            local,
            instance,
            node: node.0,
            incarnation: incarnation.0,
            refusal_bytes: Bytes::new(),
        }),
        AgentOrder::RegisterRefused { local, instance, refusal } => agent_down::Kind::Registered(Registered {
            local,
            instance,
            node: 0,
            incarnation: 0,
            refusal_bytes: write(&refusal),
        }),
        AgentOrder::RegistrationEnded { node, incarnation } => {
            agent_down::Kind::Ended(RegistrationEnded { node: node.0, incarnation: incarnation.0 })
        }
        AgentOrder::Wanted { node, set } => {
            agent_down::Kind::Wanted(WantedRuns { node: node.0, set_bytes: write(&set) })
        }
        AgentOrder::BeatAnswers(answers) => {
            let answers = answers.into_iter().map(|(node, answer)| BeatAnswer {
                node: node.0,
                incarnation: answer.incarnation.0,
                sequence: answer.sequence,
                duty_epoch: answer.duty_epoch.0,
                interval_ms: answer.interval_ms,
                lease_ms: answer.lease_ms,
            });
            agent_down::Kind::Answers(BeatAnswers { answers: answers.collect() })
        }
        AgentOrder::ReportsAccepted { node, batch, index } => {
            agent_down::Kind::Taken(ReportsTaken { node: node.0, batch, index: index.0 })
        }
    }
}
