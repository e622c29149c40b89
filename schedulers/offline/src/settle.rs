//! Planning one job until nothing more can be done for it, and what that came to.

use crate::answer::NodeVerdict;
use crate::world::World;
use ohm_cell::{Cell, Disruptions, Job, QuotaIf, preemptions};
use ohm_framework::{Decision, ExpectedStart, Explanation, Need, Obstacle, PlannedJob, admission_obstacle, need_of};
use ohm_model::{Conflict, JobId, QueuePreemption, RunRef, Victim};
use std::collections::BTreeSet;

/// A job is planned at most so often, and twice for each of its tasks: every time something of it is placed, makes room
/// for it, or leaves a drained node, of a service one after the other.
const ROUNDS_MAX: usize = 256;

/// What planning one job ended with.
#[derive(Default)]
pub(crate) struct Settled {
    /// Why not more of it stands.
    pub(crate) explanation: Option<Explanation>,
    /// What the log refused, when it refused a plan.
    pub(crate) conflict: Option<Conflict>,
    /// Jobs that made room.
    pub(crate) victims: Vec<JobId>,
    /// Jobs that are told to stop for the quota that they have.
    pub(crate) preempts: Vec<Victim>,
    /// Those of them by whose end disruption budgets are broken.
    pub(crate) breaking: BTreeSet<JobId>,
    /// Whether what stops for others leaves enough for it, too: then it stops nobody.
    pub(crate) awaits_victims: bool,
    /// Whether it is looked at again only once something changes.
    pub(crate) is_parked: bool,
    /// By when it would find room if nothing else came before it, where it finds none now and that is known.
    pub(crate) expected: Option<ExpectedStart>,
    /// What every node said to each group before the job was planned, if that was asked.
    pub(crate) verdicts: Vec<Vec<NodeVerdict>>,
}

/// When runs end that are told to stop for another job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Before the next plan.
    AtOnce,
    /// With the pass, where others are stopped for their quota.
    WithThePass,
}

/// Plans a job until nothing more can be done for it.
pub(crate) fn settle(world: &mut World, job: JobId, ending: Ending) -> Settled {
    let mut settled = Settled::default();
    let moves = |found: &Job| need_of(&world.cell, found) == Some(Need::Move);
    let waits = |found: &Job| admission_obstacle(&world.cell, found).filter(|_| !moves(found));
    if let Some(obstacle) = world.job(job).and_then(waits) {
        settled.explanation = Some(Explanation::of_obstacle(job, world.cell.applied(), 0, obstacle));
        return settled;
    }
    let tasks = world.job(job).map_or(0, |job| job.groups.iter().map(|group| group.tasks.len()).sum());
    for _ in 0..ROUNDS_MAX + 2 * tasks {
        let need = world.job(job).and_then(|found| need_of(&world.cell, found));
        let planned = match world.plan(job) {
            Some(Decision::Planned(planned)) => planned,
            Some(Decision::Unplaced(_)) if need == Some(Need::Spare) => break,
            Some(Decision::Unplaced(explanation)) => {
                settled.explanation = Some(*explanation);
                break;
            }
            Some(Decision::Nothing(_)) | None => break,
        };
        let live = live_of(world, job);
        settled.explanation = planned.rest.as_deref().cloned();
        let breaking = breaking(&world.cell, &planned.preempt);
        let verdict = world.commit(&planned);
        if !planned.preempt.is_empty() {
            settled.conflict = verdict.and_then(|verdict| verdict.conflicts.first().copied());
            if settled.conflict.is_none() {
                (settled.preempts, settled.breaking) = (planned.preempt, breaking);
            }
            break;
        }
        let victims = world.end_stopping(|run| ending == Ending::AtOnce || is_for(job, &planned, run));
        world.start_replaced(job);
        let moved = live_of(world, job) != live || !victims.is_empty();
        settled.victims.extend(victims.into_iter().filter(|victim| *victim != job));
        if !moved {
            settled.conflict = verdict.and_then(|verdict| verdict.conflicts.first().copied());
            break;
        }
    }
    settled
}

/// Those of the victims by whose end disruption budgets are broken.
fn breaking(cell: &Cell, victims: &[Victim]) -> BTreeSet<JobId> {
    let mut disruptions = Disruptions::default();
    let breaks = |victim: &&Victim| !disruptions.stop_victim(cell, victim).is_empty();
    victims.iter().filter(breaks).map(|victim| victim.job).collect()
}

/// Whether the job waits for room, and for nobody who stops.
pub(crate) fn waits_for_room(settled: &Settled) -> bool {
    let lacks_room = |why: &Explanation| matches!(why.obstacle, Obstacle::Room | Obstacle::Domain { .. });
    settled.preempts.is_empty() && settled.explanation.as_ref().is_some_and(lacks_room)
}

/// Takes note of whether `job`, which was not placed, waits for those who stop for others; `promised` are those who do.
pub(crate) fn note_promise(world: &World, job: JobId, settled: &mut Settled, promised: &mut Vec<JobId>) {
    let lacks_quota = |why: &Explanation| matches!(why.obstacle, Obstacle::Quota { .. });
    if settled.preempts.is_empty() && settled.explanation.as_ref().is_some_and(lacks_quota) {
        let found = world.job(job);
        settled.awaits_victims = found.is_some_and(|found| awaits_victims(&world.cell, found, promised));
        promised.extend(settled.awaits_victims.then_some(job));
    }
}

/// Whether a run stops because of the plan for `job`, and not for anybody's quota.
fn is_for(job: JobId, planned: &PlannedJob, run: RunRef) -> bool {
    run.task.job == job || planned.evict.iter().any(|(evicted, _)| *evicted == run)
}

fn live_of(world: &World, job: JobId) -> u32 {
    world.job(job).map_or(0, Job::live)
}

/// Whether `job` may stop others and need not: the quota has what it asks for once all have ended that stop for others,
/// and those others stand, and `before`, of whom the same is so.
fn awaits_victims(cell: &Cell, job: &Job, before: &[JobId]) -> bool {
    let Some(queue) = cell.quota().find(&job.spec.queue) else { return false };
    let policy = cell.quota().get(&job.spec.queue).map(|queue| queue.spec.preemption).unwrap_or_default();
    if preemptions(cell).iter().next().is_none() || policy == QueuePreemption::default() {
        return false;
    }
    let mut tree = QuotaIf::promised(cell, job);
    for before in before.iter().filter_map(|before| cell.jobs().get(*before)) {
        if let Some(queue) = cell.quota().find(&before.spec.queue) {
            tree.charge(queue, &tree.asked(before), 1);
        }
    }
    tree.asked(job).into_iter().all(|(column, amount)| tree.available(queue, column).is_none_or(|left| left >= amount))
}
