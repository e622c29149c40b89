//! A job that lacks quota or room stops others that have it, where the rules let it and it will then find room.
//!
//! A planner is shown the cell as if the victims had ended. Its rows become rooms that are kept for the job, in the
//! same transaction that tells the victims to stop: whom it stops for nothing, it does not stop. Who may be stopped for
//! quota is in `victims.rs`, for how many tasks in `preempt_quota.rs`; who for room is in `preempt_room.rs`.

use crate::as_if::rooms_for;
use crate::explain::{Explanation, Obstacle};
use crate::flavors::{choices, may_choose};
use crate::plan::PlannedJob;
use crate::planner::{Need, Planner, WorkItem};
use crate::preempt_quota::{QuotaSearch, Tasks};
use crate::preempt_room::{seek, seeks_room};
use crate::scheduler::SchedulerCore;
use crate::victims::live::LiveJobs;
use crate::victims::victims;
use crate::view::{Board, View};
use ohm_cell::{Cell, Job, Standing, WhatIf, broken_by, kept_until_ms, preemptions, standing_as_is};
use ohm_model::{FlavorChoice, Grain, JobId, NodeId, Purpose, QueuePreemption, Victim};
use ohm_stdx::Prng;
use std::borrow::Cow;

/// What a preemption would be: the plan, and the nodes that the planner has to read anew.
#[derive(Debug, Default)]
pub struct Preempting {
    /// The plan, if others may be stopped and the job finds room then.
    pub planned: Option<PlannedJob>,
    /// The nodes; may repeat.
    pub nodes: Vec<NodeId>,
    /// How many pieces were looked at that might have been stopped for room.
    pub pieces: usize,
}

/// The plan that stops others for a job that waits for quota or room, if there is one.
pub(crate) fn preempt<P: Planner>(
    core: &mut SchedulerCore<P>,
    item: WorkItem,
    why: &Explanation,
) -> Option<PlannedJob> {
    let cell = core.follower.cell();
    if !seeks_victims(cell, item, why) {
        return None;
    }
    if lacks_room(why) {
        core.live.bring_up(cell);
    }
    let mut board = core.holds.board(cell, core.follower.member().session().unwrap_or_default());
    let found = plan_preemption(&mut core.planner, &mut board, item, (why, &mut core.live), &mut core.dice);
    // What was shown as ended is not.
    core.planner.changed(&board.view(), &found.nodes, &[]);
    core.changes.nodes.extend(found.nodes);
    core.pieces_sought += found.pieces;
    found.planned
}

/// The plan that stops others for `job`, of which quota is to be reserved and is lacking, with these flavors.
pub(crate) fn preempt_to_reserve(
    view: &View<'_>,
    job: &Job,
    flavors: &[FlavorChoice],
    why: &Explanation,
) -> Option<PlannedJob> {
    if !lacks_quota(why) || !may_preempt_for_quota(view.cell(), job.id) {
        return None;
    }
    let victims = victims(view.what(), job, &[]);
    let planned = PlannedJob::placing(view.guard(job), Grain::AllOrNothing, Vec::new());
    let (rest, (breaks, _)) = (Some(Box::new(why.clone())), broken_by(view.what(), &victims));
    (!victims.is_empty()).then(|| PlannedJob { flavors: flavors.to_vec(), preempt: victims, breaks, rest, ..planned })
}

/// Whether the job lacks what others have, and may stop them for it.
pub(crate) fn seeks_victims(cell: &Cell, item: WorkItem, why: &Explanation) -> bool {
    match lacks_room(why) {
        true => may_preempt_for_room(cell, item),
        false => lacks_quota(why) && item.need == Need::Start && may_preempt_for_quota(cell, item.job),
    }
}

fn lacks_quota(why: &Explanation) -> bool {
    matches!(why.obstacle, Obstacle::Quota { .. })
}

pub(crate) fn lacks_room(why: &Explanation) -> bool {
    matches!(why.obstacle, Obstacle::Room | Obstacle::Domain { .. })
}

/// Whether nobody stops for the job yet, and it does not wait because others did so in vain.
fn may_stop_others(cell: &Cell, id: JobId) -> bool {
    preemptions(cell).get(id).is_none() && !preemptions(cell).backs_off(id, cell.now_ms())
}

/// Whether the queue of a job lets it stop others, and none stop for it yet.
fn may_preempt_for_quota(cell: &Cell, id: JobId) -> bool {
    let queue = cell.jobs().get(id).and_then(|job| cell.quota().get(&job.spec.queue));
    let policy = queue.map(|queue| queue.spec.preemption).unwrap_or_default();
    policy != QueuePreemption::default() && may_stop_others(cell, id)
}

/// Whether a job lets others be stopped for room, and none stop for it yet.
pub(crate) fn may_preempt_for_room(cell: &Cell, item: WorkItem) -> bool {
    let job = cell.jobs().get(item.job).filter(|job| seeks_room(job, item.need));
    job.is_some() && may_stop_others(cell, item.job)
}

/// The plan that stops others for the job of `item`, which waits for quota or room as `why` says; `live` are the jobs
/// that stand.
pub fn plan_preemption<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    item: WorkItem,
    (why, live): (&Explanation, &mut LiveJobs),
    dice: &mut Prng,
) -> Preempting {
    let cell = board.cell();
    let Some(job) = cell.jobs().get(item.job).map(AsRef::as_ref) else { return Preempting::default() };
    match lacks_room(why) {
        _ if !seeks_victims(cell, item, why) => Preempting::default(),
        true => for_room(planner, board, (item, job), (why, live), dice),
        false => for_quota(planner, board, (item, job), why, dice),
    }
}

fn for_quota<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    (item, job): (WorkItem, &Job),
    why: &Explanation,
    dice: &mut Prng,
) -> Preempting {
    let (cell, ways) = (board.cell(), ways(board, job));
    let chosen: Vec<Cow<'_, Job>> = ways.iter().map(|flavors| chosen(job, flavors)).collect();
    let mut search = QuotaSearch::new((planner, board), (item, dice));
    let tries = [Tasks::All, Tasks::AsManyAsMay].into_iter();
    let mut tries = tries.flat_map(|tasks| ways.iter().zip(&chosen).map(move |(flavors, job)| (tasks, flavors, job)));
    let planned = tries.find_map(|(tasks, flavors, job)| match standing_as_is(cell, job) {
        // What has checks to pass gets its quota first, and its place once they are ready.
        Standing::Unreserved if tasks == Tasks::All => preempt_to_reserve(&search.board.view(), job, flavors, why),
        standing if standing.may_place() => {
            let (placed, victims) = search.seek(job, tasks)?;
            Some(into_rooms(search.board.view().what(), placed, flavors.clone(), victims, why))
        }
        _ => None,
    });
    Preempting { planned, nodes: search.over(), pieces: 0 }
}

fn chosen<'j>(job: &'j Job, flavors: &[FlavorChoice]) -> Cow<'j, Job> {
    job.with_flavors(flavors).map_or(Cow::Borrowed(job), Cow::Owned)
}

fn for_room<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    (item, job): (WorkItem, &Job),
    (why, live): (&Explanation, &mut LiveJobs),
    dice: &mut Prng,
) -> Preempting {
    let (cell, mut sought) = (board.cell(), Preempting::default());
    for flavors in ways(board, job) {
        let job = &*chosen(job, &flavors);
        if !standing_as_is(cell, job).may_place() {
            continue;
        }
        // What was shown as ended for another way is not.
        planner.changed(&board.view(), &sought.nodes, &[]);
        let found = seek(planner, &mut board.with_job(job), (item, job), live, dice);
        sought.nodes.extend(found.nodes);
        sought.pieces += found.pieces;
        if let Some((placed, victims)) = found.planned {
            sought.planned = Some(into_rooms(board.view().what(), placed, flavors, victims, why));
            break;
        }
    }
    sought
}

/// The ways to take flavors that are looked at, the preferred one first.
fn ways(board: &Board<'_>, job: &Job) -> Vec<Vec<FlavorChoice>> {
    match may_choose(job) {
        true => choices(&board.view(), job, true).into_iter().map(|choice| choice.flavors).collect(),
        false => vec![Vec::new()],
    }
}

/// The rows of a plan as rooms for after the victims, with the victims.
fn into_rooms(
    what: WhatIf<'_>,
    planned: PlannedJob,
    flavors: Vec<FlavorChoice>,
    victims: Vec<Victim>,
    why: &Explanation,
) -> PlannedJob {
    let nominate = rooms_for(&planned, Purpose::Preemptor { expires_ms: kept_until_ms(what.cell, &victims) });
    let (breaks, _) = broken_by(what, &victims);
    let flavors = if planned.flavors.is_empty() { flavors } else { planned.flavors.clone() };
    PlannedJob {
        grain: Grain::AllOrNothing,
        flavors,
        place: Vec::new(),
        evict: Vec::new(),
        nominate,
        preempt: victims,
        breaks,
        rest: Some(Box::new(why.clone())),
        ..planned
    }
}
