//! Room in time for the head of a line: where it will stand once enough of what runs has ended.
//!
//! A planner is shown the cell as if runs had ended, those that end soonest first, and as few as are needed: where it
//! then finds room, least is left to wait for. Its rows become rooms, which the log keeps from the job's line and from
//! all that is not more important, until the job stands. When the last of those runs ends the job is to start; what
//! surely ends before may run in its rooms meanwhile (backfill).
//!
//! A run of a job with a deadline (`activeDeadlineSeconds`) has ended by then. When another one ends is guessed: what
//! has run for a time is taken to run for as long again, and so is what its job allows to run for more than
//! [`AHEAD_MS`]. What is taken to run for more than that is not waited for, nor are services.

use crate::as_if::{AsIf, fewest, rooms_for};
use crate::explain::{Explanation, Obstacle};
use crate::plan::PlannedJob;
use crate::planner::{Need, Planner, WorkItem};
use crate::scheduler::SchedulerCore;
use crate::view::Board;
use ohm_cell::{Cell, HEAD_MS_MAX, NoHead, Run, STOPS_WITHIN_MS, may_head};
use ohm_model::{ClassKind, Grain, JobId, NodeId, Purpose};
use ohm_stdx::Prng;
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeSet;

/// No room is kept for a start that is further ahead.
const AHEAD_MS: u64 = 3_600_000;
/// Room is kept for so long after the job could have started.
const SLACK_MS: u64 = 600_000;
/// A head is planned anew where it may start earlier by more than this.
const SOONER_MS: u64 = 1_000;
/// A job for which no such room was found, or not granted, is looked at again after this.
const AGAIN_MS: u64 = 5_000;
/// So is one for which room is kept, whether it may start sooner.
const HEAD_AGAIN_MS: u64 = 10_000;

/// The plan that keeps room in time for a job that finds none now, if it may become the head of its line.
pub(crate) fn claim_head<P: Planner>(
    core: &mut SchedulerCore<P>,
    item: WorkItem,
    why: &Explanation,
) -> Option<PlannedJob> {
    let cell = core.follower.cell();
    let now_ms = cell.now_ms();
    // What is lost has claims, and what moves stands.
    let seeks_room = matches!(item.need, Need::Start | Need::Grow);
    let lacks_room = matches!(why.obstacle, Obstacle::Room | Obstacle::Domain { .. });
    if bug::is_planted(Bug::ForgetHeads) || !seeks_room || !lacks_room || core.heads.is_put_off(item.job, now_ms) {
        return None;
    }
    let job = cell.jobs().get(item.job)?;
    let is_passed = core.heads.is_passed(job);
    let (before_ms, again_ms) = match may_head(cell, job) {
        Ok(()) => (u64::MAX, AGAIN_MS),
        // Who is a head may start sooner than planned once others have ended before their time; a guess is no better.
        Err(NoHead::IsHead(start_ms)) => (start_ms.saturating_sub(SOONER_MS), HEAD_AGAIN_MS),
        Err(NoHead::Impatient(due_ms)) => {
            core.heads.put_off(item.job, due_ms);
            return None;
        }
        Err(NoHead::NothingWaits | NoHead::Behind(_)) => return None,
    };
    if !is_passed || before_ms <= now_ms {
        return None;
    }
    core.heads.put_off(item.job, now_ms.saturating_add(again_ms));
    // What other plans of this pass took stays taken: those rows are told to the planner as any others are.
    let mut board = core.holds.board(cell, core.follower.member().session().unwrap_or_default());
    let mut read_anew = BTreeSet::new();
    let ends = ends_ahead(cell, item.job, Horizon { sure: before_ms != u64::MAX, ahead_ms: AHEAD_MS });
    let found = seek_in_time(&mut core.planner, &mut board, (item, &ends), (&mut read_anew, &mut core.dice));
    let found = found.map(|(found, waited_for)| head_of(cell, found, waited_for));
    // The next one sought in this pass is shown what is so, and the next pass what this one takes beside.
    core.planner.changed(&board.view(), &read_anew.iter().copied().collect::<Vec<_>>(), &[]);
    core.changes.nodes.extend(read_anew);
    let (planned, _) = found.filter(|(_, start_ms)| *start_ms < before_ms)?;
    Some(PlannedJob { rest: Some(Box::new(why.clone())), ..planned })
}

/// A start that is known, unless something else comes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedStart {
    /// By when, in stamped time.
    pub start_ms: u64,
    /// The jobs of which something has to end before.
    pub waits_for: BTreeSet<JobId>,
}

/// By when a job that finds no room now would find some, as far as that is known: where jobs with a deadline have
/// ended, and what stops. The planner has to read the nodes that are returned anew.
pub fn expected_start<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    item: WorkItem,
    dice: &mut Prng,
) -> (Option<ExpectedStart>, BTreeSet<NodeId>) {
    let ends = ends_ahead(board.cell(), item.job, Horizon { sure: true, ahead_ms: u64::MAX });
    let mut read_anew = BTreeSet::new();
    let found = seek_in_time(planner, board, (item, &ends), (&mut read_anew, dice));
    let expected = found.map(|(_, waited_for)| ExpectedStart {
        start_ms: start_after(board.cell(), waited_for),
        waits_for: waited_for.iter().map(|end| end.run.run.task.job).collect(),
    });
    (expected, read_anew)
}

/// The plan of a job for the time when as many of these runs have ended as it needs, and those: one at least. The
/// planner has to read the nodes `read_anew` anew.
fn seek_in_time<'e, 'c, P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    (item, ends): (WorkItem, &'e [End<'c>]),
    (read_anew, dice): (&mut BTreeSet<NodeId>, &mut Prng),
) -> Option<(PlannedJob, &'e [End<'c>])> {
    let mut as_if = AsIf::without((planner, board), (item, dice), std::iter::empty());
    let found = fewest((0, ends.len()), 2, |count| as_if.plan_without(ends, count, |end| std::iter::once(end.run)));
    read_anew.extend(as_if.over());
    let (enough, found) = found?;
    Some((found, &ends[..enough]))
}

/// Rooms for when these have ended, and when that is, in stamped time.
fn head_of(cell: &Cell, found: PlannedJob, waited_for: &[End<'_>]) -> (PlannedJob, u64) {
    let (start_ms, is_guess) = (start_after(cell, waited_for), waited_for.iter().any(|end| end.is_guess));
    let until_ms = start_ms.saturating_add(SLACK_MS).min(cell.now_ms().saturating_add(HEAD_MS_MAX));
    (into_rooms(cell, found, Purpose::Head { start_ms, is_guess, until_ms }), start_ms)
}

/// When the last of these has ended, in stamped time.
fn start_after(cell: &Cell, waited_for: &[End<'_>]) -> u64 {
    waited_for.last().map_or(cell.now_ms(), |end| end.end_ms)
}

/// Which ends are looked at.
#[derive(Clone, Copy)]
struct Horizon {
    /// Only those of which it is known when.
    sure: bool,
    /// None that is further ahead.
    ahead_ms: u64,
}

/// When a run is taken to end.
struct End<'a> {
    /// In stamped time.
    end_ms: u64,
    /// Whether nothing says that it will have ended by then.
    is_guess: bool,
    run: &'a Run,
}

/// The runs of others that are taken to end, the next one first.
fn ends_ahead(cell: &Cell, job: JobId, horizon: Horizon) -> Vec<End<'_>> {
    let last_ms = cell.now_ms().saturating_add(horizon.ahead_ms);
    let Some(waiting) = cell.jobs().get(job) else { return Vec::new() };
    let admits = |node: NodeId| {
        let mut shapes = waiting.groups.iter().flat_map(|group| group.offers());
        cell.nodes().is_schedulable(node) && shapes.any(|shape| cell.admits(*shape, node))
    };
    let runs = cell.runs().iter().map(|(_, run)| run).filter(|run| run.run.task.job != job && admits(run.node));
    let mut ends: Vec<End<'_>> = runs.filter_map(|run| end_of(cell, run, last_ms)).collect();
    ends.retain(|end| !(horizon.sure && end.is_guess) && end.end_ms <= last_ms);
    ends.sort_by_key(|end| (end.end_ms, end.run.run));
    ends
}

/// When a run is taken to end; nothing for services, which don't.
fn end_of<'a>(cell: &Cell, run: &'a Run, last_ms: u64) -> Option<End<'a>> {
    let (now_ms, job) = (cell.now_ms(), cell.jobs().get(run.run.task.job)?);
    if run.stop.is_some() {
        let stops_ms = job.content(usize::from(run.run.task.group.0), run.revision).task.stops_within_ms();
        let end_ms = now_ms.saturating_add(stops_ms).saturating_add(STOPS_WITHIN_MS);
        return Some(End { end_ms, is_guess: false, run });
    }
    let known_ms = job.ends_by_ms(now_ms).map(|end_ms| end_ms.max(now_ms));
    if let Some(end_ms) = known_ms.filter(|end_ms| *end_ms <= last_ms) {
        return Some(End { end_ms, is_guess: false, run });
    }
    let lasts = job.kind != ClassKind::Service;
    let end_ms = lasts.then(|| now_ms.saturating_mul(2).saturating_sub(run.placed_ms))?;
    Some(End { end_ms, is_guess: true, run })
}

/// The rows of a plan as rooms. Of a job that starts task by task, the next one is enough.
fn into_rooms(cell: &Cell, mut planned: PlannedJob, purpose: Purpose) -> PlannedJob {
    let whole = cell.jobs().get(planned.job.job).is_some_and(|job| job.starts_whole());
    if !whole {
        planned.place.truncate(1);
        planned.place.iter_mut().for_each(|row| row.count = 1);
    }
    let nominate = rooms_for(&planned, purpose);
    PlannedJob { grain: Grain::AllOrNothing, place: Vec::new(), evict: Vec::new(), nominate, ..planned }
}
