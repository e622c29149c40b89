//! Which rank of a job stands where, from Allocations that only count tasks.
//!
//! Ranks ascend with the path of the topology, as the planner gives them out, and whole slices stay together. A task
//! that should stand and does not (its node is gone, or the job has grown) keeps the ranks of the slice it belongs to:
//! it is *parked* beside its neighbours while the job is set up, and ended at once.

use crate::question::{AskedJob, Scene};
use ohm_model::{GroupSpec, TopologyMode, TopologySpec};
use std::collections::BTreeMap;

/// Consecutive ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The node they stand on, or beside which they are parked, as an index into the scene's nodes.
    pub(crate) node: usize,
    pub(crate) count: u32,
    pub(crate) parked: bool,
}

/// What stands of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupSeats {
    /// In rank order, from rank 0.
    pub(crate) parts: Vec<Part>,
    /// How many tasks stood on nodes that the files lack.
    pub(crate) gone: u32,
}

/// What stands of a job, group by group; nothing where no task stands on a node that is there.
pub(crate) fn of_job(scene: &Scene, job: &AskedJob) -> (Option<Vec<GroupSeats>>, u32) {
    let mut groups: Vec<GroupSeats> = job.spec.groups.iter().map(|group| standing(scene, job, group)).collect();
    let gone = groups.iter().map(|seats| seats.gone).sum();
    let Some(anchor) = groups.iter().flat_map(|seats| &seats.parts).map(|part| part.node).next() else {
        return (None, gone);
    };
    for at in 0..groups.len() {
        let group = &job.spec.groups[at];
        let partner = || {
            let together =
                |other: &usize| !group.place_with.is_empty() && job.spec.groups[*other].place_with == group.place_with;
            (0..groups.len()).filter(together).find_map(|other| groups[other].parts.first())
        };
        let anchor = groups[at].parts.last().or_else(partner).map_or(anchor, |part| part.node);
        let parts = std::mem::take(&mut groups[at].parts);
        groups[at].parts = park(scene, group, parts, groups[at].gone, anchor);
    }
    (Some(groups), gone)
}

/// The labels that tell the domains of slices apart in which tasks of `group` stand in parts of slices; empty where all
/// slices are whole. Nobody mends them, as long as what they are parts of stands.
pub(crate) fn broken_levels<'s>(scene: &'s Scene, group: &GroupSpec, parts: &[Part]) -> &'s [String] {
    let Some(topology) = topology_of(scene, group) else { return &[] };
    let levels = topology.levels.as_slice();
    let layers = group.slices().iter().filter_map(|slice| Some((topology.level(&slice.level)?, slice.size)));
    let mut lowest = None;
    for (level, size) in layers {
        let mut tasks: BTreeMap<Vec<&str>, u32> = BTreeMap::new();
        for part in parts {
            *tasks.entry(path(scene, part.node, &levels[..=level])).or_insert(0) += part.count;
        }
        if tasks.values().any(|tasks| tasks % size.max(1) != 0) {
            lowest = Some(level);
        }
    }
    let highest = match group.topology.mode {
        TopologyMode::Required => topology.level(&group.topology.level).map_or(0, |level| level + 1),
        _ => 0,
    };
    lowest.and_then(|lowest| levels.get(highest..=lowest)).unwrap_or(&[])
}

/// The tasks that stand, in rank order; those beyond the group's count are cut from the end.
///
/// What stood on a failed node has its ranks where the file's slices are whole. Where they are not, it completes them.
fn standing(scene: &Scene, job: &AskedJob, group: &GroupSpec) -> GroupSeats {
    let seats = standing_where(scene, job, group, |_| true);
    if group.slices().is_empty() || broken_levels(scene, group, &seats.parts).is_empty() {
        return seats;
    }
    standing_where(scene, job, group, |node| !scene.fail.iter().any(|failed| failed == node))
}

fn standing_where(scene: &Scene, job: &AskedJob, group: &GroupSpec, is_there: impl Fn(&str) -> bool) -> GroupSeats {
    let mut seats = GroupSeats::default();
    for allocation in job.stands.iter().filter(|allocation| allocation.group == group.name) {
        match scene.node_index.get(&allocation.node).filter(|_| is_there(&allocation.node)) {
            None => seats.gone = seats.gone.saturating_add(allocation.count),
            Some(&node) => match seats.parts.iter_mut().find(|part| part.node == node) {
                Some(part) => part.count = part.count.saturating_add(allocation.count),
                None => seats.parts.push(Part { node, count: allocation.count, parked: false }),
            },
        }
    }
    let levels = topology_of(scene, group).map_or(&[][..], |topology| &topology.levels);
    seats.parts.sort_by_cached_key(|part| {
        let spec = &scene.nodes[part.node].spec;
        (path(scene, part.node, levels), spec.name.clone())
    });
    let mut left = group.count;
    for part in &mut seats.parts {
        part.count = part.count.min(left);
        left -= part.count;
    }
    seats.parts.retain(|part| part.count > 0);
    seats.gone = seats.gone.min(left);
    seats
}

/// Adds the tasks that should stand and do not.
fn park(scene: &Scene, group: &GroupSpec, parts: Vec<Part>, gone: u32, anchor: usize) -> Vec<Part> {
    let stands: u32 = parts.iter().map(|part| part.count).sum();
    // A group below its minimum is one that has grown; one above it grows as the cell lets it.
    let mut spare = if stands + gone < group.min_count { group.count - stands } else { gone };
    let layers: Vec<(usize, u32)> = match topology_of(scene, group) {
        Some(topology) => {
            let slices = group.slices().iter();
            slices.filter_map(|slice| Some((topology.level(&slice.level)?, slice.size))).collect()
        }
        None => Vec::new(),
    };
    let levels = topology_of(scene, group).map_or(&[][..], |topology| &topology.levels);
    let mut seated = fill(scene, &parts, levels, &layers, &mut spare);
    if spare > 0 {
        seated.push(Part { node: anchor, count: spare, parked: true });
    }
    seated
}

/// Completes the broken slices of `parts`, the inner layers before the outer ones.
fn fill(scene: &Scene, parts: &[Part], levels: &[String], layers: &[(usize, u32)], spare: &mut u32) -> Vec<Part> {
    let Some((&(level, size), inner)) = layers.split_first() else { return parts.to_vec() };
    let upto = (level + 1).min(levels.len());
    let same = |a: &Part, b: &Part| path(scene, a.node, &levels[..upto]) == path(scene, b.node, &levels[..upto]);
    let mut filled = Vec::with_capacity(parts.len());
    for domain in parts.chunk_by(same) {
        let mut within = fill(scene, domain, levels, inner, spare);
        let tasks: u32 = within.iter().map(|part| part.count).sum();
        let lacks = (size - tasks % size.max(1)) % size.max(1);
        let taken = lacks.min(*spare);
        if let (Some(last), true) = (within.last().copied(), taken > 0) {
            within.push(Part { node: last.node, count: taken, parked: true });
            *spare -= taken;
        }
        filled.extend(within);
    }
    filled
}

/// The topology that a group asks of, or the only one.
pub(crate) fn topology_of<'s>(scene: &'s Scene, group: &GroupSpec) -> Option<&'s TopologySpec> {
    match (group.topology.topology.as_str(), scene.topologies.as_slice()) {
        ("", [(_, only)]) => Some(only),
        (name, all) => all.iter().map(|(_, topology)| topology).find(|topology| topology.name == name),
    }
}

fn path<'s>(scene: &'s Scene, node: usize, levels: &[String]) -> Vec<&'s str> {
    let spec = &scene.nodes[node].spec;
    let value = |level: &String| match spec.labels.get(level) {
        Some(value) => value.as_str(),
        None if level == ohm_model::node::HOSTNAME_LABEL => spec.name.as_str(),
        None => "",
    };
    levels.iter().map(value).collect()
}
