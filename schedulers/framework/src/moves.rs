//! Finding places for tasks that have to leave their nodes, and asking for them: reserve first, then move.
//!
//! A planner is shown the job as if those tasks had been lost, so whatever it knows of domains, slices and limits holds
//! for a move as it does for a repair. Its rows become rooms, and the runs they stand for are told to stop, in one
//! transaction that is all or nothing.

use crate::explain::{Explanation, Obstacle};
use crate::plan::{Decision, Plan, PlannedJob};
use crate::planner::{Budget, Need, Planner, Work, WorkItem, need_of_waiting};
use crate::view::Board;
use ohm_cell::{Cell, Job, runs_to_move};
use ohm_model::{Grain, NodeId, Nomination, Placement, Purpose, RunRef, StopCause};
use ohm_stdx::Prng;
use ohm_stdx::bug::{self, Bug};
use std::collections::{BTreeMap, BTreeSet};

/// What a planner found for a job that has to leave nodes.
pub(crate) struct Sought {
    pub(crate) decision: Decision,
    pub(crate) examined: u64,
    /// Nodes that the planner counts as taken.
    pub(crate) nodes: Vec<NodeId>,
}

/// Seeks places for what `item`'s job has to move. It moves as one set; where there is no room for that, one of its
/// nodes is left first.
pub(crate) fn seek_places<P: Planner + ?Sized>(
    planner: &mut P,
    board: &mut Board<'_>,
    item: WorkItem,
    nodes_budget: u64,
    dice: &mut Prng,
) -> Sought {
    let cell = board.cell();
    let mut sought = Sought { decision: Decision::Nothing(item.job), examined: 0, nodes: Vec::new() };
    let Some(job) = cell.jobs().get(item.job) else { return sought };
    let whole = runs_to_move(cell, job);
    let mut sets = vec![whole.clone()];
    sets.extend(by_node(cell, job, &whole));
    let mut why = None;
    for set in sets.into_iter().filter(|set| !set.is_empty()) {
        let before = board.over().savepoint();
        let as_if = board.over().leave(cell, job, &set);
        let budget = Budget { nodes: nodes_budget, rows: usize::MAX };
        let plan = planner.plan(&mut board.with_job(&as_if), &Work { jobs: vec![item], budget }, dice);
        board.over().roll_back(cell, before);
        sought.examined += plan.examined;
        match plan.decisions.into_iter().find(|decision| decision.job() == item.job) {
            Some(Decision::Planned(planned)) => {
                sought.nodes.extend(planned.place.iter().map(|row| row.node));
                if tears(&planned, job, &as_if, set.len()) {
                    let of = set.len() as u32;
                    let room = || Box::new(Explanation::of_obstacle(item.job, cell.applied(), of, Obstacle::Room));
                    why = why.or_else(|| Some(planned.rest.unwrap_or_else(room)));
                    continue;
                }
                sought.decision = Decision::Planned(Box::new(into_move(*planned, &set)));
                return sought;
            }
            // Of the whole set, if nothing else can be done: that is what people want to know.
            Some(Decision::Unplaced(explanation)) if why.is_none() => why = Some(explanation),
            _ => {}
        }
    }
    if let Some(why) = why {
        sought.decision = Decision::Unplaced(why);
    }
    sought
}

/// Plans what waits of `item`'s job, or its spares: what can't leave its node keeps nothing else of its job from being
/// placed. Nothing if nothing of it waits.
pub(crate) fn plan_waiting<P: Planner + ?Sized>(
    planner: &mut P,
    board: &mut Board<'_>,
    item: WorkItem,
    budget: Budget,
    dice: &mut Prng,
) -> Option<(Need, Plan)> {
    let need = need_of_waiting(board.cell(), board.cell().jobs().get(item.job)?)?;
    let work = Work { jobs: vec![WorkItem { need, ..item }], budget };
    Some((need, planner.plan(board, &work, dice)))
}

/// Whether the plan leaves some of the set behind, of a job that may go to another domain with everything alone.
fn tears(planned: &PlannedJob, job: &Job, as_if: &Job, set: usize) -> bool {
    let places: u32 = planned.place.iter().map(|row| row.count).sum();
    let frees =
        job.groups.iter().zip(&as_if.groups).any(|(group, left)| group.domain.is_some() && left.domain.is_none());
    frees && (places as usize) < set
}

/// What a scheduler would ask for so that `item`'s job leaves its nodes, for whoever has no scheduler around; with the
/// nodes that the planner counts as taken by it.
pub fn plan_move<P: Planner + ?Sized>(
    planner: &mut P,
    board: &mut Board<'_>,
    item: WorkItem,
    dice: &mut Prng,
) -> (Decision, Vec<NodeId>) {
    let sought = seek_places(planner, board, item, Budget::UNBOUNDED.nodes, dice);
    (sought.decision, sought.nodes)
}

/// What has to leave each node by itself, if that is more than one.
fn by_node(cell: &Cell, job: &Job, runs: &[RunRef]) -> Vec<Vec<RunRef>> {
    let mut sets: BTreeMap<NodeId, Vec<RunRef>> = BTreeMap::new();
    for run in runs {
        let task = &job.groups[usize::from(run.task.group.0)].tasks[run.task.task.0 as usize];
        let node = cell.runs().get(task.run).map_or(task.node, |run| run.node);
        sets.entry(node).or_default().push(*run);
    }
    if sets.len() > 1 { sets.into_values().collect() } else { Vec::new() }
}

/// Turns the places that were found for `runs` into rooms.
fn into_move(planned: PlannedJob, runs: &[RunRef]) -> PlannedJob {
    let leaving: BTreeSet<RunRef> = runs.iter().copied().collect();
    let placed = |run: &&RunRef| {
        planned.place.iter().any(|row| {
            let tasks = row.first.0..row.first.0 + row.count;
            row.group == run.task.group && tasks.contains(&run.task.task.0)
        })
    };
    let evict: Vec<(RunRef, StopCause)> = leaving.iter().filter(placed).map(|run| (*run, StopCause::Drained)).collect();
    let purpose = Purpose::Move;
    let room = |row: &Placement| {
        let Placement { job, group, node, first, count, .. } = *row;
        Nomination { job, group, node, first, count, purpose }
    };
    let unawaited = bug::is_planted(Bug::MoveUnawaited);
    let nominate = planned.place.iter().filter(|_| !unawaited).map(room).collect();
    PlannedJob { grain: Grain::AllOrNothing, place: Vec::new(), evict, nominate, ..planned }
}
