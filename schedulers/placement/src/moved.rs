//! Seating tasks that were moved: their rooms are reserved, so nothing is searched for.
//!
//! The tasks of a group that are on the move and its rooms are paired in order, ranks ascending with the path of the
//! topology: so each task has the same room from the reservation to its start, whoever ends first.

use crate::devices::DeviceRoom;
use crate::filters::FILTERS;
use crate::rows::seated;
use crate::subject::Subject;
use crate::topology::{Seats, Site};
use ohm_model::{NodeId, Placement};
use std::collections::BTreeMap;

/// Rows for the waiting tasks of the subject's group that have room reserved, where that is still of use.
pub(crate) fn moved_rows(subject: &Subject<'_>, site: Option<&Site<'_>>) -> Vec<Placement> {
    let Some(group) = subject.job.groups.get(usize::from(subject.group.0)) else { return Vec::new() };
    if group.moving.is_empty() {
        return Vec::new();
    }
    let pending = subject.view.pending(subject.job, subject.group);
    let moving: u32 = pending.iter().map(|(first, count)| group.moving.overlap(first, count)).sum();
    // A group that starts anew does so whole, with whatever else of it waits.
    if moving == 0 || (!group.started && moving < pending.len()) {
        return Vec::new();
    }
    let cell = subject.view.cell();
    let mut rooms: Vec<(NodeId, u32)> = cell.rooms_for_moving(subject.job.id, subject.group).collect();
    if let Some(site) = site {
        rooms.sort_by_key(|(node, _)| site.tree.position(*node));
    }
    let rooms = rooms.into_iter().flat_map(|(node, count)| std::iter::repeat_n(node, count as usize));
    let tasks = group.moving.iter().flat_map(|(first, count)| first..first + count);
    let mut by_node: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    for (task, node) in tasks.zip(rooms).filter(|(task, _)| pending.contains(*task, 1)) {
        by_node.entry(node).or_default().push(task);
    }
    let mut bound = Vec::new();
    for (node, tasks) in by_node {
        let room = if subject.is_in_domain(node) { subject.room_reserved(node) as usize } else { 0 };
        bound.extend(tasks.into_iter().take(room).map(|task| (task, node)));
    }
    bound.sort_unstable();
    if bound.is_empty() { Vec::new() } else { seated(subject, &Seats { bound, free: Vec::new() }) }
}

impl Subject<'_> {
    /// Whether `node` is in the domain that the group stands in, if it stands in one.
    pub(crate) fn is_in_domain(&self, node: NodeId) -> bool {
        let at = usize::from(self.group.0);
        let (Some((name, level)), Some(domain)) = (self.job.binding_level(at), self.job.shared_domain(at)) else {
            return true;
        };
        let topology = self.view.cell().topologies().get(name);
        topology.is_some_and(|topology| topology.key_of(node, topology.level(level).unwrap_or(0)) == Some(domain))
    }

    /// How many tasks fit on `node` in the room that is reserved for those of the group that are on the move.
    fn room_reserved(&self, node: NodeId) -> u32 {
        // Those two count the room as taken.
        let filters = FILTERS.iter().filter(|filter| !["nominations", "limitPerNode"].contains(&filter.name));
        if filters.into_iter().any(|filter| (filter.check)(self, node).is_some()) {
            return 0;
        }
        let mut room = i64::from(u32::MAX);
        for &(resource, request) in &self.shape.requests {
            let held = self.view.cell().held_from(self.job, self.group, node, resource);
            room = room.min((self.view.free(node, resource) - held) / request.max(1));
        }
        let mut room = room.clamp(0, i64::from(u32::MAX)) as u32;
        if room > 1 && !self.shape.devices.is_empty() {
            room = room.min(DeviceRoom::new(&self.view, self.shape, node).room().0);
        }
        if !self.shape.ports.is_empty() {
            room = room.min(1);
        }
        self.limited_beside(node, room, 0)
    }
}
