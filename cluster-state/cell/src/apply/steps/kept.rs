//! Kept runs are remembered with their node, forgotten, and have their room while they live on.

use crate::apply::Tx;
use crate::apply::steps::leaving::tell_drained;
use crate::apply::steps::room::{give_room, take_room};
use crate::apply::steps::task_counts::count_tasks;
use crate::state::jobs::JobState;
use crate::state::kept::KeptRun;
use ohm_model::{Incarnation, JobId, NodeHealth, NodeId, OnDisconnect, RunRef};
use std::sync::Arc;

/// Remembers the runs that live on although their node is lost. Those that were back are away again.
pub(crate) fn keep_runs_on(tx: &mut Tx<'_>, node: NodeId) {
    withdraw_kept(tx, node);
    let stays = |run: &crate::state::runs::Run| {
        let job = tx.job(run.run.task.job);
        let keeps = job.spec.on_disconnect == OnDisconnect::Keep && job.state == JobState::Active;
        let counts = run.run.task.task.0 < job.spec.groups[usize::from(run.run.task.group.0)].count;
        let kept = KeptRun {
            node,
            shape: run.shape,
            revision: run.revision,
            placed: run.placed,
            placed_ms: run.placed_ms,
            started_ms: run.started_ms,
            pid: run.pid,
            devices: run.devices.clone(),
            back: None,
        };
        (keeps && counts && run.stop.is_none()).then_some((run.run, kept))
    };
    let found: Vec<(RunRef, KeptRun)> = tx.runs.on_node(&tx.nodes, node).filter_map(|(_, run)| stays(run)).collect();
    for (run, kept) in found {
        tx.shapes.join_again(kept.shape, 1);
        tx.kept.insert(run, kept);
    }
}

/// Says whether a kept run lives on where it is. While it does, it has its room there as a live run has, although
/// no task counts it yet.
pub(crate) fn set_back(tx: &mut Tx<'_>, run: RunRef, back: Option<Option<Incarnation>>) {
    let Some(kept) = tx.kept.get(run).cloned() else { tx.stop("a kept run") };
    tx.kept.set_back(run, back);
    if back.is_some() {
        tx.returned.push(run.task.job);
    }
    match (kept.back.is_some(), back.is_some()) {
        (false, true) => {
            let shape = Arc::clone(tx.shape(kept.shape));
            take_room(tx, kept.node, &shape, kept.masks());
            count_tasks(tx, (kept.shape, run.task.job, run.task.group), kept.node, 1, false);
        }
        (true, false) => give_room_of(tx, run, &kept),
        _ => return,
    }
    tx.touch_node(kept.node);
}

pub(crate) fn give_room_of(tx: &mut Tx<'_>, run: RunRef, kept: &KeptRun) {
    if kept.back.is_some() {
        let shape = Arc::clone(tx.shape(kept.shape));
        give_room(tx, kept.node, &shape, kept.masks());
        count_tasks(tx, (kept.shape, run.task.job, run.task.group), kept.node, -1, false);
    }
}

/// What lives on there is away again, or is to be judged anew.
pub(crate) fn withdraw_kept(tx: &mut Tx<'_>, node: NodeId) {
    let back: Vec<RunRef> = tx.kept.back_on(node).collect();
    back.into_iter().for_each(|run| set_back(tx, run, None));
}

/// Forgets a kept run. Where its node is there, its agent hears of it with the next wanted set and stops it.
pub(crate) fn forget_kept(tx: &mut Tx<'_>, run: RunRef) {
    // It may have been forgotten with another one of its task.
    let Some(kept) = tx.kept.remove(run) else { return };
    give_room_of(tx, run, &kept);
    tx.shapes.leave(kept.shape);
    tell_forgotten(tx, run, &kept);
    tell_drained(tx, kept.node);
}

pub(crate) fn tell_forgotten(tx: &mut Tx<'_>, run: RunRef, kept: &KeptRun) {
    if tx.nodes.get(kept.node).is_some_and(|record| record.health != NodeHealth::Lost) {
        tx.touch_node(kept.node);
    }
    tx.brought.push(kept.node);
    tx.touch_job(run.task.job);
}

/// Forgets every kept run of a job that is closed, given up or evicted whole.
pub(crate) fn forget_kept_of(tx: &mut Tx<'_>, job: JobId) {
    forget_kept_where(tx, job, |_, _| true);
}

/// Forgets the kept runs of a job that are meant.
pub(crate) fn forget_kept_where(tx: &mut Tx<'_>, job: JobId, is_meant: impl Fn(&RunRef, &KeptRun) -> bool) {
    let runs = tx.kept.of_job(job).filter(|(run, kept)| is_meant(run, kept)).map(|(run, _)| *run);
    let runs: Vec<RunRef> = runs.collect();
    runs.into_iter().for_each(|run| forget_kept(tx, run));
}

/// Forgets every kept run on a node: its machine booted again, or it is removed.
pub(crate) fn forget_kept_on(tx: &mut Tx<'_>, node: NodeId) {
    let runs: Vec<RunRef> = tx.kept.on_node(node).collect();
    runs.into_iter().for_each(|run| forget_kept(tx, run));
}

/// A node reports the end of a run that the cell does not count any more.
pub(crate) fn kept_ended(tx: &mut Tx<'_>, run: RunRef, node: NodeId) {
    if tx.kept.get(run).is_some_and(|kept| kept.node == node) {
        forget_kept(tx, run);
    }
}
