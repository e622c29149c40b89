//! P10 for jobs of several groups, for leaders with their workers and for slices: a search for places for all that
//! must start together, task by task. What it finds is a witness that the job fits. It looks at every domain but does
//! not try every packing, so it may miss one; it never invents one.

use crate::p10_liveness::Used;
use ohm_cell::{Cell, Job, Shape, Topology};
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{GroupIndex, NodeId, ResourceId, TopologyMode, TopologySlice};
use std::collections::{BTreeMap, BTreeSet};

/// Above so many nodes the search would take longer than it is worth.
const NODES_MAX: usize = 200;

/// What is free on one node.
#[derive(Clone)]
struct Room {
    node: NodeId,
    free: BTreeMap<ResourceId, i64>,
    ports: BTreeSet<u16>,
    devices: BTreeMap<ResourceId, Vec<i64>>,
    /// Tasks of the job there, by group.
    standing: BTreeMap<usize, u32>,
}

/// Whether all groups of `job`, none of which stands anywhere, find room for what must start together.
pub(crate) fn fits_whole(cell: &Cell, job: &Job, used: &Used) -> bool {
    let is_new = job.groups.iter().all(|group| !group.started && group.live == 0 && group.succeeded == 0);
    // What failed waits for its back-off, and all others with it.
    let all_wait = (0..job.groups.len()).all(|group| job.groups[group].pending.len() >= needed(job, group));
    if !is_new || !all_wait || cell.nodes().iter().count() > NODES_MAX || !queue_takes(cell, job) {
        return false;
    }
    let mut search = Search { cell, job, rooms: rooms(cell, job, used), undo: Vec::new() };
    let leaders: BTreeSet<usize> = (0..job.groups.len()).map(|group| job.domain_leader(group)).collect();
    leaders.into_iter().all(|leader| {
        let team: Vec<usize> = (0..job.groups.len()).filter(|group| job.domain_leader(*group) == leader).collect();
        search.place_team(&team)
    })
}

fn needed(job: &Job, group: usize) -> u32 {
    let (found, spec) = (&job.groups[group], &job.spec.groups[group]);
    let slice = spec.slices().first().map_or(1, |slice| slice.size.max(1));
    found.needed(spec).max(1).next_multiple_of(slice)
}

/// Whether the queue lets all of it in at once.
fn queue_takes(cell: &Cell, job: &Job) -> bool {
    let queue = job.spec.queue.as_str();
    if queue.is_empty() || !job.reserved.is_empty() {
        return true;
    }
    let mut asked: BTreeMap<ResourceId, i64> = BTreeMap::new();
    for group in 0..job.groups.len() {
        let Some(shape) = cell.shape_of(job, group) else { return false };
        for &(resource, request) in &shape.requests {
            *asked.entry(resource).or_insert(0) += request * i64::from(needed(job, group));
        }
    }
    asked
        .into_iter()
        .all(|(resource, asked)| cell.quota().available(queue, resource).is_none_or(|available| asked <= available))
}

fn rooms(cell: &Cell, job: &Job, used: &Used) -> Vec<Room> {
    let shapes = (0..job.groups.len()).filter_map(|group| cell.shape_of(job, group));
    let resources: BTreeSet<ResourceId> =
        shapes.flat_map(|shape| shape.requests.iter().map(|(resource, _)| *resource)).collect();
    let room = |node: NodeId| {
        let free = |resource: ResourceId| {
            let held = |group: usize| cell.held_from(job, GroupIndex(group as u16), node, resource);
            let held = (0..job.groups.len()).map(held).max().unwrap_or(0);
            cell.nodes().capacity(node, resource) - used.get(&(node, resource)).copied().unwrap_or(0) - held
        };
        let record = cell.nodes().get(node)?;
        let asked = || (0..job.groups.len()).filter_map(|group| Some((group, cell.shape_of(job, group)?)));
        let ports = asked().flat_map(|(group, shape)| shape.ports.iter().map(move |port| (group, *port)));
        let held = ports.filter(|(group, port)| cell.is_port_held(job.id, GroupIndex(*group as u16), node, *port));
        let banks = resources.iter().filter_map(|resource| Some((*resource, record.bank(*resource)?)));
        let devices = banks.map(|(resource, bank)| {
            // Which devices what is held would take is not known: then none is taken for free.
            let is_held =
                (0..job.groups.len()).any(|group| cell.held_from(job, GroupIndex(group as u16), node, resource) > 0);
            let present = if is_held { 0 } else { bank.present as usize };
            (resource, bank.free_milli.iter().take(present).map(|free| i64::from(*free)).collect())
        });
        Some(Room {
            node,
            free: resources.iter().map(|resource| (*resource, free(*resource))).collect(),
            ports: record.ports.iter().copied().chain(held.map(|(_, port)| port)).collect(),
            devices: devices.collect(),
            standing: BTreeMap::new(),
        })
    };
    let open = cell.nodes().iter().map(|(node, _)| node).filter(|node| cell.nodes().is_schedulable(*node));
    open.filter_map(room).collect()
}

struct Search<'a> {
    cell: &'a Cell,
    job: &'a Job,
    rooms: Vec<Room>,
    /// What rooms were before each task that was placed.
    undo: Vec<(usize, Room)>,
}

impl Search<'_> {
    /// Places groups that share a domain, in the first domain that takes them all.
    fn place_team(&mut self, team: &[usize]) -> bool {
        self.domains(team[0]).into_iter().any(|nodes| {
            let mark = self.undo.len();
            let placed = team.iter().all(|group| self.place_group(*group, &nodes));
            if !placed {
                self.take_back(mark);
            }
            placed
        })
    }

    /// The rooms of each domain that the group may stand in.
    fn domains(&self, group: usize) -> Vec<Vec<usize>> {
        let request = &self.job.spec.groups[group].topology;
        let all = || (0..self.rooms.len()).collect();
        match (request.mode, self.topology(group)) {
            (TopologyMode::None, _) => vec![all()],
            (_, None) => Vec::new(),
            (TopologyMode::Required, Some(topology)) => match topology.level(&request.level) {
                Some(level) => self.parts(topology, level, all()),
                None => Vec::new(),
            },
            // Nodes outside the topology do not count.
            (_, Some(topology)) => {
                let lowest = topology.spec.levels.len() - 1;
                vec![self.parts(topology, lowest, all()).concat()]
            }
        }
    }

    fn topology(&self, group: usize) -> Option<&Topology> {
        self.cell.topologies().get(&self.job.spec.groups[group].topology.topology).map(|topology| &**topology)
    }

    /// `nodes` by their domain at `level`.
    fn parts(&self, topology: &Topology, level: usize, nodes: Vec<usize>) -> Vec<Vec<usize>> {
        let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for at in nodes {
            if let Some(key) = topology.key_of(self.rooms[at].node, level) {
                parts.entry(key).or_default().push(at);
            }
        }
        parts.into_values().collect()
    }

    fn place_group(&mut self, group: usize, nodes: &[usize]) -> bool {
        let layers = self.job.spec.groups[group].slices().to_vec();
        let size = layers.first().map_or(1, |slice| slice.size.max(1));
        (0..needed(self.job, group) / size).all(|_| self.place_slice(group, &layers, nodes))
    }

    /// One slice of the first of `layers`, inside one domain of its level; without layers, one task.
    fn place_slice(&mut self, group: usize, layers: &[TopologySlice], nodes: &[usize]) -> bool {
        let Some((slice, inner)) = layers.split_first() else {
            return nodes.iter().any(|at| self.place_task(group, *at));
        };
        let Some(topology) = self.topology(group) else { return false };
        let Some(level) = topology.level(&slice.level) else { return false };
        let count = slice.size / inner.first().map_or(1, |inner| inner.size.max(1));
        self.parts(topology, level, nodes.to_vec()).into_iter().any(|part| {
            let mark = self.undo.len();
            let placed = (0..count).all(|_| self.place_slice(group, inner, &part));
            if !placed {
                self.take_back(mark);
            }
            placed
        })
    }

    fn place_task(&mut self, group: usize, at: usize) -> bool {
        let Some(shape) = self.cell.shape_of(self.job, group) else { return false };
        if !self.cell.admits(self.job.groups[group].shape, self.rooms[at].node) {
            return false;
        }
        let mut room = self.rooms[at].clone();
        let fits = room.take(group, shape);
        if fits {
            self.undo.push((at, std::mem::replace(&mut self.rooms[at], room)));
        }
        fits
    }

    fn take_back(&mut self, mark: usize) {
        while self.undo.len() > mark
            && let Some((at, room)) = self.undo.pop()
        {
            self.rooms[at] = room;
        }
    }
}

impl Room {
    /// Takes one task in, if it fits; else what is left of this room is of no use.
    fn take(&mut self, group: usize, shape: &Shape) -> bool {
        let standing = self.standing.entry(group).or_insert(0);
        *standing += 1;
        let within = shape.max_per_node == 0 || *standing <= shape.max_per_node;
        let amounts = shape.requests.iter().all(|(resource, request)| {
            let free = self.free.entry(*resource).or_insert(0);
            *free -= request;
            *free >= 0
        });
        let ports = shape.ports.iter().all(|port| self.ports.insert(*port));
        within
            && amounts
            && ports
            && shape.devices.iter().all(|(resource, request)| self.take_device(*resource, *request))
    }

    fn take_device(&mut self, resource: ResourceId, request: i64) -> bool {
        // Too many to be told apart: then only the sum counts.
        let Some(devices) = self.devices.get_mut(&resource) else { return true };
        if request < DEVICE_MILLI {
            let device = devices.iter_mut().find(|free| **free >= request);
            return device.map(|free| *free -= request).is_some();
        }
        let whole = devices.iter_mut().filter(|free| **free == DEVICE_MILLI).take((request / DEVICE_MILLI) as usize);
        whole.map(|free| *free = 0).count() as i64 == request / DEVICE_MILLI
    }
}
