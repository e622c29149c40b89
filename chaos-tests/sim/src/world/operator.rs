//! The person who looks after the servers: puts a new one in the place of one whose disk is gone, adds and removes
//! others, one change after the other, until the group is what it should be.

use super::{Connection, Event, World};
use crate::clocks::Clock;
use crate::faults::{Fault, Victim};
use crate::server::ServerProcess;
use ohm_log::{MemberChange, Members};
use ohm_oracle::Broken;
use ohm_replica::{RequestId, ServerInput};
use std::collections::BTreeSet;

/// How often the operator looks.
const EVERY_MS: u64 = 400;
/// A cell grows to so many servers.
const SERVERS_MAX: usize = 5;
/// Without this many voters the loss of one disk could be the loss of the majority.
const VOTERS_MIN: usize = 3;

/// What the operator wants.
pub(crate) struct Operator {
    /// Which servers are to vote.
    wanted: BTreeSet<usize>,
    /// Which server stands where each founder stood.
    standing: Vec<usize>,
}

impl Operator {
    pub(crate) fn new(founders: usize) -> Self {
        Operator { wanted: (0..founders).collect(), standing: (0..founders).collect() }
    }

    /// The server in whose place others were put; itself if it is still there.
    pub(crate) fn stands_for(&self, server: usize) -> usize {
        self.standing.get(server).copied().unwrap_or(server)
    }

    fn replace(&mut self, server: usize, by: usize) {
        self.wanted.remove(&server);
        self.wanted.insert(by);
        self.standing.iter_mut().filter(|standing| **standing == server).for_each(|standing| *standing = by);
    }

    /// Whether the group is what it should be. Numbers are never used again, so no older state looks the same.
    fn is_content(&self, members: &Members, servers: usize) -> bool {
        let number = |server: &usize| *server as u64 + 1;
        let others = (0..servers).filter(|server| !self.wanted.contains(server));
        members.voters.iter().copied().eq(self.wanted.iter().map(number))
            && members.learners.is_empty()
            && others.map(|server| number(&server)).all(|server| members.removed.contains(&server))
    }

    /// The next change on the way there.
    fn next_change(&self, members: &Members) -> Option<MemberChange> {
        let surplus = members.all().find(|member| !self.wanted.contains(&(*member as usize - 1)));
        let missing = || self.wanted.iter().map(|server| *server as u64 + 1).find(|member| !members.contains(*member));
        let remove = |member| MemberChange::Remove { member };
        let add = |member| MemberChange::Add { member, address: format!("server {member}"), key: member };
        surplus.map(remove).or_else(|| missing().map(add))
    }
}

impl World {
    /// Looks at the group over any server, and asks for the next change.
    pub(super) fn operate(&mut self) {
        self.agenda.after(EVERY_MS, Event::Operate);
        if self.operator.standing.len() < 2 || self.is_group_as_wanted() {
            return;
        }
        let now_ms = self.agenda.now_ms();
        let is_ready = |number: &usize| {
            let server = &self.servers[*number];
            server.is_up() && server.paused_until_ms <= now_ms && !self.held.contains_key(&Victim::Server(*number))
        };
        let ready: Vec<usize> = (0..self.servers.len()).filter(is_ready).collect();
        let Some(&server) = self.dice.pick(&ready) else { return };
        let Some(core) = self.servers[server].core() else { return };
        if let Some(change) = self.operator.next_change(core.members()) {
            let request = RequestId(self.next_request);
            self.next_request += 1;
            // Whatever the answer is, the next look shows what came of it.
            self.step_server(server, ServerInput::ChangeMembers { request, change });
        }
    }

    fn is_group_as_wanted(&self) -> bool {
        let core = self.leader().and_then(|number| self.servers[number].core());
        core.is_some_and(|core| self.operator.is_content(core.members(), self.servers.len()))
    }

    /// One change at a time, and none that could cost the majority.
    pub(super) fn may_change_servers(&self, fault: &Fault) -> bool {
        let wanted = &self.operator.wanted;
        match fault {
            Fault::LostDisk { server } | Fault::Retire { server } => {
                wanted.len() >= VOTERS_MIN && wanted.contains(server) && self.is_group_as_wanted()
            }
            Fault::AddServer => wanted.len() < SERVERS_MAX && self.is_group_as_wanted(),
            _ => true,
        }
    }

    pub(super) fn change_servers(&mut self, fault: Fault) {
        match fault {
            Fault::LostDisk { server } => {
                self.leave(server);
                let new = self.add_server();
                self.operator.replace(server, new);
            }
            Fault::Retire { server } => drop(self.operator.wanted.remove(&server)),
            Fault::AddServer => {
                let new = self.add_server();
                self.operator.wanted.insert(new);
            }
            Fault::Transfer { server } => {
                if let Some(leader) = self.leader() {
                    self.step_server(leader, ServerInput::Transfer { to: Some(server as u64 + 1) });
                }
            }
            _ => {}
        }
    }

    fn add_server(&mut self) -> usize {
        let (number, mut dice) = (self.servers.len(), self.dice.fork());
        self.servers.push(ServerProcess::new(number, Clock::drawn(&mut dice, self.knobs.drift_ppm), &self.knobs));
        self.agenda.after(1, Event::Restart(Victim::Server(number)));
        self.agenda.after(1, Event::Tick(Victim::Server(number)));
        number
    }

    /// A server ends for good: it was removed, or its disk is gone.
    pub(super) fn leave(&mut self, server: usize) {
        self.note(|| format!("server {} is over", server + 1));
        self.servers[server].end();
        let of_server = |(number, known): (&u64, &Connection)| (known.server == server).then_some(*number);
        let connections: Vec<u64> = self.connections.iter().filter_map(of_server).collect();
        connections.into_iter().for_each(|connection| self.break_connection(connection));
        self.requests.retain(|(of, _), _| *of != server);
    }

    /// What is wrong with the group when all is quiet, if at `early` its leader had come as far as `applied`.
    pub(super) fn judge_group(&self, applied: ohm_model::Index) -> Vec<Broken> {
        let broken = |what: String| Broken { promise: "P10", what };
        let mut found = Vec::new();
        if !self.is_group_as_wanted() {
            let members = self.leader().and_then(|number| self.servers[number].core()).map(|core| core.members());
            let wanted: Vec<usize> = self.operator.wanted.iter().map(|server| server + 1).collect();
            found.push(broken(format!("the servers are to be {wanted:?} and are {members:?}")));
        }
        for &number in &self.operator.wanted {
            let server = &self.servers[number];
            if !server.is_up() || !server.caught_up || server.applied() < applied {
                let (up, reached) = (server.is_up(), server.applied());
                let what = format!("server {} lags: up {up}, at {reached}, the leader was at {applied}", number + 1);
                found.push(broken(what));
            }
        }
        found
    }
}
