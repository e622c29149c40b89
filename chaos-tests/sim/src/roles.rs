//! Everybody in the simulated cell. A role is one file here, one variant of [`Victim`] and one line in each list below.

mod client;
mod follower;
mod health;
mod node;
mod provisioner;
mod scheduler;
mod server;

pub(crate) use client::ClientProcess;
pub(crate) use health::{Health, HealthProcess};
pub(crate) use node::NodeProcess;
pub(crate) use provisioner::{ProvisionerProcess, Provisioning};
pub(crate) use scheduler::{SchedulerProcess, Scheduling, SpoiltPlanner};
pub(crate) use server::ServerProcess;

use crate::faults::Victim;
use crate::role::Role;
use ohm_cell::Cell;

/// The processes, by role and number.
pub(crate) struct Roles {
    pub(crate) servers: Vec<ServerProcess>,
    pub(crate) schedulers: Vec<SchedulerProcess>,
    pub(crate) health: Vec<HealthProcess>,
    pub(crate) provisioners: Vec<ProvisionerProcess>,
    pub(crate) nodes: Vec<NodeProcess>,
    pub(crate) clients: Vec<ClientProcess>,
}

impl Roles {
    /// The process with this name; a scenario may name somebody who does not exist.
    pub(crate) fn find(&self, victim: Victim) -> Option<&dyn Role> {
        fn at<R: Role>(list: &[R], number: usize) -> Option<&dyn Role> {
            list.get(number).map(|role| role as &dyn Role)
        }
        match victim {
            Victim::Server(number) => at(&self.servers, number),
            Victim::Scheduler(number) => at(&self.schedulers, number),
            Victim::Health(number) => at(&self.health, number),
            Victim::Provisioner(number) => at(&self.provisioners, number),
            Victim::Node(number) => at(&self.nodes, number),
            Victim::Client(number) => at(&self.clients, number),
        }
    }

    /// A process that exists.
    pub(crate) fn get(&mut self, victim: Victim) -> &mut dyn Role {
        match victim {
            Victim::Server(number) => &mut self.servers[number],
            Victim::Scheduler(number) => &mut self.schedulers[number],
            Victim::Health(number) => &mut self.health[number],
            Victim::Provisioner(number) => &mut self.provisioners[number],
            Victim::Node(number) => &mut self.nodes[number],
            Victim::Client(number) => &mut self.clients[number],
        }
    }

    /// Everybody but the servers.
    pub(crate) fn everybody(&self) -> Vec<Victim> {
        let schedulers = (0..self.schedulers.len()).map(Victim::Scheduler);
        let health = (0..self.health.len()).map(Victim::Health);
        let provisioners = (0..self.provisioners.len()).map(Victim::Provisioner);
        let nodes = (0..self.nodes.len()).map(Victim::Node);
        let clients = (0..self.clients.len()).map(Victim::Client);
        schedulers.chain(health).chain(provisioners).chain(nodes).chain(clients).collect()
    }

    /// The server that takes appends: of several that believe it, the one that has come furthest.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leading = (0..self.servers.len()).filter(|number| self.servers[*number].leads());
        leading.max_by_key(|number| self.servers[*number].applied())
    }

    /// The cell as the leader knows it.
    pub(crate) fn cell(&self) -> Option<&Cell> {
        let core = self.leader().and_then(|number| self.servers[number].core());
        core.map(|core| core.replica().cell())
    }

    /// The servers that run and for which `holds`.
    pub(crate) fn servers_where(&self, holds: impl Fn(usize, &ServerProcess) -> bool) -> Vec<usize> {
        let is_wanted = |number: &usize| {
            let server = &self.servers[*number];
            server.is_up() && holds(*number, server)
        };
        (0..self.servers.len()).filter(is_wanted).collect()
    }
}
