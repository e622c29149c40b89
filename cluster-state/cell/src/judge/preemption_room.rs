//! Judging a preemption for room: the job has its quota, the rooms that it names are not there unless its victims end,
//! each of them may be stopped for it, and none is stopped for nothing.

use super::admission::{judge_admitted, judge_not_held, judge_turn};
use super::preemption::{judge_back_off, judge_budgets};
use crate::cell::Cell;
use crate::rooms::overlay::Overlay;
use crate::rooms::planned_rooms::{PlannedRooms, end_stopping, runs_to_stop};
use crate::rooms::quota_if::QuotaIf;
use crate::rules::preemption::Refused;
use crate::rules::preemption::room::RoomPreemptor;
use crate::state::jobs::Job;
use crate::state::preemptions::Stopping;
use ohm_model::{ConflictReason, Transaction};
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeSet;

/// Whether `job` needs the room that its victims have, and may stop them.
///
/// # Errors
/// The place of the first victim that may not be stopped for it, and why.
pub(super) fn judge(
    cell: &Cell,
    over: &mut Overlay,
    job: &Job,
    transaction: &Transaction,
) -> Result<(), (u32, ConflictReason)> {
    let queue = cell.quota.find(&job.spec.queue);
    let may_start = judge_not_held(cell, job).and_then(|()| judge_admitted(cell, job, queue, false));
    may_start.and_then(|()| judge_turn(cell, job, queue)).map_err(|reason| (0, reason))?;
    let rooms = PlannedRooms::named(job, transaction);
    if cell.preemptions.get(job.id).is_some() || !rooms.are_wanted() {
        return Err((0, ConflictReason::NoNeed));
    }
    judge_back_off(cell, job)?;
    if !job.spec.preempts {
        return Err((0, ConflictReason::NoRight));
    }
    let tree = QuotaIf::promised(cell, job);
    let preemptor = RoomPreemptor::of(cell, job, &tree, &rooms.counts()).ok_or((0, ConflictReason::QuotaExceeded))?;
    let stopped = named(cell, transaction)?;
    let no_right = |refused: Refused| (refused.at as u32, ConflictReason::NoRight);
    let rights = preemptor.rights(&tree, &stopped).map_err(no_right)?;
    let named = transaction.preempt.iter().map(|victim| victim.reason);
    if let Some(row) = (0u32..).zip(rights.into_iter().zip(named)).find(|(_, (right, named))| right != named) {
        return Err((row.0, ConflictReason::NoRight));
    }
    let before = over.savepoint();
    let needed = judge_need(cell, over, &rooms, &stopped);
    over.roll_back(cell, before);
    needed.map_err(|row| (row, ConflictReason::NoNeed))?;
    judge_budgets(cell, transaction)
}

/// The victims, each of which is there, and named once; none of it stops for others already.
fn named<'a>(cell: &'a Cell, transaction: &'a Transaction) -> Result<Vec<Stopping<'a>>, (u32, ConflictReason)> {
    let (mut seen, mut stopped) = (BTreeSet::new(), Vec::new());
    for (row, victim) in (0u32..).zip(&transaction.preempt) {
        let found = cell.jobs.get(victim.job).filter(|_| seen.insert(victim.job));
        let stops = |job| match victim.is_whole() {
            true => cell.preemptions.stops(job),
            false => cell.preemptions.stops_whole(job),
        };
        let found = found.filter(|job| !stops(job.id));
        let job = found.ok_or((row, ConflictReason::NoNeed))?.as_ref();
        let victim = Stopping { job, runs: &victim.runs };
        let stops = runs_to_stop(cell, victim).count();
        if stops == 0 || (!victim.runs.is_empty() && stops < victim.runs.len()) {
            return Err((row, ConflictReason::NoNeed));
        }
        stopped.push(victim);
    }
    Ok(stopped)
}

/// Whether the rooms fit once these have ended, and would not if any of them stayed. What stops already counts as
/// ended.
fn judge_need(cell: &Cell, over: &mut Overlay, rooms: &PlannedRooms<'_>, stopped: &[Stopping<'_>]) -> Result<(), u32> {
    for node in rooms.nodes() {
        end_stopping(cell, over, node);
    }
    for run in stopped.iter().flat_map(|victim| runs_to_stop(cell, *victim)).filter(|run| rooms.has(run.node)) {
        over.end_run(cell, run);
    }
    if !rooms.fit(cell, over) {
        return Err(0);
    }
    let is_needless = |victim: &Stopping<'_>, over: &mut Overlay| match victim.runs {
        [] => rooms.fit_beside(cell, over, *victim),
        runs => runs.iter().any(|run| rooms.fit_beside(cell, over, victim.only(run))),
    };
    let needless = (0u32..).zip(stopped).find(|(_, victim)| is_needless(victim, over));
    match needless.filter(|_| !bug::is_planted(Bug::PreemptInVain)) {
        Some((row, _)) => Err(row),
        None => Ok(()),
    }
}
