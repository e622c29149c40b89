//! A simulated scheduler replica, with a share of its plans spoilt.

use super::follower::{Duty, Follower};
use crate::faults::Victim;
use crate::mischief::{self, Mischief};
use crate::stage::Stage;
use ohm_cell::{Cell, Job};
use ohm_framework::{Again, Board, Decision, Need, Plan, Planner, Proceed, SchedulerCore, SchedulerInput, View, Work};
use ohm_model::{Class, JobId, NodeId};
use ohm_planner::ProfilePlanner;
use ohm_stdx::Prng;
use std::cell::Cell as Counter;
use std::rc::Rc;

/// It plans the jobs of one class.
pub(crate) struct Scheduling(pub(crate) Class);

pub(crate) type SchedulerProcess = Follower<Scheduling>;

impl Duty for Scheduling {
    type Core = SchedulerCore<SpoiltPlanner>;
    const NAME: &'static str = "scheduler";
    const TICK_MS: u64 = 50;

    fn victim(number: usize) -> Victim {
        Victim::Scheduler(number)
    }

    fn core(&self, number: usize, starts: u64, stage: &Stage, dice: &mut Prng) -> Self::Core {
        let name = format!("{}-{number} #{starts}", self.0.name());
        let planner = SpoiltPlanner::new(self.0, (Mischief::clone(&stage.mischief), Rc::clone(&stage.planned)));
        SchedulerCore::new(stage.knobs.scheduler(&name), planner, dice.fork())
    }

    fn perform(_: &mut SchedulerProcess, _again: Again, _: &mut Stage) -> Option<SchedulerInput> {
        Some(SchedulerInput::Own(Proceed))
    }
}

/// A planner of which a share of the plans is spoilt.
pub(crate) struct SpoiltPlanner {
    planner: ProfilePlanner,
    mischief: Mischief,
    /// Grows by the jobs that it decides about.
    planned: Rc<Counter<u64>>,
}

impl SpoiltPlanner {
    pub(crate) fn new(class: Class, (mischief, planned): (Mischief, Rc<Counter<u64>>)) -> Self {
        SpoiltPlanner { planner: ohm_planner::of(class), mischief, planned }
    }
}

impl Planner for SpoiltPlanner {
    fn class(&self) -> Class {
        self.planner.class()
    }

    fn plan(&mut self, board: &mut Board<'_>, work: &Work, dice: &mut Prng) -> Plan {
        let mut plan = self.planner.plan(board, work, dice);
        self.planned.set(self.planned.get() + plan.decisions.len() as u64);
        let view = &board.view();
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
