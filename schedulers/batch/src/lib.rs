//! The batch planner: gangs, arrays and priorities.
//!
//! Order comes with the work: most urgent first. A gang starts with the most that fits, at least its minimum in every
//! group, or not at all; tasks that come later (retries, growth of elastic groups) are taken one by one. A job that
//! does not fit never keeps later ones waiting: they are tried on the room it leaves, which is backfill without
//! reservations.
//!
//! Invariants: no group of a gang starts below its minimum, in the plan as in the cell; groups of one job travel in one
//! transaction; equal pictures and work give equal plans.
//!
//! Absent on purpose: the choice of victims. Preemption and reclaim are a [`PostFilter`] that is handed in.

use ohm_framework::{Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_placement::{Config, Placer, PostFilter, plan_work};
use ohm_stdx::Prng;

/// Plans jobs of class batch.
#[derive(Default)]
pub struct BatchPlanner {
    placer: Placer,
    post_filter: Option<Box<dyn PostFilter + Send>>,
}

impl BatchPlanner {
    /// A planner that places as `config` says.
    pub fn new(config: Config) -> Self {
        BatchPlanner { placer: Placer::new(config), post_filter: None }
    }

    /// The same planner with something to try for jobs that find no room.
    pub fn with_post_filter(self, post_filter: Box<dyn PostFilter + Send>) -> Self {
        BatchPlanner { post_filter: Some(post_filter), ..self }
    }
}

impl Planner for BatchPlanner {
    fn class(&self) -> Class {
        Class::Batch
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let hook = self.post_filter.as_deref_mut().map(|hook| hook as &mut dyn PostFilter);
        plan_work(&mut self.placer, hook, view, work, dice)
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
