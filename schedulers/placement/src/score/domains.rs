//! What nodes cost a group because of the tasks in their domains. It grows as the search gives tasks away.

use super::costs::{COST_MAX, Costs, LATE_COST_MAX, Lost};
use super::inter_pod_affinity::Around;
use super::pod_topology_spread::Levels;
use crate::subject::Subject;
use ohm_cell::Change;
use ohm_model::NodeId;

/// What domains cost one search.
#[derive(Debug)]
pub(crate) struct DomainCosts<'a> {
    costs: Costs,
    levels: Levels<'a>,
    around: Option<Around<'a>>,
}

impl<'a> DomainCosts<'a> {
    /// For a search on behalf of `subject`; nothing when no domain can cost it anything.
    pub(crate) fn new(costs: &Costs, subject: &Subject<'a>) -> Option<Self> {
        let (levels, around) = (Levels::new(costs, subject), Around::new(costs, subject));
        (!levels.is_empty() || around.is_some()).then(|| DomainCosts { costs: costs.clone(), levels, around })
    }

    /// Takes note of tasks that `node` was given. Says which nodes may cost less than before.
    pub(crate) fn note(&mut self, node: NodeId, tasks: u32) -> Change {
        self.levels.note(node, tasks);
        self.around.as_mut().map_or(Change::default(), |around| around.note(node, tasks))
    }

    /// Whether what the group prefers of the tasks around it changes with each task that is given away.
    pub(crate) fn moves(&self) -> bool {
        self.around.as_ref().is_some_and(Around::moves)
    }

    /// Whether tasks that are given away change what domains of several nodes cost.
    pub(crate) fn moves_sides(&self) -> bool {
        self.levels.moves_sides() || self.around.as_ref().is_some_and(Around::moves_sides)
    }

    /// Adds what tells nodes apart whose domains have others as well: nodes with the same cost the same for them.
    pub(crate) fn side(&self, node: NodeId, side: &mut Vec<u64>) {
        self.levels.side(node, side);
        self.around.iter().for_each(|around| around.side(node, side));
    }

    /// The cost of `node`.
    pub(crate) fn of(&self, node: NodeId) -> i32 {
        self.of_domains(node, true).saturating_add(self.of_domains(node, false))
    }

    /// The cost of `node` because of domains that have several nodes, or of those that have one.
    pub(crate) fn of_domains(&self, node: NodeId, of_wide: bool) -> i32 {
        let cost = |(weight, lost): (u32, Lost)| self.costs.of(weight, lost).min(COST_MAX);
        let levels = self.levels.lost(node, of_wide).map(cost).fold(0, i64::saturating_add);
        let around = self.around.iter().flat_map(|around| around.lost(node, of_wide));
        around.map(cost).fold(levels, i64::saturating_add).min(LATE_COST_MAX / 2) as i32
    }
}
