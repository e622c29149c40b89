//! PodTopologySpread for a group that names no constraints: tasks of the group that stand in the node's domain of a
//! level already, in shares of the group. A node outside the topology loses the whole weight. Of one that names soft
//! constraints (`ScheduleAnyway`) see `inter_pod_affinity.rs`.

use super::costs::{Costs, Lost};
use crate::subject::Subject;
use ohm_cell::Topology;
use ohm_model::NodeId;
use ohm_model::node::HOSTNAME_LABEL;
use std::collections::BTreeMap;

/// The levels over which a group is spread that names no constraints itself.
#[derive(Debug)]
pub(super) struct Levels<'a> {
    levels: Vec<Level<'a>>,
    /// How many tasks the group has.
    of: u64,
}

#[derive(Debug)]
struct Level<'a> {
    weight: u32,
    topology: &'a Topology,
    level: usize,
    /// Whether domains may have several nodes.
    is_wide: bool,
    /// Tasks by domain.
    tasks: BTreeMap<u32, u64>,
}

impl<'a> Levels<'a> {
    /// Those that the profile names and the cell knows.
    pub(super) fn new(costs: &Costs, subject: &Subject<'a>) -> Self {
        let (cell, of) = (subject.view.cell(), u64::from(subject.spec.count.max(1)));
        let names_constraints = subject.spec.neighbours.as_ref().is_some_and(|asked| !asked.spread.is_empty());
        let mut levels = Vec::new();
        for (weight, label) in costs.scoring().domains.iter().filter(|_| !names_constraints) {
            let known = cell.topologies().iter().find_map(|topology| Some((&**topology, topology.level(label)?)));
            let Some((topology, level)) = known else { continue };
            let is_wide = label != HOSTNAME_LABEL;
            levels.push(Level { weight: *weight, topology, level, is_wide, tasks: BTreeMap::new() });
        }
        let mut levels = Levels { levels, of };
        if !levels.is_empty() {
            subject.standing().into_iter().for_each(|(node, tasks)| levels.note(node, tasks));
        }
        levels
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Takes note of tasks that `node` was given.
    pub(super) fn note(&mut self, node: NodeId, tasks: u32) {
        for level in &mut self.levels {
            if let Some(key) = level.topology.key_of(node, level.level) {
                *level.tasks.entry(key).or_insert(0) += u64::from(tasks);
            }
        }
    }

    /// Adds what tells nodes apart at levels whose domains have others as well.
    pub(super) fn side(&self, node: NodeId, side: &mut Vec<u64>) {
        let wide = self.levels.iter().filter(|level| level.is_wide);
        side.extend(wide.map(|level| level.topology.key_of(node, level.level).map_or(0, |key| u64::from(key) + 1)));
    }

    /// Whether there are such levels.
    pub(super) fn moves_sides(&self) -> bool {
        self.levels.iter().any(|level| level.is_wide)
    }

    /// What `node` loses, by weight, at levels whose domains have several nodes, or at the others.
    pub(super) fn lost(&self, node: NodeId, of_wide: bool) -> impl Iterator<Item = (u32, Lost)> + '_ {
        self.levels.iter().filter(move |level| level.is_wide == of_wide).map(move |level| {
            let key = level.topology.key_of(node, level.level);
            let tasks = key.map_or(self.of, |key| level.tasks.get(&key).copied().unwrap_or(0));
            (level.weight, Lost { parts: tasks.min(self.of), of: self.of })
        })
    }
}
