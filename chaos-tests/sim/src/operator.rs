//! The person who looks after the servers: puts a new one in the place of one whose disk is gone, adds and removes
//! others, one change after the other, until the group is what it should be.

use crate::clocks::Clock;
use crate::faults::{Fault, Victim};
use crate::role::Role;
use crate::roles::{Roles, ServerProcess};
use crate::stage::{Event, Stage};
use ohm_log::{MemberChange, Members};
use ohm_model::Index;
use ohm_oracle::Broken;
use ohm_replica::ServerInput;
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

    /// Looks at the group over any server, and asks for the next change.
    pub(crate) fn look(&self, roles: &mut Roles, stage: &mut Stage) {
        stage.agenda.after(EVERY_MS, Event::Operate);
        if self.standing.len() < 2 || self.has_what_it_wants(roles) {
            return;
        }
        let now_ms = stage.now_ms();
        let ready = roles.servers_where(|_, server| !server.shell().stands_still(now_ms));
        let Some(&server) = stage.dice.pick(&ready) else { return };
        let Some(core) = roles.servers[server].core() else { return };
        if let Some(change) = self.next_change(core.members()) {
            let request = stage.next_request();
            // Whatever the answer is, the next look shows what came of it.
            roles.servers[server].step(ServerInput::ChangeMembers { request, change }, stage);
        }
    }

    fn has_what_it_wants(&self, roles: &Roles) -> bool {
        let core = roles.leader().and_then(|number| roles.servers[number].core());
        core.is_some_and(|core| self.is_content(core.members(), roles.servers.len()))
    }

    /// One change at a time, and none that could cost the majority.
    pub(crate) fn may_change(&self, fault: &Fault, roles: &Roles) -> bool {
        match fault {
            Fault::LostLog { .. } | Fault::CutLog { .. } if self.standing.len() < 2 => true,
            Fault::LostDisk { server }
            | Fault::LostLog { server, .. }
            | Fault::CutLog { server, .. }
            | Fault::Retire { server } => {
                let spares_one = self.wanted.len() >= VOTERS_MIN && self.wanted.contains(server);
                spares_one && self.has_what_it_wants(roles)
            }
            Fault::AddServer => self.wanted.len() < SERVERS_MAX && self.has_what_it_wants(roles),
            _ => true,
        }
    }

    pub(crate) fn change(&mut self, fault: Fault, roles: &mut Roles, stage: &mut Stage) {
        match fault {
            Fault::LostDisk { server } => {
                roles.servers[server].leave(stage);
                let new = add_server(roles, stage);
                self.replace(server, new);
            }
            Fault::LostLog { server, down_ms } | Fault::CutLog { server, down_ms } => {
                let process = &mut roles.servers[server];
                let stays_down = match fault {
                    Fault::LostLog { .. } => process.lose_log(down_ms, stage),
                    _ => process.cut_log(down_ms, stage),
                };
                if stays_down && self.standing.len() > 1 {
                    self.change(Fault::LostDisk { server }, roles, stage);
                }
            }
            Fault::Retire { server } => drop(self.wanted.remove(&server)),
            Fault::AddServer => {
                let new = add_server(roles, stage);
                self.wanted.insert(new);
            }
            Fault::Transfer { server } => {
                if let Some(leader) = roles.leader() {
                    roles.servers[leader].step(ServerInput::Transfer { to: Some(server as u64 + 1) }, stage);
                }
            }
            _ => {}
        }
    }

    /// What is wrong with the group when all is quiet, if at an earlier look its leader had come as far as `applied`.
    pub(crate) fn judge(&self, applied: Index, roles: &Roles) -> Vec<Broken> {
        let broken = |what: String| Broken { promise: "P10", what };
        let mut found = Vec::new();
        if !self.has_what_it_wants(roles) {
            let members = roles.leader().and_then(|number| roles.servers[number].core()).map(|core| core.members());
            let wanted: Vec<usize> = self.wanted.iter().map(|server| server + 1).collect();
            found.push(broken(format!("the servers are to be {wanted:?} and are {members:?}")));
        }
        for &number in &self.wanted {
            let server = &roles.servers[number];
            if !server.is_up() || !server.caught_up || server.applied() < applied {
                let (up, reached) = (server.is_up(), server.applied());
                let what = format!("server {} lags: up {up}, at {reached}, the leader was at {applied}", number + 1);
                found.push(broken(what));
            }
        }
        found
    }
}

fn add_server(roles: &mut Roles, stage: &mut Stage) -> usize {
    let (number, mut dice) = (roles.servers.len(), stage.dice.fork());
    roles.servers.push(ServerProcess::new(number, Clock::drawn(&mut dice, stage.knobs.drift_ppm), &stage.knobs));
    stage.agenda.after(1, Event::Restart(Victim::Server(number)));
    stage.agenda.after(1, Event::Tick(Victim::Server(number)));
    number
}
