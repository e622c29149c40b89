//! The planner of a class, with a share of its plans spoilt.

use crate::mischief::{self, Mischief};
use ohm_cell::{Cell, Job};
use ohm_framework::{Decision, Need, Plan, Planner, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_planner::ProfilePlanner;
use ohm_stdx::Prng;

/// A planner of which a share of the plans is spoilt.
pub(crate) struct SpoiltPlanner {
    planner: ProfilePlanner,
    mischief: Mischief,
}

impl SpoiltPlanner {
    pub(crate) fn new(class: Class, mischief: Mischief) -> Self {
        SpoiltPlanner { planner: ohm_planner::of(class), mischief }
    }
}

impl Planner for SpoiltPlanner {
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
