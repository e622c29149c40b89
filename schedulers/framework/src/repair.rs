//! What is special about the plan of a repair, whatever planner made it.

use crate::explain::{Explanation, Obstacle};
use crate::plan::PlannedJob;
use crate::planner::Planner;
use crate::scheduler::SchedulerCore;
use ohm_cell::{Job, RepairState};
use ohm_model::{Grain, Guard, JobGuard, JobId, RepairPolicy, StopCause};
use ohm_stdx::bug::{self, Bug};

/// Whether `job` is a gang that lost tasks and does not stand with its minimum: then its policy decides.
fn is_broken(job: &Job) -> bool {
    job.repair_state() == RepairState::Waiting && job.is_below_minimum()
}

impl<P: Planner> SchedulerCore<P> {
    /// A broken gang is repaired with everything or not at all: a later loss fails its guard, and the next plan takes
    /// all losses together.
    pub(crate) fn bind_repair(&self, planned: &mut PlannedJob) {
        let planted = bug::is_planted(Bug::HalfRepair);
        if self.follower.cell().jobs().get(planned.job.job).is_some_and(|job| is_broken(job)) && !planted {
            planned.grain = Grain::AllOrNothing;
        }
    }

    /// The plan that gives up a broken gang for which no place was found, if its policy is to fail fast. Naming one run
    /// is enough: the cell evicts the gang whole. What waits for quota or for something outside is never given up.
    pub(crate) fn give_up(&self, job: JobId, why: &Explanation) -> Option<PlannedJob> {
        let found = self.follower.cell().jobs().get(job).filter(|job| is_broken(job))?;
        let no_place = matches!(
            why.obstacle,
            Obstacle::Room | Obstacle::Domain { .. } | Obstacle::Contradiction { .. } | Obstacle::TooLarge { .. }
        );
        if found.spec.repair.policy != RepairPolicy::FailFast || !no_place {
            return None;
        }
        let tasks = found.groups.iter().flat_map(|group| group.tasks.iter());
        let run = tasks.filter_map(|task| self.follower.cell().runs().get(task.run)).find(|run| run.stop.is_none())?;
        Some(PlannedJob {
            job: JobGuard { job, version: found.version, reserved: false },
            others: Vec::new(),
            grain: Grain::AllOrNothing,
            guard: Guard::Fits,
            place: Vec::new(),
            evict: vec![(run.run, StopCause::RepairFailed)],
            nominate: Vec::new(),
            reserve: false,
            rest: None,
        })
    }
}
