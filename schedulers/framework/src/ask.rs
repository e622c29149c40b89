//! Why is this job not placed? The answer of any planner on any copy, without a scheduler around it.

use crate::admission::{admission_obstacle, need_now, reserved_next};
use crate::explain::Explanation;
use crate::moves::{plan_waiting, seek_places};
use crate::plan::{Decision, Plan};
use crate::planner::{Budget, Need, Planner, Work, WorkItem};
use crate::ticket::rank_of;
use crate::view::Board;
use ohm_cell::{Cell, Job, JobState, Overlay, budget_state, moves_now};
use ohm_model::{JobId, SessionId};
use ohm_stdx::Prng;

/// What a planner says about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The cell does not know it.
    Unknown,
    /// It is over, suspended, or everything it asked for stands.
    NeedsNothing {
        /// Which of these, as a sentence.
        why: String,
    },
    /// Room was found: its scheduler will come to it.
    Fits {
        /// For how many tasks.
        tasks: u64,
        /// How many runs would have to stop for it.
        victims: usize,
    },
    /// Room was found for tasks that have to leave their nodes: its scheduler will move them.
    Moves {
        /// How many tasks.
        tasks: u64,
    },
    /// It stands whole; so many spares are missing, and why, if no room was found for them.
    LacksSpares {
        /// How many.
        missing: u32,
        /// Why not more are held.
        why: Option<Box<Explanation>>,
    },
    /// No room was found.
    Waits(Box<Explanation>),
}

/// Plans `job` on `cell` as its scheduler would, and says what came out. Nothing is changed but the planner's own
/// tables, which are made anew.
pub fn explain_job<P: Planner>(cell: &Cell, planner: &mut P, job: JobId) -> Answer {
    let Some(found) = cell.jobs().get(job) else { return Answer::Unknown };
    let waits = |obstacle| Answer::Waits(Box::new(Explanation::of_obstacle(job, cell.applied(), 0, obstacle)));
    if let Some(obstacle) = admission_obstacle(cell, found) {
        return waits(obstacle);
    }
    let Some(need) = planner.need(cell, found) else {
        return Answer::NeedsNothing { why: why_nothing(cell, found) };
    };
    let mut over = Overlay::default();
    let mut board = Board::new(cell, &mut over, SessionId(0));
    planner.reset(&board.view());
    let item = WorkItem { job, need, attempt: 0, nominated: cell.nominations().nominates(job), counted: true };
    let budget = Budget::UNBOUNDED;
    let of_job = |plan: Plan| plan.decisions.into_iter().find(|decision| decision.job() == job);
    let (need, decision) = match need {
        Need::Move => {
            let moved = seek_places(planner, &mut board, item, u64::MAX, &mut Prng::new(0)).decision;
            let mut waiting = None;
            if matches!(moved, Decision::Unplaced(_)) && found.pending() > 0 {
                planner.reset(&board.view());
                waiting = plan_waiting(planner, &mut board, item, budget, &mut Prng::new(0));
            }
            // Why something stays where it is, its node says.
            waiting.map_or((need, Some(moved)), |(waits, plan)| (waits, of_job(plan)))
        }
        Need::Repair | Need::Start | Need::Grow | Need::Spare => {
            (need, of_job(planner.plan(&mut board, &Work { jobs: vec![item], budget }, &mut Prng::new(0))))
        }
    };
    match decision {
        decision if need == Need::Spare => {
            let missing = (0..found.groups.len()).map(|group| found.spares_missing(group)).sum();
            let why = if let Some(Decision::Unplaced(why)) = decision { Some(why) } else { None };
            Answer::LacksSpares { missing, why }
        }
        Some(Decision::Planned(planned)) if need == Need::Move => Answer::Moves { tasks: planned.evict.len() as u64 },
        Some(Decision::Planned(planned)) if planned.reserve => waits(reserved_next()),
        Some(Decision::Planned(planned)) => {
            let tasks = planned.place.iter().map(|row| u64::from(row.count)).sum();
            Answer::Fits { tasks, victims: planned.evict.len() }
        }
        Some(Decision::Unplaced(explanation)) => Answer::Waits(explanation),
        Some(Decision::Nothing(_)) | None => {
            let why =
                format!("the {} scheduler finds nothing to do for job {}.", planner.class().name(), found.spec.name);
            Answer::NeedsNothing { why }
        }
    }
}

/// Why a job needs no planner now, as a sentence.
fn why_nothing(cell: &Cell, found: &Job) -> String {
    match found.state {
        JobState::Finished(_) => format!("job {} is {}.", found.spec.name, found.phase()),
        JobState::Suspended => format!("job {} is suspended; resume it to have it placed.", found.spec.name),
        JobState::Active if found.groups.iter().any(|group| group.backing_off > 0) => {
            let waiting: u32 = found.groups.iter().map(|group| group.backing_off).sum();
            format!("{waiting} tasks of job {} failed and wait for their back-off.", found.spec.name)
        }
        JobState::Active if found.awaits_ends() => {
            let stopping: u32 = found.groups.iter().map(ohm_cell::Group::driven_out).sum();
            let tasks = if stopping == 1 { "1 task".to_string() } else { format!("{stopping} tasks") };
            format!(
                "{tasks} of job {} that a node drives away still stop; then all that it lost is repaired at once.",
                found.spec.name
            )
        }
        JobState::Active if found.pending() > 0 => {
            format!("job {} waits for its former runs to stop.", found.spec.name)
        }
        JobState::Active => {
            let nothing = || format!("job {} has no task that waits to be placed.", found.spec.name);
            held_by_budget(cell, found).unwrap_or_else(nothing)
        }
    }
}

/// Which disruption budget keeps a job on nodes that it has to leave, as a sentence; nothing where none does.
pub fn held_by_budget(cell: &Cell, job: &Job) -> Option<String> {
    let budget = budget_state(cell, moves_now(cell, job).1?)?;
    let (name, healthy, desired) = (&budget.name, budget.healthy, budget.desired());
    let job = &job.spec.name;
    Some(format!(
        "{job} has to leave nodes and stays until budget {name} lets it: {healthy} of its tasks are healthy, and \
         {desired} have to be."
    ))
}

/// How many jobs that need a place go before `job`: those of its queue that rank before it, and repairs of its shard,
/// which go before every queue. Nothing when the job needs no place itself. What its queue must leave to other queues
/// for their share is not counted: that depends on what they do.
pub fn jobs_ahead<P: Planner>(cell: &Cell, planner: &P, job: JobId) -> Option<u64> {
    let found = cell.jobs().get(job)?;
    let rank = rank_of(found, need_now(cell, planner, found).filter(|need| *need != Need::Spare)?);
    let goes_first = |other: &Job| {
        let is_near = other.spec.queue == found.spec.queue || other.shard == found.shard;
        if other.spec.class != found.spec.class || !is_near {
            return false;
        }
        need_now(cell, planner, other)
            .map(|need| rank_of(other, need))
            .is_some_and(|first| first < rank && (first.is_urgent() || other.spec.queue == found.spec.queue))
    };
    Some(cell.jobs().iter().filter(|other| goes_first(other)).count() as u64)
}
