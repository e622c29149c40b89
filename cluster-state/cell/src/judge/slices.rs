//! Judging slices: a slice is a run of ranks, and all of its tasks are in one domain of its level. What comes joins the
//! others of its slice, or brings the whole slice.

use super::Judge;
use crate::cell::Cell;
use crate::state::jobs::{Job, TaskState};
use crate::state::topologies::Topology;
use ohm_model::{ConflictReason, GroupIndex, NodeId};
use std::ops::Range;

/// Where the tasks of one slice are that don't come now.
#[derive(Debug, Default)]
struct Mates {
    /// The domains of those that stay: they run on, have succeeded, or have their room there.
    staying: Vec<u32>,
    /// The domains of those that are to stop and have no room elsewhere.
    stopping: Vec<u32>,
    /// How many have succeeded on nodes that are in no domain any more.
    done: u32,
}

impl Judge<'_> {
    /// Takes back what groups were given that would tear slices.
    pub(super) fn judge_slices(&mut self, job: &Job, first: usize, end: usize) {
        for (at, spec) in job.spec.groups.iter().enumerate() {
            if spec.slices().is_empty() || self.scratch.groups[at].accepted == 0 {
                continue;
            }
            let index = GroupIndex(at as u16);
            let rows = (first..end).map(|row| (&self.transaction.place[row], self.accepted[row]));
            let rows = rows.filter(|(row, _)| row.group == index);
            let arrivals: Vec<(u32, NodeId)> =
                rows.flat_map(|(row, count)| (row.first.0..row.first.0 + count).map(|task| (task, row.node))).collect();
            if !self.are_slices_whole(job, at, &arrivals) {
                self.give_back(Some(index), (first, end), ConflictReason::TopologyBroken);
                self.scratch.groups[at].accepted = 0;
            }
        }
    }

    /// Whether each slice of group `at` that a task of `arrivals` belongs to is in one domain then, at every layer;
    /// `arrivals` ascend by task.
    pub(super) fn are_slices_whole(&self, job: &Job, at: usize, arrivals: &[(u32, NodeId)]) -> bool {
        let spec = &job.spec.groups[at];
        let Some(topology) = self.cell.topologies.get(&spec.topology.topology) else { return false };
        spec.slices().iter().all(|slice| {
            let (level, size) = (topology.level(&slice.level), slice.size.max(1));
            let mut slices = arrivals.chunk_by(|one, other| one.0 / size == other.0 / size);
            level.is_some_and(|level| slices.all(|come| self.is_slice_whole(job, at, (topology, level, size), come)))
        })
    }

    fn is_slice_whole(
        &self,
        job: &Job,
        at: usize,
        (topology, level, size): (&Topology, usize, u32),
        come: &[(u32, NodeId)],
    ) -> bool {
        let first = come[0].0 / size * size;
        let ranks = first..first.saturating_add(size).min(job.spec.groups[at].count);
        let key = |node| topology.key_of(node, level);
        let Some(home) = key(come[0].1) else { return false };
        let mates = mates(self.cell, (job, at), ranks.clone(), come, key);
        if !mates.staying.is_empty() {
            return come.iter().all(|(_, node)| key(*node).is_some_and(|key| mates.staying.contains(&key)));
        }
        let together = come.iter().all(|(_, node)| key(*node) == Some(home));
        let all = || come.len() as u32 + mates.done >= ranks.len() as u32;
        together && if mates.stopping.is_empty() { all() } else { mates.stopping.contains(&home) }
    }
}

/// Whether one lost task of group `at` may come to `node` as far as its slices go: at every layer it joins those that
/// stay. A slice of which nothing is left is waited for where the task stood last.
pub(crate) fn may_join(cell: &Cell, (job, at): (&Job, usize), rank: u32, node: NodeId) -> bool {
    let spec = &job.spec.groups[at];
    let Some(topology) = cell.topologies.get(&spec.topology.topology) else { return spec.slices().is_empty() };
    spec.slices().iter().all(|slice| {
        let Some(level) = topology.level(&slice.level) else { return false };
        let come = topology.key_of(node, level);
        come.is_some_and(|come| homes(cell, (job, at), rank, (topology, level, slice.size)).contains(&come))
    })
}

/// The domains of one layer that a lost task of group `at` may come to: where the others of its slice stay, else where
/// they stop, else where it stood last.
pub(crate) fn homes(
    cell: &Cell,
    (job, at): (&Job, usize),
    rank: u32,
    (topology, level, size): (&Topology, usize, u32),
) -> Vec<u32> {
    let (key, size) = (|node| topology.key_of(node, level), size.max(1));
    let first = rank / size * size;
    let ranks = first..first.saturating_add(size).min(job.spec.groups[at].count);
    let mates = mates(cell, (job, at), ranks, &[(rank, NodeId(0))], key);
    let homes = if mates.staying.is_empty() { mates.stopping } else { mates.staying };
    let stood = || job.groups[at].tasks.get(rank as usize).and_then(|task| key(task.node));
    if homes.is_empty() { stood().into_iter().collect() } else { homes }
}

/// The tasks of a slice that are not among those that come.
fn mates(
    cell: &Cell,
    (job, at): (&Job, usize),
    ranks: Range<u32>,
    come: &[(u32, NodeId)],
    key: impl Fn(NodeId) -> Option<u32>,
) -> Mates {
    let (group, mut mates) = (&job.groups[at], Mates::default());
    let comes = |rank: &u32| come.binary_search_by_key(rank, |(task, _)| *task).is_ok();
    for rank in ranks.filter(|rank| !comes(rank)) {
        let Some(task) = group.tasks.get(rank as usize) else { continue };
        let room = room_of(cell, (job, at), rank).and_then(&key);
        match (task.state, cell.runs.get(task.run)) {
            _ if room.is_some() => mates.staying.extend(room),
            (TaskState::Succeeded, _) => match key(task.node) {
                Some(key) => mates.staying.push(key),
                None => mates.done += 1,
            },
            (TaskState::Live, Some(run)) if run.stop.is_some() => mates.stopping.extend(key(run.node)),
            (TaskState::Live, Some(run)) => mates.staying.extend(key(run.node)),
            _ => {}
        }
    }
    mates
}

/// Where the room of a task is that is on the move.
fn room_of(cell: &Cell, (job, at): (&Job, usize), rank: u32) -> Option<NodeId> {
    if !job.groups[at].moving.contains(rank, 1) {
        return None;
    }
    let mut rooms = cell.rooms_for_moving(job.id, GroupIndex(at as u16));
    rooms.find(|(_, tasks)| tasks.contains(rank, 1)).map(|(node, _)| node)
}
