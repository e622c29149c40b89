//! The service planner: tasks that run until they are stopped.
//!
//! A service has no whole to start: each group stands with its minimum or waits by itself, and what fits is taken
//! task by task. Groups spread unless they ask to be packed: fewest tasks of the group on the node first, then the
//! emptiest node; at most `maxPerNode` on one, and one per node where host ports are asked for.
//!
//! Invariants: a started group keeps every task that stands, only missing ones are placed; equal pictures and work give
//! equal plans.
//!
//! Absent on purpose: rolling updates, disruption budgets and drain, which decide what stops and not where it goes.

use ohm_framework::{Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_placement::{Config, Placer, plan_work};
use ohm_stdx::Prng;

/// Plans jobs of class service.
#[derive(Debug, Default)]
pub struct ServicePlanner {
    placer: Placer,
}

impl ServicePlanner {
    /// A planner that places as `config` says.
    pub fn new(config: Config) -> Self {
        ServicePlanner { placer: Placer::new(config) }
    }
}

impl Planner for ServicePlanner {
    fn class(&self) -> Class {
        Class::Service
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
