//! Nodes that were brought: for whom they are kept, and when they go back. See `state/brought.rs`.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::policy::conditions::settle_taints;
use crate::state::brought::BroughtFor;
use crate::state::jobs::{Group, Job};
use crate::state::nodes::NodeRecord;
use crate::state::release::Release;
use crate::state::timers::Timer;
use ohm_model::selector::Labels;
use ohm_model::{EventKind, JobId, NodeId};
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The requests of the round of `job` that begins are open.
pub(crate) fn open_requests(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    tx.cell.brought.open(&job);
    look_at_requests_of(tx, &job);
}

/// The round of `job` ends, and its requests with it.
pub(crate) fn close_requests(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    look_at_requests_of(tx, &job);
    tx.cell.brought.close(&job);
}

fn look_at_requests_of(tx: &mut Tx<'_>, job: &Job) {
    let checks = job.admission.round.iter().flat_map(|round| &round.checks);
    tx.brought.extend(checks.flat_map(|check| tx.cell.brought.nodes_for(&check.request)));
}

/// All nodes that this class has brought, or that were brought for a request of it, are looked at: it has other words.
pub(crate) fn settle_class(tx: &mut Tx<'_>, class: &str) {
    let nodes: Vec<NodeId> = nodes_of_class(tx, class).collect();
    nodes.iter().for_each(|node| watch_idle(tx, *node));
    tx.brought.extend(nodes);
}

/// The nodes that this class has brought, or that were brought for an open request of it.
pub(crate) fn nodes_of_class(cell: &Cell, class: &str) -> impl Iterator<Item = NodeId> {
    cell.brought.nodes().filter(move |node| {
        let brought = cell.nodes.get(*node).and_then(|record| BroughtFor::of(&record.spec.labels));
        let asked = |request| cell.brought.request(request).map(|(_, class)| class);
        brought.is_some_and(|brought| brought.class == class || asked(brought.request) == Some(class))
    })
}

/// Brings the taints that keep nodes for their requesters up to what labels and requests say. Called after every
/// command, over the nodes and jobs that it named, before room is given to claims. Where nothing was brought it costs
/// one look.
pub(crate) fn settle_brought(tx: &mut Tx<'_>) {
    if tx.cell.brought.is_empty() {
        return;
    }
    let jobs: BTreeSet<JobId> = tx.touched_jobs().iter().copied().collect();
    for job in jobs.into_iter().filter_map(|job| tx.jobs.get(job).cloned()).collect::<Vec<_>>() {
        look_at_requests_of(tx, &job);
    }
    for node in named_nodes(tx) {
        let Some(record) = tx.nodes.get(node) else { continue };
        let is_kept = is_kept_for_request(tx, &record.spec.labels);
        if record.is_kept_for_request != is_kept {
            tx.record_mut(node).is_kept_for_request = is_kept;
            settle_taints(tx, node);
        }
    }
}

/// The nodes that the command has named, and those that bear on its jobs.
fn named_nodes(tx: &Tx<'_>) -> BTreeSet<NodeId> {
    tx.touched_nodes().iter().chain(tx.freed_nodes()).chain(&tx.brought).copied().collect()
}

/// Notes which of the nodes that the command named are idle by now. Called after every command; where nothing was
/// brought it costs one look.
pub(crate) fn settle_idle(tx: &mut Tx<'_>) {
    if tx.cell.brought.is_empty() {
        return;
    }
    for node in named_nodes(tx) {
        let Some(record) = tx.nodes.get(node) else { continue };
        match (record.release, is_idle(tx, node, record)) {
            (Release::InUse, true) => {
                tx.record_mut(node).release = Release::Idle { since_ms: tx.now_ms };
                watch_idle(tx, node);
            }
            (Release::Idle { .. }, false) => tx.record_mut(node).release = Release::InUse,
            _ => {}
        }
    }
}

/// When a node that is idle goes back, in stamped time.
pub fn idle_until_ms(cell: &Cell, node: &NodeRecord) -> Option<u64> {
    let Release::Idle { since_ms } = node.release else { return None };
    let class = cell.provisioning_classes.get(BroughtFor::of(&node.spec.labels)?.class)?;
    Some(since_ms.saturating_add(class.idle_seconds.saturating_mul(1000)))
}

fn watch_idle(tx: &mut Tx<'_>, node: NodeId) {
    if let Some(due_ms) = tx.nodes.get(node).and_then(|record| idle_until_ms(tx, record)) {
        tx.arm(due_ms.max(tx.now_ms + 1), Timer::Idle(node));
    }
}

/// Nobody may have used `node` for long enough: then who brought it is asked to take it back.
pub(crate) fn end_idle(tx: &mut Tx<'_>, node: NodeId) {
    // It may be used, or another node in its slot, by now; then it has an alarm of its own.
    let due_ms = tx.nodes.get(node).and_then(|record| idle_until_ms(tx, record));
    if due_ms.is_none_or(|due_ms| due_ms > tx.now_ms) {
        return;
    }
    let (since, now_ms) = (tx.index(), tx.now_ms);
    let record = tx.record_mut(node);
    let Release::Idle { since_ms } = std::mem::replace(&mut record.release, Release::Releasing { since }) else {
        tx.stop("a node that is idle")
    };
    let (name, labels) = (record.spec.name.clone(), &record.spec.labels);
    let class = BroughtFor::of(labels).map_or_else(String::new, |brought| brought.class.to_string());
    settle_taints(tx, node);
    tx.touch_node(node);
    tx.tell(EventKind::NodeReleasing { node, name, class, idle_ms: now_ms - since_ms });
}

/// The job whose open request a node with these labels was brought for.
pub fn requester<'a>(cell: &'a Cell, labels: &Labels) -> Option<&'a Arc<Job>> {
    let (job, _) = cell.brought.request(BroughtFor::of(labels)?.request)?;
    cell.jobs.get(job)
}

/// The nodes that go back to who brought them and are not taken back yet.
pub fn releasing_nodes(cell: &Cell) -> impl Iterator<Item = (NodeId, &Arc<NodeRecord>)> {
    let records = cell.brought.nodes().filter_map(|node| Some((node, cell.nodes.get(node)?)));
    records.filter(|(_, record)| record.releasing().is_some())
}

/// Whether a node with these labels is kept for the job that asked for it.
pub(crate) fn is_kept_for_request(cell: &Cell, labels: &Labels) -> bool {
    let Some(brought) = BroughtFor::of(labels).filter(|_| !bug::is_planted(Bug::OpenBrought)) else { return false };
    let is_exclusive = |class: &str| cell.provisioning_classes.get(class).is_some_and(|class| class.is_exclusive());
    let Some((job, class)) = cell.brought.request(brought.request) else { return is_exclusive(brought.class) };
    is_exclusive(brought.class) || is_exclusive(class) || waits(cell, job)
}

/// Whether something of the job waits to be placed, or is about to.
fn waits(cell: &Cell, job: JobId) -> bool {
    let waits = |group: &Group| !group.pending.is_empty() || group.backing_off + group.held > 0 || group.driven > 0;
    cell.jobs.get(job).is_some_and(|job| job.groups.iter().any(waits))
}

/// Whether nobody uses a node that was brought, and nobody is about to: its class may take it back. One that is asked
/// whether the nodes of a request are there still takes them back when the request is over.
pub(crate) fn is_idle(cell: &Cell, node: NodeId, record: &NodeRecord) -> bool {
    let Some(brought) = BroughtFor::of(&record.spec.labels) else { return false };
    let Some(class) = cell.provisioning_classes.get(brought.class) else { return false };
    let request = cell.brought.request(brought.request);
    request.is_none_or(|(job, _)| class.watch_seconds == 0 && !waits(cell, job))
        && cell.nodes.run_count(node) == 0
        && cell.kept.on_node(node).next().is_none()
        && cell.nominations.on_node(node).is_empty()
}
