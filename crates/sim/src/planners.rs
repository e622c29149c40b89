//! The planner of each class behind one type, with a share of its plans spoilt.

use crate::mischief::{self, Mischief};
use ohm_batch::BatchPlanner;
use ohm_cell::{Cell, Job};
use ohm_framework::{Decision, Need, Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_service::ServicePlanner;
use ohm_stdx::Prng;
use ohm_tas::TasPlanner;

/// Any of the planners.
pub(crate) struct AnyPlanner {
    planner: Box<dyn Planner>,
    mischief: Mischief,
}

impl AnyPlanner {
    pub(crate) fn new(class: Class, mischief: Mischief) -> Self {
        let planner: Box<dyn Planner> = match class {
            Class::Batch => Box::new(BatchPlanner::default()),
            Class::Service => Box::new(ServicePlanner::default()),
            Class::Tas => Box::new(TasPlanner::default()),
        };
        AnyPlanner { planner, mischief }
    }
}

impl Planner for AnyPlanner {
    fn class(&self) -> Class {
        self.planner.class()
    }

    fn plan(&mut self, view: &View<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let mut plan = self.planner.plan(view, work, dice);
        if self.mischief.get() > 0 {
            // The planner has counted its rows as taken; where they go elsewhere, it must look again.
            let planned = plan.decisions.iter().filter_map(|decision| match decision {
                Decision::Planned(planned) => Some(planned.place.iter().map(|row| row.node)),
                _ => None,
            });
            let nodes: Vec<NodeId> = planned.flatten().collect();
            mischief::spoil(&mut plan, view, self.mischief.get(), dice);
            self.planner.changed(view, &nodes, &[]);
        }
        plan
    }

    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], jobs: &[JobId]) {
        self.planner.changed(view, nodes, jobs);
    }

    fn reset(&mut self, view: &View<'_>) {
        self.planner.reset(view);
    }

    fn need(&self, cell: &Cell, job: &Job) -> Option<Need> {
        self.planner.need(cell, job)
    }
}
