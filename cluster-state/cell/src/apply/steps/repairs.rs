//! What is written down of repairs: nodes that a job has to do without, the clock of a policy that waits, and the end.
//! Nothing here is ever charged to a job's retries.

use crate::apply::Tx;
use crate::state::repairs::{RepairEnd, RepairState, UnhealthyCause, UnhealthyNode};
use crate::state::timers::Timer;
use ohm_model::{EventKind, JobId, Move, NodeHealth, NodeId, RepairPolicy};

/// Notes that `job` has to do without these nodes. Lost ones only while they are lost: what only rebooted is fine.
pub(crate) fn mark_unhealthy(tx: &mut Tx<'_>, id: JobId, nodes: impl Iterator<Item = NodeId>, cause: UnhealthyCause) {
    let (since, since_ms) = (tx.index(), tx.now_ms);
    for node in nodes {
        let record = tx.record(node);
        if cause == UnhealthyCause::Lost && record.health != NodeHealth::Lost {
            continue;
        }
        let name = record.spec.name.clone();
        let job = tx.job_mut(id);
        job.version = since;
        job.repairs.unhealthy.retain(|entry| entry.name != name);
        job.repairs.unhealthy.push(UnhealthyNode { node: Some(node), name, cause, since, since_ms });
        tx.jobs.note_unhealthy(node, id);
    }
}

/// The first loss below the minimum starts the clock of a policy that waits; so much of its time has passed already.
pub(crate) fn arm_give_up(tx: &mut Tx<'_>, id: JobId, waited_ms: u64) {
    let now_ms = tx.now_ms;
    let job = tx.job_mut(id);
    let waits = matches!(job.spec.repair.policy, RepairPolicy::Wait | RepairPolicy::Widen);
    let timeout_ms = job.spec.repair.timeout_seconds.saturating_mul(1000);
    let below = job.is_below_minimum();
    let Some(open) = job.repairs.open.as_mut().filter(|open| open.give_up_ms == 0) else { return };
    if !waits || timeout_ms == 0 || !below {
        return;
    }
    open.give_up_ms = now_ms.saturating_add(timeout_ms.saturating_sub(waited_ms));
    let (due_ms, since) = (open.give_up_ms, open.since);
    tx.arm(due_ms, Timer::Repair(id, since));
}

/// Ends whatever repair of `job` is under way.
pub(crate) fn drop_repair(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    if job.repairs.open.is_none() && job.repairs.unhealthy.is_empty() && job.repair_state() == RepairState::Whole {
        return;
    }
    let nodes = tx.job_mut(id).drop_repair();
    nodes.into_iter().for_each(|node| tx.jobs.forget_unhealthy(node, id));
}

/// Tasks that were lost are placed again, as `moves` say.
pub(crate) fn note_moves(tx: &mut Tx<'_>, id: JobId, moves: Vec<Move>) {
    let job = tx.job_mut(id);
    let name = job.spec.name.clone();
    let placed: u32 = moves.iter().map(|step| step.count).sum();
    if let Some(open) = &mut job.repairs.open {
        open.placed += placed;
    }
    forget_lost_nodes(tx, id);
    tx.tell(EventKind::RepairCommitted { job: id, name, moves });
}

/// Once nothing waits to be placed again, lost nodes are unhealthy for the job no more.
pub(crate) fn forget_lost_nodes(tx: &mut Tx<'_>, id: JobId) {
    let version = tx.index();
    let job = tx.job_mut(id);
    if job.repair_state() != RepairState::Waiting {
        let before = job.repairs.unhealthy.len();
        let gone = job.repairs.take_lost();
        if job.repairs.unhealthy.len() < before {
            job.version = version;
        }
        gone.into_iter().for_each(|node| tx.jobs.forget_unhealthy(node, id));
    }
}

/// One of the tasks placed again runs, or is over; when the last of them runs the job is whole.
pub(crate) fn end_repair_of(tx: &mut Tx<'_>, id: JobId, group: u16, task: u32, runs: bool) {
    let now_ms = tx.now_ms;
    let found = tx.job(id);
    if !found.groups[usize::from(group)].replaced.contains(task, 1) {
        return;
    }
    let job = tx.job_mut(id);
    job.groups[usize::from(group)].replaced.remove(task, 1);
    if job.repair_state() != RepairState::Whole {
        return;
    }
    let name = job.spec.name.clone();
    if let Some(past) = runs.then(|| job.close_repair(now_ms, RepairEnd::Repaired)).flatten() {
        let took_ms = past.ended_ms.saturating_sub(past.since_ms);
        tx.tell(EventKind::Repaired { job: id, name, tasks: past.placed, took_ms });
    }
}

/// The node answers again: it is lost for nobody any more.
pub(crate) fn clear_unhealthy(tx: &mut Tx<'_>, node: NodeId) {
    let version = tx.index();
    let jobs: Vec<JobId> = tx.jobs.with_unhealthy(node).collect();
    for id in jobs {
        let job = tx.job_mut(id);
        let is_lost = |entry: &UnhealthyNode| entry.node == Some(node) && entry.cause == UnhealthyCause::Lost;
        let was_lost = job.repairs.unhealthy.iter().any(is_lost);
        if was_lost {
            job.repairs.unhealthy.retain(|entry| !is_lost(entry));
            job.version = version;
        }
        let is_unhealthy = job.repairs.unhealthy.iter().any(|entry| entry.node == Some(node));
        if was_lost {
            tx.touch_job(id);
        }
        if !is_unhealthy {
            tx.jobs.forget_unhealthy(node, id);
        }
    }
}

/// The node is removed: it stays unhealthy for whoever lost tasks with it, but only by its name.
pub(crate) fn detach_unhealthy(tx: &mut Tx<'_>, node: NodeId) {
    for id in tx.jobs.take_unhealthy(node) {
        let entries = tx.job_mut(id).repairs.unhealthy.iter_mut().filter(|entry| entry.node == Some(node));
        entries.for_each(|entry| entry.node = None);
        tx.touch_job(id);
    }
}
