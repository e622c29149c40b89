//! The topology planner: gangs that care where they stand together.
//!
//! `required` keeps a group in one domain of a level, always; `preferred` begins at a level and goes up while nothing
//! holds it; `unconstrained` drains the fullest leaves first. Slices stand whole inside one domain of their level, at
//! the start and after every repair. A leader and its workers, which share a `placeWith` label, are placed as one.
//! Tasks that are placed again later stay in the domain and in the slice they belong to. Ranks ascend with the path of
//! the topology and keep their tasks through repairs.
//!
//! Invariants: no row leaves a required domain or breaks a slice, in the first plan or any later one; node filters hold
//! at every level; a repair is whole or not at all; ties end in path order, so equal pictures give equal plans.

use ohm_framework::{Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_placement::{Config, Placer, plan_work};
use ohm_stdx::Prng;

/// Plans jobs of class tas.
#[derive(Debug, Default)]
pub struct TasPlanner {
    placer: Placer,
}

impl TasPlanner {
    /// A planner that places as `config` says.
    pub fn new(config: Config) -> Self {
        TasPlanner { placer: Placer::new(config) }
    }
}

impl Planner for TasPlanner {
    fn class(&self) -> Class {
        Class::Tas
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        plan_work(&mut self.placer, None, view, work, dice)
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _jobs: &[JobId]) {
        self.placer.changed(view, nodes);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.placer.reset(view);
    }
}

#[cfg(test)]
mod tests;
