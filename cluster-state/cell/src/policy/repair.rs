//! What follows when jobs lose tasks with their nodes, and when those tasks are placed again.
//!
//! A job's version moves whenever its unhealthy nodes do, so a plan made before a later loss is refused by its guard
//! and the next plan takes all losses together. Nothing here is ever charged to a job's retries.

use crate::apply::Tx;
use crate::apply::steps::jobs::{clear_nominations, release_reservation};
use crate::apply::steps::kept::forget_kept_of;
use crate::apply::steps::repairs::{arm_give_up, drop_repair, mark_unhealthy};
use crate::apply::steps::runs::stop_runs;
use crate::cell::Cell;
use crate::policy::admission::settle_stranded;
use crate::state::jobs::{JobState, TaskState};
use crate::state::repairs::{Loss, Losses, OpenRepair, RepairEnd, RepairState, RequestState, UnhealthyCause};
use crate::state::timers::Timer;
use ohm_model::{EventKind, Index, JobId, StopCause};

/// Draws the consequences of everything one entry took away.
pub(crate) fn settle_losses(tx: &mut Tx<'_>, losses: Losses) {
    losses.by_job.into_iter().for_each(|(job, loss)| settle_loss(tx, job, &loss));
}

fn settle_loss(tx: &mut Tx<'_>, id: JobId, loss: &Loss) {
    let job = tx.job(id);
    if job.state != JobState::Active {
        return;
    }
    let (name, standing) = (job.spec.name.clone(), job.live());
    let is_down = standing == 0 || job.is_down();
    let nodes: Vec<String> = loss.nodes.iter().map(|node| tx.nodes.name(*node).to_string()).collect();
    if !is_down && open_repair(tx, id, loss, &nodes) {
        mark_unhealthy(tx, id, loss.nodes.iter().copied(), UnhealthyCause::Lost);
        arm_give_up(tx, id, 0);
    } else if tx.job(id).repair_state() == RepairState::Whole {
        drop_repair(tx, id);
    }
    // What moves was told to stop when its place was reserved: nothing is lost with it.
    let tasks = loss.tasks.len() as u32 - loss.moving;
    if tasks > 0 {
        tx.tell(EventKind::TasksLost { job: id, name, tasks, standing, nodes });
    }
    settle_stranded(tx, id);
    tx.touch_job(id);
}

/// Whether there is something to repair: a service's group of which nothing runs starts anew instead.
fn open_repair(tx: &mut Tx<'_>, id: JobId, loss: &Loss, nodes: &[String]) -> bool {
    let (since, since_ms) = (tx.index(), tx.now_ms);
    let job = tx.job_mut(id);
    let mut any = false;
    for &(group, task) in &loss.tasks {
        let group = &mut job.groups[usize::from(group)];
        let waits = matches!(group.tasks[task as usize].state, TaskState::Pending | TaskState::BackingOff);
        if group.started && waits {
            group.lost.insert(task, 1);
            any = true;
        }
    }
    if !any {
        return false;
    }
    job.version = since;
    if job.repairs.open.is_none() {
        job.repairs.begun += 1;
    }
    let open = job.repairs.open.get_or_insert_with(|| OpenRepair { since, since_ms, ..OpenRepair::default() });
    open.losses += 1;
    open.last_ms = since_ms;
    for name in nodes {
        if !open.nodes.contains(name) {
            open.nodes.push(name.clone());
        }
    }
    seek_anew(tx, id);
    true
}

/// After another loss room is sought anew where nobody seeks it by now, and so are nodes that were refused.
fn seek_anew(cell: &mut Cell, id: JobId) {
    let Some(open) = cell.jobs.get_mut(id).and_then(|job| job.repairs.open.as_mut()) else { return };
    open.without_room.retain(|group| cell.nominations.claim(id, *group).is_some());
    open.requests.retain(|request| request.state != RequestState::Failed);
}

/// The time to wait is over: a gang that still runs below its minimum is evicted whole.
pub(crate) fn end_waiting(tx: &mut Tx<'_>, id: JobId, since: Index) {
    let now_ms = tx.now_ms;
    // The job may be forgotten by now, or this repair be over.
    let Some(job) = tx.jobs.get_mut(id) else { return };
    let (below, state, awaits) = (job.is_below_minimum(), job.repair_state(), job.awaits_ends());
    let timeout_ms = job.spec.repair.timeout_seconds.saturating_mul(1000);
    // The clock of a policy that was changed meanwhile rings for nobody.
    let is_due = |open: &&mut OpenRepair| open.since == since && (1..=now_ms).contains(&open.give_up_ms);
    let Some(open) = job.repairs.open.as_mut().filter(is_due) else { return };
    if !below || state != RepairState::Waiting {
        // Counted anew with the next loss that takes it below.
        open.give_up_ms = 0;
        return;
    }
    if awaits {
        // Nothing is decided before all of the loss is there: the time begins anew.
        open.give_up_ms = now_ms.saturating_add(timeout_ms);
        let due_ms = open.give_up_ms;
        return tx.arm(due_ms, Timer::Repair(id, since));
    }
    let seconds = job.spec.repair.timeout_seconds;
    give_up_repair(tx, id, format!("no room within timeoutSeconds ({seconds})"));
}

/// Evicts a gang that can't be repaired; it waits for its turn like a new one.
pub(crate) fn give_up_repair(tx: &mut Tx<'_>, id: JobId, reason: String) {
    let (now_ms, version) = (tx.now_ms, tx.index());
    let job = tx.job_mut(id);
    let name = job.spec.name.clone();
    job.close_repair(now_ms, RepairEnd::Failed(reason.clone()));
    job.version = version;
    drop_repair(tx, id);
    release_reservation(tx, id);
    tx.tell(EventKind::RepairFailed { job: id, name, reason });
    forget_kept_of(tx, id);
    stop_runs(tx, id, StopCause::RepairFailed);
    clear_nominations(tx, id);
    tx.touch_job(id);
}
