//! Cases as text, and properties against brute force.

mod cases;
mod exact;
mod fixed;
mod properties;
mod slices;
mod topologies;

use crate::fixture;
use crate::{Config, Placer, plan_work};
use ohm_framework::{Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_stdx::Prng;

/// The craft without any class around it.
#[derive(Default)]
struct Bare(Placer);

impl Bare {
    fn with(config: Config) -> Self {
        Bare(Placer::new(config))
    }
}

impl Planner for Bare {
    fn class(&self) -> Class {
        Class::Batch
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        plan_work(&mut self.0, None, view, work, dice)
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], _jobs: &[JobId]) {
        self.0.changed(view, nodes);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.0.reset(view);
    }
}

fn check(text: &str, expected: &str) {
    fixture::check(&mut Bare::default(), text, expected);
}
