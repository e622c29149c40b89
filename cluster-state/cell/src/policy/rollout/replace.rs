//! Which old tasks of a rollout stop, and which no longer wait to be what they were.

use super::look::{Look, OldRun, change, open};
use crate::apply::Tx;
use crate::apply::steps::aims::forget_failures;
use crate::apply::steps::runs::stop_run;
use crate::rules::disruption::Disruptions;
use crate::state::rollouts::Former;
use ohm_model::{JobId, StopCause};
use ohm_stdx::bug::{self, Bug};
use std::cmp::Reverse;

/// Stops old tasks of a group, as many as may be. Before it is promoted those beyond the count make room for canaries.
pub(super) fn replace_old(tx: &mut Tx<'_>, id: JobId, at: usize) {
    let look = Look::of(tx, id, at);
    if look.strategy.pause || !look.has_old() {
        return;
    }
    if look.is_recreated() && look.rollout.promoted {
        give_up(tx, (id, at), |_, _| true);
        return look.old.iter().for_each(|old| stop_run(tx, old.slot, StopCause::RolledOut));
    }
    let planted = u32::from(bug::is_planted(Bug::RolloutBelow));
    let (available, least) = (look.available(), look.available_min().saturating_sub(planted));
    let first = if look.rollout.promoted { 0 } else { look.declared_count() };
    let old: Vec<OldRun> = look.old.iter().copied().filter(|old| old.task >= first).collect();
    let mut unready: Vec<OldRun> = old.iter().copied().filter(|old| !old.is_available).collect();
    unready.sort_by_key(|old| Reverse(old.task));
    let there = available as usize + unready.len() + look.group().restore.len();
    let may_go = there.saturating_sub(least as usize);
    let may_go = if look.rollout.promoted { may_go - give_up_ended(tx, &look, may_go) } else { unready.len() };
    for old in unready.into_iter().take(may_go) {
        stop_if_allowed(tx, old.slot);
    }
    let mut ready: Vec<(bool, Reverse<u32>, u32)> = old
        .iter()
        .filter(|old| old.is_available)
        .filter_map(|old| {
            let run = tx.runs.get(old.slot)?;
            Some((tx.leave_cause(run.shape, run.node).is_none(), Reverse(old.task), old.slot))
        })
        .collect();
    ready.sort();
    let mut left = available.saturating_sub(least);
    for (.., slot) in ready {
        if left == 0 {
            break;
        }
        left -= u32::from(stop_if_allowed(tx, slot));
    }
}

/// Tasks that ended by themselves and wait to be what they were become what is asked for, as many as unready ones
/// might go. Returns how many.
fn give_up_ended(tx: &mut Tx<'_>, look: &Look, may_go: usize) -> usize {
    let ended = look.group().restore.iter().rev().filter(|(_, former)| !former.lost).map(|(task, _)| *task);
    let ended: Vec<u32> = ended.take(may_go).collect();
    give_up(tx, (look.job.id, look.at), |task, _| ended.contains(&task));
    ended.len()
}

/// Tasks that have found no room as what they were for long become what is asked for; while nothing is replaced, what
/// the others of the former are.
pub(super) fn give_up_late(tx: &mut Tx<'_>, id: JobId, at: usize) {
    let look = Look::of(tx, id, at);
    let is_late = |former: &Former| look.rollout.restored_until_ms(former) <= look.now_ms;
    if !look.group().restore.values().any(is_late) {
        return;
    }
    if look.rollout.is_moving(&look.strategy) {
        return give_up(tx, (id, at), |_, former| is_late(former));
    }
    let Some(revision) = look.idle_revision() else { return };
    let late = |former: &&mut Former| is_late(former) && former.revision != revision;
    change(tx, id, |rollout| {
        rollout.groups[at].restore.values_mut().filter(late).for_each(|former| former.revision = revision);
    });
}

/// Those tasks that `which` names and that wait to be what they were become what is asked for. That brings the rollout
/// no further before they are placed.
fn give_up(tx: &mut Tx<'_>, (id, at): (JobId, usize), which: impl Fn(u32, &Former) -> bool) {
    let restore = open(tx, id).map(|rollout| rollout.groups[at].restore.clone()).unwrap_or_default();
    let is_given_up = |task: u32| restore.get(&task).is_some_and(|former| which(task, former));
    if restore.keys().any(|task| is_given_up(*task)) {
        let standing = Look::of(tx, id, at).old.len() as u32;
        change(tx, id, |rollout| {
            let group = &mut rollout.groups[at];
            group.restore.retain(|task, _| !is_given_up(*task));
            group.best.2 = group.best.2.min(standing + group.restore.len() as u32);
        });
        forget_failures(tx, (id, at), is_given_up);
    }
}

/// Stops a run unless its budgets keep it. Of one that is not ready they lose nothing: who could not replace it could
/// never mend what nobody of is healthy.
fn stop_if_allowed(tx: &mut Tx<'_>, slot: u32) -> bool {
    let run = tx.run(slot);
    let may = !run.is_ready() || Disruptions::default().stop(tx, run).is_ok();
    if may {
        stop_run(tx, slot, StopCause::RolledOut);
    }
    may
}
