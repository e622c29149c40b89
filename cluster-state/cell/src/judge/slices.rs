//! Judging slices: every domain of a layer's level holds whole slices of the group when the rows stand, or less than
//! one that was broken before.

use super::Judge;
use crate::jobs::{Group, Job, TaskState};
use crate::topologies::Topology;
use ohm_model::{ConflictReason, GroupIndex};
use std::collections::BTreeMap;

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

impl Judge<'_> {
    /// Takes back what groups were given that would stand in broken slices.
    pub(super) fn judge_slices(&mut self, job: &Job, first: usize, end: usize) {
        for (at, spec) in job.spec.groups.iter().enumerate() {
            if spec.slices().is_empty() || self.scratch.groups[at].accepted == 0 {
                continue;
            }
            let index = GroupIndex(at as u16);
            let whole = self.cell.topologies.get(&spec.topology.topology).is_some_and(|topology| {
                let levels = spec.slices().iter().map(|slice| (topology.level(&slice.level), slice.size));
                levels.into_iter().all(|(level, size)| {
                    level.is_some_and(|level| {
                        self.is_layer_whole(&job.groups[at], topology, level, size, (index, first, end))
                    })
                })
            });
            if !whole {
                self.give_back(Some(index), (first, end), ConflictReason::TopologyBroken);
                self.scratch.groups[at].accepted = 0;
                self.scratch.groups[at].domain = job.groups[at].domain;
            }
        }
    }

    fn is_layer_whole(
        &self,
        group: &Group,
        topology: &Topology,
        level: usize,
        size: u32,
        (index, first, end): (GroupIndex, usize, usize),
    ) -> bool {
        let mut domains: BTreeMap<Option<u32>, Tally> = BTreeMap::new();
        for row in first..end {
            let placement = &self.transaction.place[row];
            if placement.group == index && self.accepted[row] > 0 {
                let key = topology.key_of(placement.node, level);
                domains.entry(key).or_default().accepted += u64::from(self.accepted[row]);
            }
        }
        if group.live > 0 || group.succeeded > 0 {
            for task in group.tasks.iter() {
                let tally = domains.get_mut(&topology.key_of(task.node, level));
                let run = self.cell.runs.get(task.run).filter(|_| task.state == TaskState::Live);
                match (tally, task.state, run) {
                    (Some(tally), TaskState::Succeeded, _) => tally.staying += 1,
                    (Some(tally), TaskState::Live, Some(run)) if run.stop.is_some() => tally.stopping += 1,
                    (Some(tally), TaskState::Live, _) => tally.staying += 1,
                    _ => {}
                }
            }
        }
        !domains.contains_key(&None) && domains.values().all(|tally| tally.is_whole(u64::from(size.max(1))))
    }
}
