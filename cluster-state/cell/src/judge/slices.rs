//! Judging slices: every domain of a layer's level holds whole slices of the group once the rows are accepted, or less
//! than one that was broken before.

use super::Judge;
use crate::state::jobs::{Group, Job, TaskState};
use crate::state::topologies::Topology;
use ohm_model::{ConflictReason, GroupIndex, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of a group in one domain.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// They stay: live and not to stop, or succeeded.
    staying: u64,
    /// They are to stop.
    stopping: u64,
    /// Accepted now.
    accepted: u64,
}

impl Tally {
    /// Whether what is accepted completes slices, or fills up a part of one that was broken. Runs that are to stop may
    /// be counted or not: their slice is theirs until they have ended.
    fn is_whole(&self, size: u64) -> bool {
        let fills = |before: u64| {
            let missing = (size - before % size) % size;
            (before + self.accepted).is_multiple_of(size) || self.accepted < missing
        };
        self.accepted == 0 || fills(self.staying) || fills(self.staying + self.stopping)
    }
}

/// What is new of a group: how many tasks go where, and which of its tasks leave.
pub(super) struct Arrivals {
    /// May repeat.
    pub(super) onto: Vec<(NodeId, u32)>,
    pub(super) leaving: BTreeSet<u32>,
    /// Room held for tasks on the move that is not taken by these arrivals. It counts as if they ran there.
    pub(super) rooms: Vec<(NodeId, u32)>,
}

impl Judge<'_> {
    /// Takes back what groups were given that would be in broken slices.
    pub(super) fn judge_slices(&mut self, job: &Job, first: usize, end: usize) {
        for (at, spec) in job.spec.groups.iter().enumerate() {
            if spec.slices().is_empty() || self.scratch.groups[at].accepted == 0 {
                continue;
            }
            let index = GroupIndex(at as u16);
            let rows = (first..end).filter(|row| self.transaction.place[*row].group == index);
            let rows: Vec<usize> = rows.filter(|row| self.accepted[*row] > 0).collect();
            let rooms = self.rooms_left(job, index, &rows);
            let onto = rows.into_iter().map(|row| (self.transaction.place[row].node, self.accepted[row])).collect();
            if !self.are_slices_whole(job, at, &Arrivals { onto, leaving: BTreeSet::new(), rooms }) {
                self.give_back(Some(index), (first, end), ConflictReason::TopologyBroken);
                self.scratch.groups[at].accepted = 0;
            }
        }
    }

    /// The room held for tasks on the move that is still held when these rows of one group are accepted.
    fn rooms_left(&self, job: &Job, index: GroupIndex, rows: &[usize]) -> Vec<(NodeId, u32)> {
        let mut rooms: Vec<(NodeId, u32)> = self.cell.rooms_for_moving(job.id, index).collect();
        if rooms.is_empty() {
            return rooms;
        }
        let moving = &job.groups[usize::from(index.0)].moving;
        let of_row = |row: &usize| moving.overlap(self.transaction.place[*row].first.0, self.accepted[*row]);
        let mut elsewhere: u32 = rows.iter().map(of_row).sum();
        for (node, count) in &mut rooms {
            let taken = self.scratch.over.moved(job.id, index, *node).min(*count);
            (*count, elsewhere) = (*count - taken, elsewhere - taken.min(elsewhere));
        }
        for (_, count) in rooms.iter_mut().rev() {
            let given = elsewhere.min(*count);
            (*count, elsewhere) = (*count - given, elsewhere - given);
        }
        rooms
    }

    /// Whether every domain that something of group `at` goes to holds whole slices then.
    pub(super) fn are_slices_whole(&self, job: &Job, at: usize, arrivals: &Arrivals) -> bool {
        let spec = &job.spec.groups[at];
        self.cell.topologies.get(&spec.topology.topology).is_some_and(|topology| {
            let levels = spec.slices().iter().map(|slice| (topology.level(&slice.level), slice.size));
            levels.into_iter().all(|(level, size)| {
                level.is_some_and(|level| self.is_layer_whole(&job.groups[at], topology, level, size, arrivals))
            })
        })
    }

    fn is_layer_whole(&self, group: &Group, topology: &Topology, level: usize, size: u32, arrivals: &Arrivals) -> bool {
        let mut domains: BTreeMap<Option<u32>, Tally> = BTreeMap::new();
        for &(node, count) in &arrivals.onto {
            domains.entry(topology.key_of(node, level)).or_default().accepted += u64::from(count);
        }
        for &(node, count) in &arrivals.rooms {
            if let Some(tally) = domains.get_mut(&topology.key_of(node, level)) {
                tally.staying += u64::from(count);
            }
        }
        if group.live > 0 || group.succeeded > 0 {
            for (index, task) in group.tasks.iter().enumerate() {
                let tally = domains.get_mut(&topology.key_of(task.node, level));
                let run = self.cell.runs.get(task.run).filter(|_| task.state == TaskState::Live);
                let leaves = arrivals.leaving.contains(&(index as u32));
                match (tally, task.state, run) {
                    (Some(tally), TaskState::Succeeded, _) => tally.staying += 1,
                    (Some(tally), TaskState::Live, Some(run)) if leaves || run.stop.is_some() => tally.stopping += 1,
                    (Some(tally), TaskState::Live, _) => tally.staying += 1,
                    _ => {}
                }
            }
        }
        !domains.contains_key(&None) && domains.values().all(|tally| tally.is_whole(u64::from(size.max(1))))
    }
}
