//! Planners that err: what they propose may be stale, wrong or greedy. Whatever a scheduler proposes, the log must take
//! only what is right; so a drawn share of plans is spoilt before it is sent. Once the cell is healed, nobody errs.

use ohm_framework::{Decision, Plan, PlannedJob, View};
use ohm_model::{
    ClassId, Grain, GroupIndex, Guard, Index, JobId, NodeId, Nomination, PreemptionNeed, PreemptionReason, Purpose,
    RunRef, StopCause, TaskIndex, Victim,
};
use ohm_stdx::Prng;
use std::cell::Cell;
use std::rc::Rc;

/// How many of 1000 plans are spoilt; shared with the world, which sets it to 0 when it heals.
pub(crate) type Mischief = Rc<Cell<u64>>;

/// How long spoilt plans keep room for a job, in stamped milliseconds.
const NOMINATION_MS: u64 = 4_000;

/// Spoils some decisions of `plan`.
pub(crate) fn spoil(plan: &mut Plan, view: &View<'_>, permille: u64, dice: &mut Prng) {
    for decision in &mut plan.decisions {
        if let Decision::Planned(planned) = decision
            && dice.chance(permille)
        {
            spoil_job(planned, view, dice);
        }
    }
}

fn spoil_job(planned: &mut PlannedJob, view: &View<'_>, dice: &mut Prng) {
    match dice.below(23) {
        0 | 1 => planned.guard = Guard::Unchanged,
        2 => {
            planned.guard = Guard::Unchanged;
            planned.grain = Grain::AllOrNothing;
        }
        3..=6 => scatter(planned, view, dice),
        7 => {
            scatter(planned, view, dice);
            planned.grain = Grain::AllOrNothing;
        }
        8 => planned.place.truncate(planned.place.len() / 2),
        9 => planned.job.reserved = true,
        10 => planned.job.version = Index(planned.job.version.0.saturating_sub(1)),
        11 => {
            if let Some(row) = planned.place.first_mut() {
                row.class = ClassId(row.class.0 + 1);
            }
        }
        12 => lengthen(planned),
        // The same tasks twice in one transaction.
        19 => planned.place.extend(planned.place.first().cloned()),
        16..=18 => split(planned, view, dice),
        20 | 21 => heap(planned),
        22 => give_up(planned, view, dice),
        13 => planned.reserve = reservable(view, planned.job.job),
        14 => nominate(planned, view, dice),
        _ => preempt(planned, view, dice),
    }
}

fn any_node(view: &View<'_>, dice: &mut Prng) -> Option<NodeId> {
    let nodes: Vec<NodeId> = view.cell().nodes().iter().map(|(node, _)| node).take(64).collect();
    dice.pick(&nodes).copied()
}

/// Sends rows to nodes that nobody looked at.
fn scatter(planned: &mut PlannedJob, view: &View<'_>, dice: &mut Prng) {
    for row in &mut planned.place {
        if let Some(node) = any_node(view, dice)
            && dice.chance(700)
        {
            (row.node, row.class) = (node, view.cell().nodes().class(node));
        }
    }
}

/// Sends everything to the node of the first row.
fn heap(planned: &mut PlannedJob) {
    let Some((node, class)) = planned.place.first().map(|row| (row.node, row.class)) else { return };
    planned.place.iter_mut().for_each(|row| (row.node, row.class) = (node, class));
}

/// Sends the second half of a row somewhere else.
fn split(planned: &mut PlannedJob, view: &View<'_>, dice: &mut Prng) {
    let Some(at) = planned.place.iter().position(|row| row.count > 1 && row.devices.is_empty()) else {
        return scatter(planned, view, dice);
    };
    let Some(node) = any_node(view, dice) else { return };
    let mut rest = planned.place[at].clone();
    let half = rest.count / 2;
    planned.place[at].count -= half;
    (rest.first, rest.count) = (TaskIndex(rest.first.0 + planned.place[at].count), half);
    (rest.node, rest.class) = (node, view.cell().nodes().class(node));
    planned.place.insert(at + 1, rest);
}

/// Asks for a task more than there is to place.
fn lengthen(planned: &mut PlannedJob) {
    if let Some(row) = planned.place.last_mut()
        && row.devices.is_empty()
    {
        row.count += 1;
    } else if let Some(row) = planned.place.last_mut() {
        row.first = TaskIndex(row.first.0.saturating_add(1));
    }
}

fn reservable(view: &View<'_>, job: JobId) -> bool {
    view.cell().jobs().get(job).is_some_and(|found| !found.spec.queue.is_empty() && found.reserved.is_empty())
}

/// Keeps room for the job instead of placing it.
fn nominate(planned: &mut PlannedJob, view: &View<'_>, dice: &mut Prng) {
    let Some(node) = any_node(view, dice) else { return };
    let purpose = Purpose::Preemptor { expires_ms: view.now_ms() + NOMINATION_MS };
    planned.nominate.push(Nomination {
        job: planned.job.job,
        group: GroupIndex(0),
        node,
        first: TaskIndex(0),
        count: 1,
        purpose,
    });
    planned.place.clear();
}

/// Gives the job up, whatever its state.
fn give_up(planned: &mut PlannedJob, view: &View<'_>, dice: &mut Prng) {
    let Some(job) = view.cell().jobs().get(planned.job.job) else { return };
    let tasks = job.groups.iter().flat_map(|group| group.tasks.iter());
    let runs: Vec<RunRef> = tasks.filter_map(|task| view.cell().runs().get(task.run)).map(|run| run.run).collect();
    if let Some(run) = dice.pick(&runs) {
        planned.evict.push((*run, StopCause::RepairFailed));
        planned.place.clear();
    }
}

/// Stops somebody for room, with a right and a need or without.
fn preempt(planned: &mut PlannedJob, view: &View<'_>, dice: &mut Prng) {
    let Some(node) = any_node(view, dice) else { return };
    let own = planned.job.job;
    let runs: Vec<RunRef> = view
        .cell()
        .runs()
        .on_node(view.cell().nodes(), node)
        .map(|(_, run)| run.run)
        .filter(|run| run.task.job != own)
        .collect();
    if let Some(run) = dice.pick(&runs) {
        let runs = if dice.chance(500) { vec![*run] } else { Vec::new() };
        let (need, reason) = (PreemptionNeed::Room, PreemptionReason::LowerPriority);
        nominate(planned, view, dice);
        planned.nominate.iter_mut().for_each(|room| room.node = node);
        planned.preempt.push(Victim { job: run.task.job, need, reason, runs });
        planned.grain = Grain::AllOrNothing;
    }
}
