//! Preemption: jobs are stopped, whole or in part, for one that lacks the quota or the room that they have, and that is
//! kept for it.
//!
//! ```text
//! waits for quota or room ──▶ planner chooses victims and rooms ──▶ the log judges right and need
//!                                                                     │ victims stop, and wait again
//!   nobody else is charged what they give back, and their room        │
//!   is taken by what is more important only ◀─────────────────────────┤
//!                                                                     ▼
//!          over: it stands · its time is over · it changed, or waits no more · a room of it is lost
//! ```
//! What is kept of quota is nothing that is charged: the log leaves it to the job when it judges others, see
//! `rooms/promised.rs`. What is kept of room are nominations (`rooms/nominations.rs`); none outlives its preemption.
//!
//! No two jobs stop each other for ever: one that was stopped in return for a job that it had stopped does not stop it
//! again for a smaller share, or to borrow, while that one has what it got and neither they nor the queues change.
//!
//! One for which others stopped in vain, since what is more important took a room of it, its time was over, or it was
//! stopped for others before anything of it stood, waits before it stops others again: a second, and twice as long each
//! time until it has what it needs. So more than two jobs do not stop each other in a ring at once and for ever.
//!
//! Invariants, swept: whoever waits for others waits to start, as it did when they were told, and not beyond its time;
//! who got something from others is remembered while it has or awaits it.

use crate::apply::Tx;
use crate::apply::steps::holds::sweep_nominations;
use crate::apply::steps::jobs::{clear_held, release_reservation};
use crate::apply::steps::runs::stop_run;
use crate::apply::steps::stops::stop_what_runs;
use crate::cell::Cell;
use crate::policy::admission::settle_preempted;
use crate::rooms::nominations::Held;
use crate::rooms::overlay::Overlay;
use crate::rooms::planned_rooms::{PlannedRooms, end_stopping};
use crate::rooms::reads::{live_runs, live_slot};
use crate::rooms::what_if::WhatIf;
use crate::rules::disruption::broken_by;
use crate::state::admission::Standing;
use crate::state::budgets::states::budget_name;
use crate::state::job_rollouts::stops_within_ms;
use crate::state::jobs::JobState;
use crate::state::nodes::NOMINATED;
use crate::state::preemptions::Preemption;
use crate::state::timers::Timer;
use crate::state::turns::{has_quota, waits_to_start};
use ohm_model::{
    EventKind, GroupIndex, JobId, NodeId, PreemptionChange, PreemptionNeed, StopCause, Transaction, Victim, need_of,
};
use std::collections::BTreeSet;

/// What is kept is kept for so long once the last victim should have ended.
pub(crate) const SLACK_MS: u64 = 30_000;

/// Until when at most what these victims give back is kept, in stamped time.
pub fn kept_until_ms(cell: &Cell, victims: &[Victim]) -> u64 {
    let jobs = victims.iter().filter_map(|victim| cell.jobs.get(victim.job));
    let stops_ms = jobs.map(|job| stops_within_ms(job)).max();
    cell.now_ms.saturating_add(stops_ms.unwrap_or(0)).saturating_add(SLACK_MS)
}

/// Stops the victims of a transaction for its job; the judge has allowed it.
pub(crate) fn preempt(tx: &mut Tx<'_>, transaction: &Transaction) {
    let (Some(guard), false) = (transaction.jobs.first(), transaction.preempt.is_empty()) else { return };
    let until_ms = kept_until_ms(tx, &transaction.preempt);
    let (since, id, need) = (tx.index(), guard.job, need_of(&transaction.preempt));
    for victim in &transaction.preempt {
        if victim.is_whole() && tx.preemptions.has_taken(victim.job) && is_only_reserved(tx, victim.job) {
            note_in_vain(tx, victim.job);
        }
        tx.preemptions.take_from(id, victim.job, victim.is_whole());
    }
    let victims = transaction.preempt.iter().map(|victim| (victim.job, victim.runs.clone())).collect();
    let wanted = PlannedRooms::named(tx.job(id), transaction).counts();
    tx.preemptions.put(id, Preemption { need, wanted, since, until_ms, version: guard.version, victims });
    tx.arm(until_ms, Timer::Preemption(id));
    tx.touch_job(id);
    let named = |victim: &Victim| (tx.job(victim.job).spec.name.clone(), victim.reason);
    let victims = transaction.preempt.iter().map(named).collect();
    let (_, broken) = broken_by(WhatIf { cell: tx, over: &Overlay::default() }, &transaction.preempt);
    let budgets = broken.into_iter().map(|budget| budget_name(tx, budget)).collect();
    tell(tx, id, PreemptionChange::Waits { need, victims, budgets, until_ms });
    transaction.preempt.iter().for_each(|victim| stop_for(tx, id, victim));
}

/// Stops one victim: what is stopped whole gives up all that it has.
fn stop_for(tx: &mut Tx<'_>, id: JobId, victim: &Victim) {
    let (by, job) = (tx.job(id).spec.name.clone(), victim.job);
    let runs = (!victim.is_whole()).then_some(victim.runs.len() as u32);
    tell(tx, job, PreemptionChange::Stopped { by: by.clone(), need: victim.need, runs, reason: victim.reason });
    if !victim.is_whole() {
        let slots: Vec<u32> = victim.runs.iter().filter_map(|run| live_slot(tx, *run)).collect();
        slots.into_iter().for_each(|slot| stop_run(tx, slot, StopCause::Preempted));
        return settle_preempted(tx, job);
    }
    release_reservation(tx, job);
    stop_what_runs(tx, job, StopCause::Preempted);
    let version = tx.index();
    let stopped = tx.job_mut(job);
    (stopped.version, stopped.reason) = (version, format!("it was stopped for {by} ({})", victim.reason.name()));
    tx.touch_job(job);
}

/// The time may be over for which something is kept for the job, or in which it stops nobody.
pub(crate) fn end_kept(tx: &mut Tx<'_>, id: JobId) {
    if tx.preemptions.in_vain(id).is_some_and(|known| known.until_ms <= tx.now_ms) {
        tx.touch_job(id);
    }
    if tx.preemptions.get(id).is_some_and(|preemption| preemption.until_ms <= tx.now_ms) {
        end_preemption(tx, id, "its time is over");
    }
}

/// Ends preemptions of jobs that can't use them any more. Called after every command, over the jobs that it named;
/// where nobody waits for others it costs one look.
pub(crate) fn settle_preemptions(tx: &mut Tx<'_>) {
    if tx.preemptions.is_empty() && tx.preemptions.knows_nobody() {
        return;
    }
    lose_rooms(tx);
    let named: BTreeSet<JobId> = tx.touched_jobs().iter().copied().collect();
    for id in named {
        if let Some(preemption) = tx.preemptions.get(id) {
            let reason = why_over(tx, id, preemption);
            reason.into_iter().for_each(|reason| end_preemption(tx, id, reason));
        }
        if !has_or_awaits(tx, id) {
            tx.preemptions.forget_taken(id);
        }
        if !may_stop_in_vain(tx, id) {
            tx.preemptions.forget_in_vain(id);
        }
    }
}

/// Gives up rooms of preemptors on the nodes that the command named: the node takes no such work any more, or what is
/// more important has the room. A gang needs all of its rooms.
fn lose_rooms(tx: &mut Tx<'_>) {
    let nominated = |node: &NodeId| tx.nodes.flags(*node) & NOMINATED != 0;
    let nodes: BTreeSet<NodeId> = tx.touched_nodes().iter().copied().filter(nominated).collect();
    for node in nodes {
        let kept = tx.nominations.on_node(node).iter().filter(|held| held.is_preemptor());
        let jobs: BTreeSet<JobId> =
            kept.map(|held| held.job).filter(|job| tx.preemptions.get(*job).is_some()).collect();
        for id in jobs.into_iter().filter(|id| !has_its_room(tx, *id, node)).collect::<Vec<_>>() {
            // What is kept of quota is kept on.
            let needs_all = tx.preemptions.get(id).is_some_and(|known| known.need == PreemptionNeed::Room);
            match needs_all && tx.jobs.get(id).is_some_and(|job| job.starts_whole()) {
                true => end_lost(tx, id),
                false => {
                    sweep_nominations(tx, node, |held| held.job != id || !held.is_preemptor());
                    tx.touch_job(id);
                }
            }
        }
    }
}

/// A room of a gang is lost. What changed by the same command waits for something else from now on, and says so.
fn end_lost(tx: &mut Tx<'_>, id: JobId) {
    let Some(preemption) = tx.preemptions.get(id) else { return };
    let reason = why_over(tx, id, preemption).unwrap_or("a room of it is lost");
    end_preemption(tx, id, reason);
}

/// Whether the rooms that are kept on `node` for the job, which others stopped for, will fit there once what stops has
/// ended.
fn has_its_room(cell: &Cell, id: JobId, node: NodeId) -> bool {
    let Some(job) = cell.jobs.get(id) else { return false };
    let kept = cell.nominations.on_node(node).iter().filter(|held| held.job == id && held.is_preemptor());
    let rooms = kept.map(|held| (GroupIndex(held.group), node, held.count));
    let mut over = Overlay::default();
    end_stopping(cell, &mut over, node);
    PlannedRooms::of(job, rooms).fit(cell, &mut over)
}

/// Why nothing is kept for the job any more, if so.
fn why_over(cell: &Cell, id: JobId, preemption: &Preemption) -> Option<&'static str> {
    let active = cell.jobs.get(id).filter(|job| job.state == JobState::Active);
    if preemption.need == PreemptionNeed::Quota && active.is_some_and(|job| has_quota(job)) {
        return Some("it has its quota");
    }
    let Some(job) = active.filter(|job| job.version == preemption.version) else {
        return Some("it changed, or waits no more");
    };
    if matches!(cell.standing(job), Standing::Held(_)) {
        return Some("its queue is held");
    }
    match preemption.need {
        PreemptionNeed::Quota => (!waits_to_start(job)).then_some("it changed, or waits no more"),
        PreemptionNeed::Room if job.pending() == 0 => Some("it stands"),
        PreemptionNeed::Room if !has_rooms(cell, id) => Some("its rooms are used, or lost"),
        PreemptionNeed::Room => None,
    }
}

/// Whether room is kept for the job that others stopped for.
fn has_rooms(cell: &Cell, id: JobId) -> bool {
    cell.nominations.of_job(id).any(|(_, held)| held.is_preemptor())
}

/// Whether the job has quota, or others stop for it.
pub(crate) fn has_or_awaits(cell: &Cell, id: JobId) -> bool {
    cell.preemptions.get(id).is_some() || cell.jobs.get(id).is_some_and(|job| has_quota(job))
}

/// Whether the job still is the one that others were stopped for, and waits.
pub(crate) fn waits_as_told(cell: &Cell, id: JobId, preemption: &Preemption) -> bool {
    why_over(cell, id, preemption).is_none()
}

/// Whether the job waits for what others may be stopped for.
pub(crate) fn may_stop_in_vain(cell: &Cell, id: JobId) -> bool {
    cell.jobs.get(id).is_some_and(|job| job.state == JobState::Active && job.pending() > 0)
}

/// Whether the job is as it was, and got nothing of what others gave back for it.
fn is_in_vain(cell: &Cell, id: JobId, preemption: &Preemption) -> bool {
    let job = cell.jobs.get(id).filter(|job| job.version == preemption.version && may_stop_in_vain(cell, id));
    job.is_some_and(|job| match preemption.need {
        _ if matches!(cell.standing(job), Standing::Held(_)) => false,
        PreemptionNeed::Quota => !has_quota(job),
        PreemptionNeed::Room => !live_runs(cell, job).any(|run| run.placed >= preemption.since),
    })
}

/// Whether the job has quota, and nothing of it stands yet: it may lose that before it has been of any use.
fn is_only_reserved(cell: &Cell, id: JobId) -> bool {
    cell.jobs.get(id).is_some_and(|job| !job.reserved.is_empty() && job.live() == 0)
}

/// Others stopped for the job in vain once more.
fn note_in_vain(tx: &mut Tx<'_>, id: JobId) {
    let now_ms = tx.now_ms;
    let until_ms = tx.preemptions.note_in_vain(id, now_ms);
    tx.arm(until_ms, Timer::Preemption(id));
}

/// Nothing is promised to the job any more of what others were stopped for.
pub(crate) fn end_preemption(tx: &mut Tx<'_>, id: JobId, reason: &str) {
    let Some(preemption) = tx.preemptions.remove(id) else { return };
    if is_in_vain(tx, id, &preemption) {
        note_in_vain(tx, id);
    } else if !is_only_reserved(tx, id) {
        tx.preemptions.forget_in_vain(id);
    }
    let Some(job) = tx.jobs.get(id) else { return };
    let queue = job.spec.queue.clone();
    clear_held(tx, id, Held::is_preemptor);
    tx.free_quota(&queue);
    tx.touch_job(id);
    tell(tx, id, PreemptionChange::Over { reason: reason.to_string() });
}

fn tell(tx: &mut Tx<'_>, job: JobId, change: PreemptionChange) {
    let name = tx.job(job).spec.name.clone();
    tx.tell(EventKind::Preemption(ohm_model::PreemptionEvent { job, name, change }));
}
