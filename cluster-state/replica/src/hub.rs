//! The hub: which node is reached over which connection, what it is to be told, and the way of beats to the health duty
//! and back. A server never answers a beat by itself.

use crate::wanted::Launches;
use ohm_agent::{BeatAnswer, WantedSet};
use ohm_cell::{Applied, Cell};
use ohm_model::{EventKind, Incarnation, Index, JobId, Lease, NodeHealth, NodeId, Refusal, SessionId};
use ohm_stdx::define_id;
use std::collections::{BTreeMap, BTreeSet};

define_id!(
    /// One connection of an agent process, a scheduler or a health candidate, numbered by the shell.
    Peer(u64)
);

/// A sign of life from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The node.
    pub node: NodeId,
    /// The registration.
    pub incarnation: Incarnation,
    /// Its number.
    pub sequence: u64,
}

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOrder {
    /// The node is registered.
    Registered {
        /// The agent's own name for the node.
        local: u64,
        /// Which attempt.
        instance: u64,
        /// The node's slot.
        node: NodeId,
        /// The registration.
        incarnation: Incarnation,
    },
    /// The cell refuses the registration.
    RegisterRefused {
        /// The agent's own name for the node.
        local: u64,
        /// Which attempt.
        instance: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The cell does not count on this registration any more.
    RegistrationEnded {
        /// The node's slot.
        node: NodeId,
        /// Which registration.
        incarnation: Incarnation,
    },
    /// What the cell wants on a node.
    Wanted {
        /// The node.
        node: NodeId,
        /// The whole set.
        set: WantedSet,
    },
    /// Answers of the health duty.
    BeatAnswers(Vec<(NodeId, BeatAnswer)>),
    /// A batch of reports was applied.
    ReportsAccepted {
        /// The node.
        node: NodeId,
        /// Which batch.
        batch: u64,
        /// The entry that applied it.
        index: Index,
    },
}

struct Attached {
    peer: Peer,
    incarnation: Incarnation,
}

/// Beats that wait for the next flush at most; more are dropped, the agents send again.
const BEATS_MAX: usize = 100_000;

/// Who is connected, and what they must be told.
#[derive(Default)]
pub(crate) struct Hub {
    cell_incarnation: u64,
    nodes: BTreeMap<NodeId, Attached>,
    dirty: BTreeSet<NodeId>,
    duty: BTreeMap<SessionId, Peer>,
    beats: Vec<Beat>,
    launches: Launches,
}

impl Hub {
    pub(crate) fn new(cell_incarnation: u64) -> Self {
        Hub { cell_incarnation, ..Hub::default() }
    }

    /// From now on `node` is reached over `peer`.
    pub(crate) fn attach(&mut self, peer: Peer, node: NodeId, incarnation: Incarnation) {
        self.nodes.insert(node, Attached { peer, incarnation });
        self.dirty.insert(node);
    }

    pub(crate) fn peer_of(&self, node: NodeId) -> Option<Peer> {
        self.nodes.get(&node).map(|attached| attached.peer)
    }

    pub(crate) fn attach_duty(&mut self, peer: Peer, session: SessionId) {
        self.duty.retain(|_, known| *known != peer);
        self.duty.insert(session, peer);
    }

    /// The connection is over.
    pub(crate) fn detach(&mut self, peer: Peer) {
        self.nodes.retain(|_, attached| attached.peer != peer);
        self.duty.retain(|_, known| *known != peer);
    }

    pub(crate) fn applied(&mut self, applied: &Applied) {
        self.dirty.extend(applied.nodes.iter().filter(|node| self.nodes.contains_key(node)));
        let mut placed: Vec<JobId> = applied
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Placed { job, .. } => Some(job),
                _ => None,
            })
            .collect();
        placed.dedup();
        placed.into_iter().for_each(|job| self.launches.forget(job));
    }

    /// The copy was replaced: everybody is told anew.
    pub(crate) fn restored(&mut self) {
        self.launches.clear();
        self.dirty.extend(self.nodes.keys());
    }

    /// Beats from agents. A beat may come over another connection than the registration (the agent reconnected): the
    /// connection it comes over is the one that reaches the node now.
    pub(crate) fn beats(&mut self, peer: Peer, beats: Vec<Beat>, cell: &Cell, orders: &mut Vec<(Peer, AgentOrder)>) {
        for beat in beats {
            match cell.nodes().get(beat.node) {
                Some(record) if record.incarnation == beat.incarnation && record.health != NodeHealth::Lost => {
                    let known = self.nodes.get(&beat.node).is_some_and(|attached| attached.peer == peer);
                    if !known {
                        self.attach(peer, beat.node, beat.incarnation);
                    }
                    if self.beats.len() < BEATS_MAX {
                        self.beats.push(beat);
                    }
                }
                Some(record) if record.incarnation > beat.incarnation => {
                    // A newer registration: its set makes the sender stop.
                    if let Some(set) = self.launches.wanted(cell, beat.node, self.cell_incarnation) {
                        orders.push((peer, AgentOrder::Wanted { node: beat.node, set }));
                    }
                }
                Some(record) if record.incarnation < beat.incarnation => {} // This copy is behind.
                _ => {
                    let (node, incarnation) = (beat.node, beat.incarnation);
                    orders.push((peer, AgentOrder::RegistrationEnded { node, incarnation }));
                }
            }
        }
    }

    /// Answers of the health duty, on their way back.
    pub(crate) fn answers(&mut self, answers: Vec<(NodeId, BeatAnswer)>, orders: &mut Vec<(Peer, AgentOrder)>) {
        let mut by_peer: BTreeMap<Peer, Vec<(NodeId, BeatAnswer)>> = BTreeMap::new();
        for (node, answer) in answers {
            if let Some(attached) = self.nodes.get(&node)
                && attached.incarnation == answer.incarnation
            {
                by_peer.entry(attached.peer).or_default().push((node, answer));
            }
        }
        orders.extend(by_peer.into_iter().map(|(peer, answers)| (peer, AgentOrder::BeatAnswers(answers))));
    }

    /// Tells every node whose runs changed, and hands the beats to the holder of the health duty if it is connected
    /// here.
    pub(crate) fn flush(&mut self, cell: &Cell, orders: &mut Vec<(Peer, AgentOrder)>) -> Option<(Peer, Vec<Beat>)> {
        for node in std::mem::take(&mut self.dirty) {
            let Some(attached) = self.nodes.get(&node) else { continue };
            let (peer, incarnation) = (attached.peer, attached.incarnation);
            let standing = cell.nodes().get(node).filter(|record| record.health != NodeHealth::Lost);
            match standing {
                Some(record) if record.incarnation >= incarnation => {
                    if let Some(set) = self.launches.wanted(cell, node, self.cell_incarnation) {
                        orders.push((peer, AgentOrder::Wanted { node, set }));
                    }
                }
                Some(_) => {}
                None => {
                    self.nodes.remove(&node);
                    orders.push((peer, AgentOrder::RegistrationEnded { node, incarnation }));
                }
            }
        }
        if self.beats.is_empty() {
            return None;
        }
        let beats = std::mem::take(&mut self.beats);
        let holder = cell.sessions().lease(Lease::Health).holder?;
        self.duty.get(&holder).map(|peer| (*peer, beats))
    }
}
