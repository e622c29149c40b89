//! What is free on nodes, counted from what runs there.

use crate::amounts::asks;
use crate::books::{Books, NodeBook, Standing};
use ohm_model::resources::{DEVICE_MILLI, PODS, device_count, is_extended};
use ohm_model::{Amounts, GroupSpec, HostPort, JobId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// The free room of every node.
pub(crate) type Rooms = BTreeMap<NodeId, Room>;

/// What is free on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    free: Amounts,
    devices: BTreeMap<String, Devices>,
    ports: BTreeSet<HostPort>,
    tasks: BTreeMap<(JobId, u16), u32>,
}

/// The devices of one resource. Which of them a task has is not counted: room that is found here is there however the
/// shares are spread.
#[derive(Clone, Copy, Debug)]
struct Devices {
    /// How many no task has as a whole.
    count: i64,
    /// How many tasks have a share of one, and how many thousandths all of them.
    sharing: i64,
    shared_milli: i64,
}

impl Devices {
    /// Whether one more request of so many thousandths is met for sure.
    fn meets(&self, request: i64) -> bool {
        let each = request.clamp(1, DEVICE_MILLI);
        // No more devices than this have too little left for one that asks for so much of it.
        let spoilt = self.sharing.min(self.shared_milli / (DEVICE_MILLI - each + 1));
        self.count - spoilt >= whole(request)
    }

    fn occupy(&mut self, request: i64, times: i64) {
        if request < DEVICE_MILLI {
            self.sharing += times;
            self.shared_milli += request * times;
        } else {
            self.count -= whole(request) * times;
        }
    }
}

/// On how many devices a request of so many thousandths is met.
fn whole(request: i64) -> i64 {
    (request + DEVICE_MILLI - 1) / DEVICE_MILLI
}

/// What is free on every node beside those who stand there, as far as `counts` says so.
pub(crate) fn rooms_beside(books: &Books, counts: impl Fn(JobId, Standing) -> bool) -> Rooms {
    let mut rooms: Rooms = books.nodes.iter().map(|(node, book)| (*node, Room::empty(book))).collect();
    for (job, group, task, standing) in books.standing().filter(|(job, .., standing)| counts(*job, *standing)) {
        let made = books.made_of(job, group, task);
        if let (Some(room), Some(spec)) = (rooms.get_mut(&standing.node), made) {
            room.occupy(spec, 1);
            *room.tasks.entry((job, group)).or_insert(0) += 1;
        }
    }
    rooms
}

impl Room {
    /// All of a node.
    pub(crate) fn empty(book: &NodeBook) -> Self {
        let capacity = &book.spec.capacity;
        let devices = capacity.iter().map(|(name, amount)| (name.clone(), i64::from(device_count(name, *amount))));
        let devices = devices.filter(|(_, count)| *count > 0);
        let devices = devices.map(|(name, count)| (name, Devices { count, sharing: 0, shared_milli: 0 }));
        Room { free: capacity.clone(), devices: devices.collect(), ..Room::default() }
    }

    /// Takes away what `count` tasks of a group need.
    pub(crate) fn occupy(&mut self, group: &GroupSpec, count: u32) {
        for (name, amount) in asks(group, count) {
            *self.free.entry(name).or_insert(0) -= amount;
        }
        for (name, amount) in group.requests.iter().filter(|(_, amount)| **amount > 0) {
            if let Some(devices) = self.devices.get_mut(name) {
                devices.occupy(*amount, i64::from(count));
            }
        }
        self.ports.extend(group.ports.iter().copied());
    }

    /// Takes one task of a group in, if it fits; else what is left of this room is of no use.
    pub(crate) fn take(&mut self, job: JobId, index: u16, group: &GroupSpec) -> bool {
        let here = self.tasks.entry((job, index)).or_insert(0);
        *here += 1;
        let within = group.max_per_node == 0 || *here <= group.max_per_node;
        let is_open = group.ports.iter().all(|port| !self.has_port(*port));
        let mut asked = group.requests.iter().filter(|(_, amount)| **amount > 0);
        let are_met = asked.clone().all(|(name, amount)| match self.devices.get(name) {
            Some(devices) => devices.meets(*amount),
            // A node that does not tell its devices apart shares none.
            None => !is_extended(name) || amount % DEVICE_MILLI == 0,
        });
        self.occupy(group, 1);
        let is_free = |name: &str| self.free.get(name).is_some_and(|free| *free >= 0);
        within && is_open && are_met && is_free(PODS) && asked.all(|(name, _)| is_free(name))
    }

    /// How much of a resource is free.
    pub(crate) fn free(&self, resource: &str) -> i64 {
        self.free.get(resource).copied().unwrap_or(0)
    }

    /// Whether somebody has this port.
    pub(crate) fn has_port(&self, port: HostPort) -> bool {
        self.ports.iter().any(|other| ports_meet(port, *other))
    }
}

/// Whether two tasks of a node can't have both: TCP and UDP are worlds apart, and so are two addresses; what is taken
/// on no address in particular is taken on each.
pub(crate) fn ports_meet(one: HostPort, other: HostPort) -> bool {
    match (one.address, other.address) {
        _ if one.port != other.port || one.protocol != other.protocol => false,
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

/// How many have each port, those counted that have one it meets.
pub(crate) fn users_of_ports(ports: &BTreeMap<HostPort, u32>) -> impl Iterator<Item = (&HostPort, u32)> {
    ports.iter().filter(|(_, users)| **users > 0).map(|(port, _)| {
        let meeting = ports.iter().filter(|(other, _)| ports_meet(*port, **other));
        (port, meeting.map(|(_, users)| users).sum())
    })
}
