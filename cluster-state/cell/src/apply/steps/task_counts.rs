//! Runs are counted for the rules about other tasks as they take and give back room; the rest when a command is over.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::state::runs::Run;
use crate::state::task_counts::settle::settle;
use ohm_model::{GroupIndex, JobId, NodeId, ShapeId};

/// Counts what the command has changed of shapes, nodes and jobs.
pub(crate) fn settle_task_counts(tx: &mut Tx<'_>) {
    let shapes = tx.cell.shapes.take_asking();
    if shapes.is_empty() && tx.cell.task_counts.is_empty() {
        return;
    }
    let (nodes, jobs) = (tx.touched_nodes().to_vec(), tx.touched_jobs().to_vec());
    tx.applied.freed.neighbours |= settle(tx.cell, &shapes, &nodes, &jobs);
}

/// Counts `by` more tasks of a group on `node`, which run with this shape; `stops` if they are to stop.
pub(crate) fn count_tasks(tx: &mut Tx<'_>, of: (ShapeId, JobId, GroupIndex), node: NodeId, by: i64, stops: bool) {
    if !tx.task_counts.is_empty() {
        let Cell { task_counts, shapes, .. } = &mut *tx.cell;
        tx.applied.freed.neighbours |= task_counts.shift(shapes, of, node, (by, stops));
    }
}

/// The run is to stop: who counts only what stays counts it no more.
pub(crate) fn count_stopping(tx: &mut Tx<'_>, slot: u32) {
    if !tx.task_counts.is_empty() {
        let (of, node) = of_run(tx.run(slot));
        count_tasks(tx, of, node, -1, false);
        count_tasks(tx, of, node, 1, true);
    }
}

/// The run has given back its room.
pub(crate) fn count_ended(tx: &mut Tx<'_>, run: &Run) {
    let (of, node) = of_run(run);
    count_tasks(tx, of, node, -1, run.stop.is_some());
}

/// A run on `node` that had one shape has another one.
pub(crate) fn count_reshaped_task(
    tx: &mut Tx<'_>,
    (job, group): (JobId, usize),
    (former, joined): (ShapeId, ShapeId),
    node: NodeId,
    stops: bool,
) {
    let group = GroupIndex(group as u16);
    count_tasks(tx, (former, job, group), node, -1, stops);
    count_tasks(tx, (joined, job, group), node, 1, stops);
}

fn of_run(run: &Run) -> ((ShapeId, JobId, GroupIndex), NodeId) {
    ((run.shape, run.run.task.job, run.run.task.group), run.node)
}
