//! PodTopologySpread, the soft form (`ScheduleAnyway`): tasks of the group that stand in the node's domain already, in
//! shares of the group. A node outside the topology loses the whole weight.

use super::costs::{COST_MAX, Costs, LATE_COST_MAX, Lost};
use crate::subject::Subject;
use ohm_cell::Topology;
use ohm_model::NodeId;
use std::collections::BTreeMap;

/// What the domains of one search cost, by the tasks of the group in them. Grows as the search gives tasks away.
#[derive(Debug)]
pub(crate) struct DomainCosts<'a> {
    costs: Costs,
    /// How many tasks the group has.
    of: u64,
    levels: Vec<Level<'a>>,
}

#[derive(Debug)]
struct Level<'a> {
    weight: u32,
    topology: &'a Topology,
    level: usize,
    /// Tasks by domain.
    tasks: BTreeMap<u32, u64>,
}

impl<'a> DomainCosts<'a> {
    /// For a search on behalf of `subject`; nothing when the profile has no score about domains that the cell knows.
    pub(crate) fn new(costs: &Costs, subject: &Subject<'a>) -> Option<Self> {
        let cell = subject.view.cell();
        let mut levels = Vec::new();
        for (weight, label) in &costs.scoring().domains {
            let known = cell.topologies().iter().find_map(|topology| Some((&**topology, topology.level(label)?)));
            let Some((topology, level)) = known else { continue };
            levels.push(Level { weight: *weight, topology, level, tasks: BTreeMap::new() });
        }
        if levels.is_empty() {
            return None;
        }
        let mut domains = DomainCosts { costs: costs.clone(), of: u64::from(subject.spec.count.max(1)), levels };
        subject.standing().into_iter().for_each(|(node, tasks)| domains.note(node, tasks));
        Some(domains)
    }

    /// Takes note of tasks that `node` was given.
    pub(crate) fn note(&mut self, node: NodeId, tasks: u32) {
        for level in &mut self.levels {
            if let Some(key) = level.topology.key_of(node, level.level) {
                *level.tasks.entry(key).or_insert(0) += u64::from(tasks);
            }
        }
    }

    /// The cost of `node`.
    pub(crate) fn of(&self, node: NodeId) -> i32 {
        let cost = |level: &Level<'_>| {
            let key = level.topology.key_of(node, level.level);
            let tasks = key.map_or(self.of, |key| level.tasks.get(&key).copied().unwrap_or(0));
            self.costs.of(level.weight, Lost { parts: tasks.min(self.of), of: self.of })
        };
        let costs = self.levels.iter().map(cost).fold(0, |sum: i64, cost| sum.saturating_add(cost.min(COST_MAX)));
        costs.min(LATE_COST_MAX) as i32
    }
}
