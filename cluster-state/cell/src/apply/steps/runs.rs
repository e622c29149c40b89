//! How runs start, are told to stop, and end. A run ends only by its agent's word or with its node.

use crate::apply::Tx;
use crate::apply::steps::budgets::note_healthy;
use crate::apply::steps::health::begin_health;
use crate::apply::steps::leaving::settle_left;
use crate::apply::steps::repairs::end_repair_of;
use crate::apply::steps::task_counts::count_stopping;
use crate::cell::Cell;
use crate::state::budgets::health::is_healthy;
use crate::state::jobs::PastRun;
use crate::state::runs::{NO_RUN, Run};
use ohm_model::{EventKind, Exit, JobId, MESSAGE_CHARS_MAX, NodeId, StopCause};
use std::collections::BTreeSet;

pub(crate) fn run_started(tx: &mut Tx<'_>, slot: u32, pid: u32) {
    let now_ms = tx.now_ms;
    let run = tx.run_mut(slot);
    if run.started_ms != 0 {
        return;
    }
    (run.started_ms, run.pid) = (now_ms.max(1), pid);
    let run = tx.run(slot);
    let (task, incarnation, node) = (run.run.task, run.run.incarnation, run.node);
    let job = tx.job_mut(task.job);
    let group = &mut job.groups[usize::from(task.group.0)];
    group.running += 1;
    let ready = begin_health(tx, slot);
    note_healthy(tx, slot, false);
    tx.touch_job(task.job);
    let (job, group, task) = (task.job, task.group.0, task.task.0);
    tx.tell(EventKind::Started { job, group, task, incarnation, node });
    if ready {
        end_repair_of(tx, job, group, task, true);
    }
}

/// Wishes that the run in `slot` stops. Its room stays taken until it has ended.
pub(crate) fn stop_run(tx: &mut Tx<'_>, slot: u32, cause: StopCause) {
    let run = tx.run_mut(slot);
    if run.stop.is_some() {
        return;
    }
    let was_healthy = is_healthy(run);
    run.stop = Some(cause);
    let (task, incarnation, node) = (run.run.task, run.run.incarnation, run.node);
    count_stopping(tx, slot);
    note_healthy(tx, slot, was_healthy);
    let job = tx.job_mut(task.job);
    let group = &mut job.groups[usize::from(task.group.0)];
    group.stopping += 1;
    group.driven += u32::from(cause.is_loss());
    tx.touch_node(node);
    tx.touch_job(task.job);
    let (job, group, task) = (task.job, task.group.0, task.task.0);
    tx.tell(EventKind::Stopping { job, group, task, incarnation, node, cause });
    settle_left(tx, job, node);
}

/// Wishes that every live run of `job` stops.
pub(crate) fn stop_runs(tx: &mut Tx<'_>, job: JobId, cause: StopCause) {
    live_runs(tx, job).into_iter().for_each(|slot| stop_run(tx, slot, cause));
}

/// Leaves the runs of `job`, all of which stop, no more than `grace_ms`.
pub(crate) fn hurry_runs(tx: &mut Tx<'_>, job: JobId, grace_ms: u64) {
    if tx.job(job).grace_ms_max.is_some_and(|known_ms| known_ms <= grace_ms) {
        return;
    }
    tx.job_mut(job).grace_ms_max = Some(grace_ms);
    let nodes: BTreeSet<NodeId> = live_runs(tx, job).into_iter().map(|slot| tx.run_mut(slot).node).collect();
    nodes.into_iter().for_each(|node| tx.touch_node(node));
    tx.touch_job(job);
}

fn live_runs(tx: &Tx<'_>, job: JobId) -> Vec<u32> {
    let live = tx.job(job).groups.iter().filter(|group| group.live > 0).flat_map(|group| group.tasks.iter());
    live.map(|task| task.run).filter(|run| *run != NO_RUN).collect()
}

pub(crate) fn tell_ended(tx: &mut Tx<'_>, run: &Run, exit: Exit) {
    let (job, group, task) = (run.run.task.job, run.run.task.group.0, run.run.task.task.0);
    let (incarnation, node, cause) = (run.run.incarnation, run.node, run.stop);
    tx.tell(EventKind::Ended { job, group, task, incarnation, node, exit, cause });
}

pub(crate) fn past_run(cell: &Cell, run: &Run, exit: Exit, message: &str) -> PastRun {
    PastRun {
        group: run.run.task.group.0,
        task: run.run.task.task.0,
        incarnation: run.run.incarnation,
        revision: run.revision,
        node: cell.nodes.name(run.node).to_string(),
        placed_ms: run.placed_ms,
        ended_ms: cell.now_ms,
        exit,
        cause: run.stop,
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
    }
}
