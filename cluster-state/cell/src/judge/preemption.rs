//! Judging a preemption: the job lacks what its victims have, each of them may be stopped for it, and none is stopped
//! for nothing. Here for quota; for room see `preemption_room.rs`.

use super::admission::judge_turn;
use crate::cell::Cell;
use crate::judge::admission::judge_not_held;
use crate::policy::preemptions::kept_until_ms;
use crate::rooms::checks::standing_as_is;
use crate::rooms::overlay::Overlay;
use crate::rooms::planned_rooms::PlannedRooms;
use crate::rooms::quota_if::QuotaIf;
use crate::rooms::what_if::WhatIf;
use crate::rules::disruption::Disruptions;
use crate::rules::preemption::{Preemptor, promised_victims};
use crate::state::admission::Standing;
use crate::state::jobs::Job;
use ohm_model::{ConflictReason, Grain, PreemptionNeed, Purpose, Transaction, Victim, need_of};
use std::collections::BTreeSet;

/// Whether a transaction that stops others does nothing else but keep room for its job, no longer than what they give
/// back is kept, and stops all of them for one need; for quota whole jobs only.
pub(super) fn is_pure(cell: &Cell, transaction: &Transaction) -> bool {
    let until_ms = kept_until_ms(cell, &transaction.preempt);
    let alone = transaction.jobs.len() == 1 && transaction.grain == Grain::AllOrNothing;
    let nothing = transaction.place.is_empty() && transaction.evict.is_empty() && transaction.reserve.is_empty();
    let is_kept_as_long = |purpose| matches!(purpose, Purpose::Preemptor { expires_ms } if expires_ms <= until_ms);
    let rooms = transaction.nominate.iter().all(|room| is_kept_as_long(room.purpose));
    let needs_quota = need_of(&transaction.preempt) == PreemptionNeed::Quota;
    let is_alike =
        |victim: &Victim| victim.need == need_of(&transaction.preempt) && (victim.is_whole() || !needs_quota);
    let alike = transaction.preempt.iter().all(is_alike);
    alone && nothing && rooms && alike && transaction.claim.is_empty()
}

/// Whether `job` may stop others by now: where they did so in vain it waits.
pub(super) fn judge_back_off(cell: &Cell, job: &Job) -> Result<(), (u32, ConflictReason)> {
    if cell.preemptions.backs_off(job.id, cell.now_ms) { Err((0, ConflictReason::LimitReached)) } else { Ok(()) }
}

/// Whether no more of the victims go beyond what disruption budgets allow than whoever planned it has seen.
pub(super) fn judge_budgets(cell: &Cell, transaction: &Transaction) -> Result<(), (u32, ConflictReason)> {
    let (mut disruptions, mut left) = (Disruptions::default(), transaction.breaks);
    for (row, victim) in (0u32..).zip(&transaction.preempt) {
        for budget in disruptions.stop_victim(cell, victim) {
            left = left.checked_sub(1).ok_or((row, ConflictReason::BudgetExceeded(budget)))?;
        }
    }
    Ok(())
}

/// Whether `job` needs the quota that its victims have, and may stop them: for as many tasks as it has rooms, where any
/// are planned, else for all that wait.
///
/// # Errors
/// The place of the first victim that may not be stopped for it, and why.
pub(super) fn judge(cell: &Cell, job: &Job, transaction: &Transaction) -> Result<(), (u32, ConflictReason)> {
    judge_not_held(cell, job).map_err(|reason| (0, reason))?;
    let waits_for_quota = matches!(standing_as_is(cell, job), Standing::Free | Standing::Unreserved);
    if !waits_for_quota || cell.preemptions.get(job.id).is_some() {
        return Err((0, ConflictReason::NoNeed));
    }
    judge_back_off(cell, job)?;
    judge_turn(cell, job, cell.quota.find(&job.spec.queue)).map_err(|reason| (0, reason))?;
    let as_is = WhatIf { cell, over: &Overlay::default() };
    let mut tree = QuotaIf::promised(cell, job);
    let rooms = PlannedRooms::named(job, transaction);
    if !transaction.nominate.is_empty() && !rooms.are_wanted() {
        return Err((0, ConflictReason::NoNeed));
    }
    let preemptor = Preemptor::of(cell, job, &tree, &rooms.counts()).ok_or((0, ConflictReason::NoNeed))?;
    let victims = &transaction.preempt;
    let (taken, mut named, mut stopped) = (promised_victims(as_is), BTreeSet::new(), Vec::new());
    for (row, victim) in (0u32..).zip(victims) {
        let found = cell.jobs.get(victim.job).filter(|_| !taken.contains(&victim.job) && named.insert(victim.job));
        stopped.push(found.ok_or((row, ConflictReason::NoNeed))?.as_ref());
    }
    let rights = preemptor.rights(&mut tree, &stopped).map_err(|row| (row as u32, ConflictReason::NoRight))?;
    if let Some(row) = (0u32..).zip(rights.iter().zip(victims)).find(|(_, (right, named))| **right != named.reason) {
        return Err((row.0, ConflictReason::NoRight));
    }
    if !preemptor.fits(&tree) {
        return Err((0, ConflictReason::NoNeed));
    }
    match preemptor.first_needless(&mut tree, &stopped) {
        Some(row) => Err((row as u32, ConflictReason::NoNeed)),
        None => judge_budgets(cell, transaction),
    }
}
