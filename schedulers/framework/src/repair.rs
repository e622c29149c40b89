//! What is special about the plan of a repair, whatever planner made it.

use crate::explain::{Explanation, Obstacle};
use crate::plan::PlannedJob;
use crate::planner::Planner;
use crate::scheduler::SchedulerCore;
use ohm_cell::{Cell, Job, RepairState};
use ohm_model::{Grain, GroupIndex, JobGuard, JobId, RepairPolicy, StopCause};
use ohm_stdx::bug::{self, Bug};

/// Whether `job` is a gang that lost tasks and does not stand with its minimum: then its policy decides.
fn is_broken(job: &Job) -> bool {
    job.repair_state() == RepairState::Waiting && job.is_below_minimum()
}

/// The plan that claims room for what `job` lost and finds none: what becomes free where it may go is kept from new
/// work then, whoever plans that. Once only, and as long as room is owed.
pub(crate) fn claim_for(cell: &Cell, job: JobId, why: &Explanation) -> Option<PlannedJob> {
    let found = cell.jobs().get(job).filter(|job| job.repair_state() == RepairState::Waiting)?;
    let claim = unclaimed(cell, found);
    if claim.is_empty() || !matches!(why.obstacle, Obstacle::Room | Obstacle::Domain { .. }) {
        return None;
    }
    let guard = JobGuard { job, version: found.version, reserved: false };
    let rest = Some(Box::new(why.clone()));
    Some(PlannedJob { claim, rest, ..PlannedJob::placing(guard, Grain::PerTask, Vec::new()) })
}

/// Whether `job` may claim room and has not.
pub(crate) fn may_claim(cell: &Cell, job: JobId) -> bool {
    cell.jobs().get(job).is_some_and(|found| !unclaimed(cell, found).is_empty())
}

/// The groups of `job` to which room is owed and not claimed yet, and of which lost tasks may be placed now.
fn unclaimed(cell: &Cell, job: &Job) -> Vec<GroupIndex> {
    let groups = (0..job.groups.len() as u16).map(GroupIndex);
    let waits = |group: &GroupIndex| {
        let group = &job.groups[usize::from(group.0)];
        group.pending.iter().any(|(first, count)| group.lost.overlap(first, count) > 0)
    };
    let owed = groups.filter(|group| job.may_claim(*group, cell.now_ms()) && waits(group));
    owed.filter(|group| cell.nominations().claim(job.id, *group).is_none()).collect()
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
        let guard = JobGuard { job, version: found.version, reserved: false };
        let evict = vec![(run.run, StopCause::RepairFailed)];
        Some(PlannedJob { evict, ..PlannedJob::placing(guard, Grain::AllOrNothing, Vec::new()) })
    }
}
