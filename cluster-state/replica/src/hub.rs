//! The hub: which node is reached over which connection, what it is to be told, and the way of beats to the health duty
//! and back. A server never answers a beat by itself.

use crate::wanted::{Launches, tells_peers};
use ohm_agent::{BeatAnswer, WantedSet};
use ohm_cell::{Applied, Cell};
use ohm_model::{EventKind, Incarnation, Index, JobId, Lease, NodeHealth, NodeId, Refusal, SessionId};
use ohm_stdx::bug::{self, Bug};
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
    /// Connections of candidates for the health duty: the session of each, and the nonce shown with it.
    duty: BTreeMap<Peer, (SessionId, u64)>,
    beats: Vec<Beat>,
    /// Beats of nodes that this copy does not know. Perhaps it only lags.
    doubtful: Vec<(Peer, Beat)>,
    /// Which candidates for the health duty are connected to which other server, and when that was heard last.
    elsewhere: BTreeMap<SessionId, (u64, u64)>,
    /// Nodes whose beats come from another server.
    relayed: BTreeMap<NodeId, u64>,
    launches: Launches,
}

/// Where beats go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeatRoute {
    /// The holder of the duty is connected here.
    Here(Peer),
    /// It is connected to this server.
    Server(u64),
}

/// What was heard of a candidate elsewhere holds for so long.
const ELSEWHERE_MS: u64 = 5_000;
/// Doubtful beats that are kept.
const DOUBTFUL_MAX: usize = 10_000;

impl Hub {
    pub(crate) fn new(cell_incarnation: u64) -> Self {
        Hub { cell_incarnation, ..Hub::default() }
    }

    /// From now on `node` is reached over `peer`.
    pub(crate) fn attach(&mut self, peer: Peer, node: NodeId, incarnation: Incarnation) {
        self.nodes.insert(node, Attached { peer, incarnation });
        self.relayed.remove(&node);
        self.dirty.insert(node);
    }

    pub(crate) fn peer_of(&self, node: NodeId) -> Option<Peer> {
        self.nodes.get(&node).map(|attached| attached.peer)
    }

    /// A candidate for the health duty is connected; false when it is known that the session is somebody else's. Of
    /// several connections of one candidate the latest counts, and an earlier one again when that is over.
    pub(crate) fn attach_duty(&mut self, peer: Peer, session: SessionId, nonce: u64, cell: &Cell) -> bool {
        let is_strange = cell.sessions().get(session).is_some() && !is_owner(session, nonce, cell);
        if !is_strange {
            self.duty.insert(peer, (session, nonce));
        }
        !is_strange
    }

    /// The connection of the owner of `session`.
    fn owner_of(&self, session: SessionId, cell: &Cell) -> Option<Peer> {
        let is_its = |(of, nonce): &(SessionId, u64)| *of == session && is_owner(session, *nonce, cell);
        self.duty.iter().rev().find(|(_, claim)| is_its(claim)).map(|(peer, _)| *peer)
    }

    /// Those of the answers that hold: from the holder of the duty, under its present epoch.
    pub(crate) fn believed(
        &self,
        peer: Peer,
        mut answers: Vec<(NodeId, BeatAnswer)>,
        cell: &Cell,
    ) -> Vec<(NodeId, BeatAnswer)> {
        let lease = cell.sessions().lease(Lease::Health);
        let is_holder =
            |(session, nonce): &(SessionId, u64)| lease.holder == Some(*session) && is_owner(*session, *nonce, cell);
        match self.duty.get(&peer).is_some_and(is_holder) || bug::is_planted(Bug::BelieveStrangers) {
            true => answers.retain(|(_, answer)| answer.duty_epoch == lease.epoch),
            false => answers.clear(),
        }
        answers
    }

    /// The connection is over.
    pub(crate) fn detach(&mut self, peer: Peer) {
        self.nodes.retain(|_, attached| attached.peer != peer);
        self.duty.remove(&peer);
    }

    pub(crate) fn applied(&mut self, applied: &Applied, cell: &Cell) {
        self.dirty.extend(applied.nodes.iter().filter(|node| self.nodes.contains_key(node)));
        let mut changed: Vec<JobId> = applied
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Placed { job, .. } | EventKind::JobUpdated { job, .. } => Some(job),
                _ => None,
            })
            .collect();
        changed.dedup();
        // Whoever stands on a node with another address has peers that must hear of it.
        for event in &applied.events {
            if let EventKind::NodeRegistered { node, .. } = event.kind
                && cell.nodes().get(node).is_some_and(|record| record.addressed >= event.index)
            {
                changed.extend(cell.runs().on_node(cell.nodes(), node).map(|(_, run)| run.run.task.job));
            }
        }
        for job in changed {
            self.launches.forget(job);
            self.tell_peers_of(job, cell);
        }
    }

    /// The sets of all nodes where tasks stand that are told of their peers are made anew.
    fn tell_peers_of(&mut self, job: JobId, cell: &Cell) {
        let Some(job) = cell.jobs().get(job) else { return };
        for (at, group) in job.groups.iter().enumerate().filter(|(at, _)| tells_peers(job, *at)) {
            debug_assert!(at < job.spec.groups.len());
            let runs = group.tasks.iter().filter_map(|task| cell.runs().get(task.run));
            let nodes = runs.filter(|run| run.started_ms != 0).map(|run| run.node);
            self.dirty.extend(nodes.filter(|node| self.nodes.contains_key(node)));
        }
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
                Some(_) => orders.push((peer, ended(&beat))),
                None if self.doubtful.len() < DOUBTFUL_MAX => self.doubtful.push((peer, beat)),
                None => {}
            }
        }
    }

    /// Whether there are beats of nodes that this copy does not know.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// Beats of nodes that this copy did not know when it lagged, taken out.
    pub(crate) fn take_doubtful(&mut self) -> Vec<(Peer, Beat)> {
        std::mem::take(&mut self.doubtful)
    }

    /// Judges beats again, now that this copy has caught up with what was known when they came.
    pub(crate) fn beats_again(
        &mut self,
        doubtful: Vec<(Peer, Beat)>,
        cell: &Cell,
        orders: &mut Vec<(Peer, AgentOrder)>,
    ) {
        for (peer, beat) in doubtful {
            match cell.nodes().get(beat.node) {
                Some(_) => self.beats(peer, vec![beat], cell, orders),
                None => orders.push((peer, ended(&beat))),
            }
        }
    }

    /// Beats that another server sends for the holder of the duty, who is connected here.
    pub(crate) fn relayed_beats(&mut self, server: u64, beats: impl Iterator<Item = Beat>) {
        for beat in beats {
            // The way that the last beat came is the one that reaches the node.
            self.nodes.remove(&beat.node);
            self.relayed.insert(beat.node, server);
            if self.beats.len() < BEATS_MAX {
                self.beats.push(beat);
            }
        }
    }

    /// Another server says which candidates are connected to it.
    pub(crate) fn duty_elsewhere(&mut self, now_ms: u64, server: u64, sessions: Vec<SessionId>) {
        self.elsewhere.retain(|_, (at, _)| *at != server);
        self.elsewhere.extend(sessions.into_iter().map(|session| (session, (server, now_ms))));
    }

    /// The candidates that are connected here.
    pub(crate) fn duty_here(&self, cell: &Cell) -> Vec<SessionId> {
        let own = self.duty.values().filter(|(session, nonce)| is_owner(*session, *nonce, cell));
        own.map(|(session, _)| *session).collect::<BTreeSet<SessionId>>().into_iter().collect()
    }

    /// Answers of the health duty, on their way back. What is left is for agents at other servers.
    pub(crate) fn answers(
        &mut self,
        answers: Vec<(NodeId, BeatAnswer)>,
        orders: &mut Vec<(Peer, AgentOrder)>,
    ) -> BTreeMap<u64, Vec<(NodeId, BeatAnswer)>> {
        let mut by_peer: BTreeMap<Peer, Vec<(NodeId, BeatAnswer)>> = BTreeMap::new();
        let mut by_server: BTreeMap<u64, Vec<(NodeId, BeatAnswer)>> = BTreeMap::new();
        for (node, answer) in answers {
            match (self.nodes.get(&node), self.relayed.get(&node)) {
                (Some(attached), _) if attached.incarnation == answer.incarnation => {
                    by_peer.entry(attached.peer).or_default().push((node, answer));
                }
                (_, Some(server)) => by_server.entry(*server).or_default().push((node, answer)),
                _ => {}
            }
        }
        orders.extend(by_peer.into_iter().map(|(peer, answers)| (peer, AgentOrder::BeatAnswers(answers))));
        by_server
    }

    /// Tells every node whose runs changed, and hands the beats on towards the holder of the health duty, if it is
    /// known where that is connected.
    pub(crate) fn flush(
        &mut self,
        now_ms: u64,
        cell: &Cell,
        orders: &mut Vec<(Peer, AgentOrder)>,
    ) -> Option<(BeatRoute, Vec<Beat>)> {
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
        if let Some(peer) = self.owner_of(holder, cell) {
            return Some((BeatRoute::Here(peer), beats));
        }
        let elsewhere = self.elsewhere.get(&holder).filter(|(_, heard_ms)| heard_ms + ELSEWHERE_MS > now_ms);
        elsewhere.map(|(server, _)| (BeatRoute::Server(*server), beats))
    }
}

/// Whether `nonce` shows that one has opened `session`; what this copy does not know yet shows nothing.
fn is_owner(session: SessionId, nonce: u64, cell: &Cell) -> bool {
    let known = cell.sessions().get(session);
    known.is_some_and(|known| known.nonce == nonce || bug::is_planted(Bug::BelieveStrangers))
}

fn ended(beat: &Beat) -> AgentOrder {
    AgentOrder::RegistrationEnded { node: beat.node, incarnation: beat.incarnation }
}
