//! The planner of each class behind one type.

use ohm_batch::BatchPlanner;
use ohm_cell::{Cell, Job};
use ohm_framework::{Need, Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_service::ServicePlanner;
use ohm_stdx::Prng;
use ohm_tas::TasPlanner;

/// Any of the planners.
pub(crate) enum AnyPlanner {
    Batch(BatchPlanner),
    Service(ServicePlanner),
    Tas(TasPlanner),
}

impl AnyPlanner {
    pub(crate) fn new(class: Class) -> Self {
        match class {
            Class::Batch => AnyPlanner::Batch(BatchPlanner::default()),
            Class::Service => AnyPlanner::Service(ServicePlanner::default()),
            Class::Tas => AnyPlanner::Tas(TasPlanner::default()),
        }
    }

    fn inner(&self) -> &dyn Planner {
        match self {
            AnyPlanner::Batch(planner) => planner,
            AnyPlanner::Service(planner) => planner,
            AnyPlanner::Tas(planner) => planner,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Planner {
        match self {
            AnyPlanner::Batch(planner) => planner,
            AnyPlanner::Service(planner) => planner,
            AnyPlanner::Tas(planner) => planner,
        }
    }
}

impl Planner for AnyPlanner {
    fn class(&self) -> Class {
        self.inner().class()
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        self.inner_mut().plan(view, work, dice)
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], jobs: &[JobId]) {
        self.inner_mut().changed(view, nodes, jobs);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.inner_mut().reset(view);
    }

    fn need(&self, cell: &Cell, job: &Job) -> Option<Need> {
        self.inner().need(cell, job)
    }
}
