//! The two passes of a job whose queue has checks: quota is reserved without a plan, and what is ready is placed.
//!
//! A second pass that finds no room keeps its reservation and is tried again after 1, 2, 4, 8, 16 and then every 30 s
//! (Kueue's second-pass queue), at once when a node comes or room is given back, and whenever the job itself changes.

use crate::explain::{Explanation, Obstacle};
use crate::flavors::{choices, flavor_obstacle, may_choose};
use crate::input::SchedulerEffect;
use crate::plan::{Decision, PlannedJob};
use crate::planner::{Need, Planner};
use crate::preempt::preempt_to_reserve;
use crate::scheduler::SchedulerCore;
use crate::view::View;
use ohm_cell::{Cell, CheckState, HeldUsage, Job, JobState, Overlay, Standing, kept_back_over, standing_as_is};
use ohm_model::{FlavorChoice, Grain, JobId, SessionId};
use ohm_stdx::bug::{self, Bug};

const WAIT_MS: u64 = 1_000;
const WAIT_MS_MAX: u64 = 30_000;

/// How long second pass number `failed` + 1 waits after so many that found no room.
fn wait_ms(failed: u32) -> u64 {
    (WAIT_MS << failed.saturating_sub(1).min(10)).min(WAIT_MS_MAX)
}

/// What a job that was taken from the backlog needs.
pub(crate) enum Pass {
    /// A plan.
    Place(Need),
    /// Its quota.
    Reserve,
    /// Something that no scheduler can do.
    Wait(Obstacle),
}

/// Why `job` is looked at, if it is: as its planner says, but not while its checks are asked or wait for another
/// attempt, nor while it backs off because it was not ready in time.
pub(crate) fn need_now<P: Planner>(cell: &Cell, planner: &P, job: &Job) -> Option<Need> {
    match cell.standing(job) {
        Standing::Checking | Standing::BackOff(_) | Standing::TimedOut(_) => None,
        Standing::Free | Standing::Invalid(_) | Standing::Unreserved | Standing::Ready => planner.need(cell, job),
        // What has to leave its node does; the rest waits, and is told why.
        Standing::Held(_) => planner.need(cell, job).or((job.pending() > 0).then_some(Need::Start)),
    }
}

/// What the admission of `job` waits for before it can be placed: its turn, its checks, another attempt, its quota or a
/// class that is not known. Nothing when it may be placed, or is not active.
pub fn admission_obstacle(cell: &Cell, job: &Job) -> Option<Obstacle> {
    let what = match cell.standing(job) {
        _ if job.state != JobState::Active => return None,
        Standing::Free | Standing::Ready => return out_of_turn(cell, job, &HeldUsage::new(), |_| false),
        Standing::Held(policy) => return Some(Obstacle::Held { queue: job.spec.queue.clone(), policy }),
        Standing::Invalid(problem) => return Some(invalid(&problem)),
        Standing::BackOff(due_ms) => {
            let seconds = due_ms.saturating_sub(cell.now_ms()).div_ceil(1000);
            let failed = job.admission.failed.as_ref().map(|failed| {
                let separator = if failed.message.is_empty() { "" } else { ": " };
                format!(" (check {} failed, attempt {}{separator}{})", failed.class, failed.attempt, failed.message)
            });
            format!("the next attempt at its admission in {seconds} s{}", failed.unwrap_or_default())
        }
        Standing::TimedOut(until_ms) => {
            let seconds = until_ms.saturating_sub(cell.now_ms()).div_ceil(1000);
            format!("the end of its back-off in {seconds} s: {}", job.reason)
        }
        Standing::Checking => checks_text(job),
        Standing::Unreserved => {
            if let Some(obstacle) = out_of_turn(cell, job, &HeldUsage::new(), |_| false) {
                return Some(obstacle);
            }
            let over = Overlay::default();
            let view = View::new(cell, &over, SessionId(0));
            let chosen = job.with_flavors(&flavors_to_reserve(&view, job));
            let job = chosen.as_ref().unwrap_or(job);
            let short = flavor_obstacle(cell, job).or_else(|| no_reservation(&view, job));
            return Some(short.unwrap_or_else(reserved_next));
        }
    };
    Some(Obstacle::Waiting { what })
}

/// Who comes before `job` in a StrictFIFO queue, if anybody does who does not start already.
fn out_of_turn(cell: &Cell, job: &Job, held: &HeldUsage, starts: impl Fn(JobId) -> bool) -> Option<Obstacle> {
    let first = kept_back_over(cell, job, held).find(|first| !starts(first.id))?.id;
    Some(Obstacle::Turn { queue: job.spec.queue.clone(), first })
}

fn checks_text(job: &Job) -> String {
    let checks = job.admission.round.iter().flat_map(|round| &round.checks);
    let pending = checks.filter(|check| check.state == CheckState::Pending).map(|check| {
        let separator = if check.message.is_empty() { "" } else { ": " };
        format!("check {} (attempt {}){separator}{}", check.class, check.attempt, check.message)
    });
    format!("{}; its quota is reserved", pending.collect::<Vec<_>>().join(" and "))
}

fn invalid(problem: &str) -> Obstacle {
    Obstacle::Waiting { what: format!("its admission: {problem}") }
}

/// What a job waits for that could have its quota at once.
pub(crate) fn reserved_next() -> Obstacle {
    Obstacle::Waiting { what: "its quota, which is reserved next".into() }
}

/// Why the whole of `job` is not reserved with the flavors that it has.
fn no_reservation(view: &View<'_>, job: &Job) -> Option<Obstacle> {
    match standing_as_is(view.cell(), job) {
        Standing::Invalid(problem) => Some(invalid(&problem)),
        _ => short_quota(view, job),
    }
}

/// The whole quota of `job`, which has these flavors.
fn reservation(view: &View<'_>, job: &Job, flavors: Vec<FlavorChoice>) -> PlannedJob {
    let planned = PlannedJob::placing(view.guard(job), Grain::PerTask, Vec::new());
    PlannedJob { reserve: true, flavors, ..planned }
}

/// What is decided about `job`, which has these flavors of several that it may choose, where they have checks to pass:
/// its quota is reserved, if there is enough. Nothing where it may be placed with them. On a picture of later, nothing
/// is reserved.
pub fn reserve_with(view: &View<'_>, job: &Job) -> Option<Decision> {
    let cell = view.cell();
    let obstacle = match standing_as_is(cell, job) {
        Standing::Unreserved if view.what().over.later => Some(reserved_next()),
        Standing::Unreserved | Standing::Invalid(_) => no_reservation(view, job),
        _ => return None,
    };
    Some(match obstacle {
        Some(obstacle) => Decision::Unplaced(Box::new(Explanation::of_obstacle(job.id, view.seen(), 0, obstacle))),
        None => Decision::Planned(Box::new(reservation(view, job, Vec::new()))),
    })
}

/// The resource of which the queue has too little for the whole of `job`.
fn short_quota(view: &View<'_>, job: &Job) -> Option<Obstacle> {
    let left = view.quota_of(job)?;
    view.cell().missing_request(job).into_iter().find_map(|(column, asked)| {
        let (available, ceded) = (left.available(column)?, left.ceded(column));
        let queue = job.spec.queue.clone();
        (available < asked).then_some(Obstacle::Quota { queue, column, asked, available, ceded })
    })
}

/// The flavors with which the whole of `job` is to be reserved, where it may have others than it has.
fn flavors_to_reserve(view: &View<'_>, job: &Job) -> Vec<FlavorChoice> {
    let choice = if may_choose(job) { choices(view, job, true).into_iter().next() } else { None };
    choice.map(|choice| choice.flavors).unwrap_or_default()
}

impl<P: Planner> SchedulerCore<P> {
    /// What a job that was taken needs now; nothing when it needs nothing.
    pub(crate) fn pass_of(&self, job: JobId) -> Option<Pass> {
        let found = self.follower.cell().jobs().get(job)?;
        let need = need_now(self.follower.cell(), &self.planner, found)?;
        let held = self.holds.of_parts(&found.spec.queue);
        if let Some(obstacle) = out_of_turn(self.follower.cell(), found, &held, |first| self.flights.starts(first)) {
            return Some(Pass::Wait(obstacle));
        }
        Some(match self.follower.cell().standing(found) {
            Standing::Unreserved => Pass::Reserve,
            Standing::Invalid(_) => Pass::Wait(admission_obstacle(self.follower.cell(), found)?),
            Standing::Held(_) if need != Need::Move => Pass::Wait(admission_obstacle(self.follower.cell(), found)?),
            _ => Pass::Place(need),
        })
    }

    /// Pass one: the whole quota of each job, or nothing of it. What one job is to get is held before the next is
    /// looked at.
    pub(crate) fn reserve_all(&mut self, now_ms: u64, jobs: &[JobId], out: &mut Vec<SchedulerEffect>) {
        for &job in jobs {
            if !self.has_room() {
                self.backlog.give_back(job);
                continue;
            }
            let Some(found) = self.follower.cell().jobs().get(job) else { continue };
            let view = Self::view(self.follower.cell(), &mut self.holds, self.follower.member());
            let flavors = flavors_to_reserve(&view, found);
            let chosen = found.with_flavors(&flavors);
            let found = chosen.as_ref().unwrap_or(found);
            let obstacle = flavor_obstacle(view.cell(), found).or_else(|| no_reservation(&view, found));
            let why = obstacle.map(|obstacle| Explanation::of_obstacle(job, view.seen(), 0, obstacle));
            let planned = match &why {
                Some(why) => preempt_to_reserve(&view, found, &flavors, why),
                None => Some(reservation(&view, found, flavors)),
            };
            let planned = match (planned, why) {
                (Some(planned), _) => planned,
                (None, Some(why)) => {
                    self.park(now_ms, job, why);
                    continue;
                }
                (None, None) => continue,
            };
            let mut batches = Vec::new();
            self.board(now_ms, planned, &mut batches);
            batches.into_iter().for_each(|batch| self.launch(now_ms, batch, out));
        }
    }

    /// Whether `job` is ready and stands nowhere yet.
    pub(crate) fn is_second_pass(&self, job: JobId) -> bool {
        let found = self.follower.cell().jobs().get(job).filter(|found| found.admission.ready().is_some());
        found.is_some_and(|found| self.planner.need(self.follower.cell(), found) == Some(Need::Start))
    }

    /// A second pass found no room: it waits longer each time, and its quota stays reserved.
    pub(crate) fn postpone(&mut self, now_ms: u64, job: JobId, explanation: Explanation) {
        let failed = self.second_passes.entry(job).or_insert(0);
        *failed = failed.saturating_add(1);
        let due_ms = now_ms.saturating_add(wait_ms(*failed));
        if bug::is_planted(Bug::DropSecondPass) {
            return self.backlog.remove(job);
        }
        self.backlog.wait_for_change(job, due_ms, explanation);
    }

    /// A node came, or has more room than before: it may be the one that a second pass waits for.
    pub(crate) fn wake_second_passes(&mut self) {
        self.second_passes.keys().for_each(|job| self.backlog.wake(*job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_passes_wait_as_in_kueue() {
        let waits: Vec<u64> = (1..9).map(|failed| wait_ms(failed) / 1000).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(wait_ms(u32::MAX), 30_000);
    }
}
