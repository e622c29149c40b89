//! Nodes that have to be left although they answer, because they are being drained or because of a condition with the
//! action `drain`, and what it means for the jobs that run there.
//!
//! A task leaves a node like this: room for it is reserved elsewhere and it is told to stop in one transaction; when it
//! has ended it is lost by its job and placed again like anything else that was lost, where its room is. Nothing stops
//! before there is a place for it, unless the drain has a deadline and that has passed. Conditions have none; what
//! was not told to stop when its condition ends stays.
//!
//! Invariants: a job has a node among its unhealthy ones, with the cause found by [`Cell::leave_cause`], exactly while
//! a run of it that is not to stop is there; a group has as many tasks on the move as there is room held for them.

use crate::apply::Tx;
use crate::apply::steps::repairs::mark_unhealthy;
use crate::cell::Cell;
use crate::rooms::reads::{leave_cause_of, may_be_left};
use crate::state::repairs::{UnhealthyCause, UnhealthyNode};
use ohm_model::{EventKind, JobId, NodeId};
use std::collections::BTreeSet;

/// Says so when nothing runs any more on a node that drains.
pub(crate) fn tell_drained(tx: &mut Tx<'_>, node: NodeId) {
    let Some(drain) = tx.nodes.get(node).and_then(|record| record.drain) else { return };
    if tx.runs_on(node) == 0 {
        let (name, took_ms) = (tx.nodes.name(node).to_string(), tx.now_ms.saturating_sub(drain.since_ms));
        tx.tell(EventKind::NodeDrained { node, name, took_ms });
    }
}

/// Finds anew which jobs have to leave `node`; called when something may have changed that drives tasks away.
pub(crate) fn settle_leaving(tx: &mut Tx<'_>, node: NodeId) {
    let known = tx.jobs.with_unhealthy(node);
    let jobs: BTreeSet<JobId> = known.chain(jobs_on(tx, node)).collect();
    for job in jobs {
        if settle_leaving_of(tx, job, node) {
            tx.touch_job(job);
        }
    }
}

/// The same for one job, whose groups tolerate something else by now, and all nodes that it runs on.
pub(crate) fn settle_leaving_by(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    let live = job.groups.iter().filter(|group| group.live > 0).flat_map(|group| group.tasks.iter());
    let runs = live.filter_map(|task| tx.runs.get(task.run));
    let nodes: BTreeSet<NodeId> = runs.map(|run| run.node).filter(|node| may_be_left(tx, *node)).collect();
    nodes.into_iter().for_each(|node| _ = settle_leaving_of(tx, id, node));
}

/// A run of `job` on `node` ended or is to stop: perhaps it was the last one that had to leave.
pub(crate) fn settle_left(tx: &mut Tx<'_>, job: JobId, node: NodeId) {
    let leaves = |entry: &UnhealthyNode| entry.node == Some(node) && entry.cause != UnhealthyCause::Lost;
    if tx.job(job).repairs.unhealthy.iter().any(leaves) && may_be_left(tx, node) && settle_leaving_of(tx, job, node) {
        tx.touch_job(job);
    }
}

/// Whether anything has changed.
fn settle_leaving_of(tx: &mut Tx<'_>, id: JobId, node: NodeId) -> bool {
    let job = tx.job(id);
    let cause = leave_cause_of(tx, job, node);
    let leaves = |cause: UnhealthyCause| cause != UnhealthyCause::Lost;
    let unhealthy = &job.repairs.unhealthy;
    let known = unhealthy.iter().find(|entry| entry.node == Some(node) && leaves(entry.cause));
    if known.map(|entry| entry.cause) == cause {
        return false;
    }
    if let Some(cause) = cause {
        mark_unhealthy(tx, id, std::iter::once(node), cause);
        return true;
    }
    let version = tx.index();
    let job = tx.job_mut(id);
    job.repairs.unhealthy.retain(|entry| entry.node != Some(node) || !leaves(entry.cause));
    job.version = version;
    if !job.repairs.unhealthy.iter().any(|entry| entry.node == Some(node)) {
        tx.jobs.forget_unhealthy(node, id);
    }
    true
}

pub(crate) fn jobs_on(cell: &Cell, node: NodeId) -> BTreeSet<JobId> {
    cell.runs.on_node(&cell.nodes, node).map(|(_, run)| run.run.task.job).collect()
}
