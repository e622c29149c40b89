//! Spares: room for some more tasks of a group that runs, held for those it may lose.
//!
//! A spare is no task: nothing runs there. It is charged to the queue as a task is, and binds everybody of the same or
//! a lower priority but its own job: what waits of that is never kept waiting by a spare. A task that was lost, or that
//! has to leave its node, is placed where a spare is before anything is searched for, and the spare is used up.
//!
//! Invariants: only groups that have started hold spares, no more than [`Job::spares_wanted`]; each one is where a task
//! of the group may run, inside the group's domain, and there is room for it beside everything that binds it.

use crate::apply::Tx;
use crate::apply::steps::holds::{hold, sweep_nominations};
use crate::cell::Cell;
use crate::planted;
use crate::rooms::grid::Grid;
use crate::rooms::nominations::Held;
use crate::rooms::overlay::Overlay;
use crate::rooms::quota_if::QuotaIf;
use crate::rooms::reads::room_for_spares;
use crate::state::jobs::{Job, JobState, Task};
use crate::state::nodes::{NOMINATED, PRESENT, READY, STATE_MASK};
use ohm_model::{EventKind, FlavorResource, GroupIndex, JobId, NodeHealth, NodeId, Nomination, Placement};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Job {
    /// How many spares group `group` is to have: as it asks for, but never more than it has tasks to lose.
    pub fn spares_wanted(&self, group: usize) -> u32 {
        let may = self.groups.get(group).is_some_and(|state| state.started) && !self.is_down();
        if may && self.state == JobState::Active { spares_at_most(self, group) } else { 0 }
    }

    /// How many spares group `group` lacks.
    pub fn spares_missing(&self, group: usize) -> u32 {
        let held = self.groups.get(group).map_or(0, |state| state.spares);
        self.spares_wanted(group).saturating_sub(held)
    }

    /// Whether spares are to be sought now: some are missing, and no task waits to be placed, soon or now.
    pub fn seeks_spares(&self) -> bool {
        let waits = |group: &crate::state::jobs::Group| {
            let idle = group.pending.is_empty() && group.backing_off + group.held == 0;
            !(idle && group.lost.is_empty() && group.moving.is_empty() && group.leaving == 0)
        };
        (0..self.groups.len()).any(|group| self.spares_missing(group) > 0) && !self.groups.iter().any(waits)
    }
}

/// How many spares group `group` is to have once it runs.
pub fn spares_at_most(job: &Job, group: usize) -> u32 {
    let (Some(state), Some(spec)) = (job.groups.get(group), job.spec.groups.get(group)) else { return 0 };
    let over = state.succeeded + state.failed + state.skipped;
    spec.spares.min(spec.count.saturating_sub(over))
}

/// The job as it would be if so many more tasks of each group waited: planners find places for spares on it. Their
/// numbers go on behind the group's tasks. A reservation covers none of them.
pub fn as_if_spared(known: &Job, spares: impl Fn(&Job, usize) -> u32) -> Job {
    let mut job = known.clone();
    for at in 0..job.groups.len() {
        let more = spares(known, at);
        let floor = job.floor;
        let group = &mut job.groups[at];
        planted::show_to_planners(group);
        let first = group.tasks.len() as u32;
        group.tasks.resize((first + more) as usize, Task::new(floor));
        if more > 0 {
            group.pending.insert(first, more);
        }
    }
    job
}

pub(crate) fn hold_spare(tx: &mut Tx<'_>, row: &Nomination) {
    let (id, group, count, since) = (row.job, row.group.0, row.count, tx.index());
    let job = tx.job_mut(id);
    job.groups[usize::from(group)].spares += count;
    let name = job.spec.name.clone();
    let held = Held::spare(job, row.group, count, since);
    hold(tx, row.node, held);
    charge_spares(tx, id, group, i64::from(count));
    tx.touch_job(id);
    tx.tell(EventKind::SpareHeld { job: id, name, group, node: row.node, count });
}

/// What was lost and is placed on `node` takes spares there first; whoever places it touches the node.
pub(crate) fn use_spares(tx: &mut Tx<'_>, placement: &Placement, count: u32) {
    let (id, group, first) = (placement.job, placement.group, placement.first.0);
    let state = &tx.job(id).groups[usize::from(group.0)];
    if state.spares == 0 {
        return;
    }
    // What is on the move has a room of its own.
    let lost = (first..first + count).filter(|task| state.lost.contains(*task, 1) && !state.moving.contains(*task, 1));
    let used = (lost.count() as u32).min(tx.spares_on(id, group, placement.node));
    drop_spares(tx, (id, group.0), placement.node, used, "used");
}

/// Gives back spares of the group on `node`; the caller touches it.
fn drop_spares(tx: &mut Tx<'_>, (id, group): (JobId, u16), node: NodeId, count: u32, reason: &str) {
    let count = count.min(tx.spares_on(id, GroupIndex(group), node));
    if count == 0 {
        return;
    }
    sweep_nominations(tx, node, |held| {
        if held.spares(id, group) {
            held.count -= count;
        }
        held.count > 0
    });
    charge_spares(tx, id, group, -i64::from(count));
    tx.touch_job(id);
    let job = tx.job_mut(id);
    job.groups[usize::from(group)].spares -= count;
    let (name, reason) = (job.spec.name.clone(), reason.to_string());
    tx.tell(EventKind::SpareGone { job: id, name, group, node, count, reason });
}

fn charge_spares(tx: &mut Tx<'_>, id: JobId, group: u16, count: i64) {
    let job = tx.job(id);
    if job.spec.queue.is_empty() {
        return;
    }
    let queue = job.spec.queue.clone();
    let shape = Arc::clone(tx.shape(job.groups[usize::from(group)].shape));
    tx.charge_queue(&queue, shape.charges.iter().map(|&(column, request)| (column, request * count)));
}

/// All spares of `job` are given back.
pub(crate) fn clear_spares(tx: &mut Tx<'_>, id: JobId, reason: &str) {
    for (node, held) in spares_held(tx, id) {
        drop_spares(tx, (id, held.group), node, held.count, reason);
        tx.touch_node(node);
    }
}

/// All spares on `node` are given back.
pub(crate) fn clear_spares_on(tx: &mut Tx<'_>, node: NodeId, reason: &str) {
    let spares = tx.nominations.on_node(node).iter().filter(|held| held.is_spare());
    for held in spares.cloned().collect::<Vec<_>>() {
        drop_spares(tx, (held.job, held.group), node, held.count, reason);
    }
}

/// The spares of `job`, last nodes first.
fn spares_held(cell: &Cell, id: JobId) -> Vec<(NodeId, Held)> {
    if cell.jobs.get(id).is_none_or(|job| job.groups.iter().all(|group| group.spares == 0)) {
        return Vec::new();
    }
    let spares = cell.nominations.of_job(id).rev().filter(|(_, held)| held.is_spare());
    spares.map(|(node, held)| (node, held.clone())).collect()
}

/// Gives back what may not be held any more, of the nodes and jobs that the command has touched.
pub(crate) fn settle_spares(tx: &mut Tx<'_>) {
    if !tx.nominations.has_spares() {
        return;
    }
    let holds = |job: &JobId| tx.jobs.get(*job).is_some_and(|job| job.groups.iter().any(|group| group.spares > 0));
    let jobs: BTreeSet<JobId> = tx.touched_jobs().iter().copied().filter(holds).collect();
    let nominated = |node: &NodeId| tx.nodes.flags(*node) & NOMINATED != 0;
    let nodes: BTreeSet<NodeId> = tx.touched_nodes().iter().copied().filter(nominated).collect();
    jobs.into_iter().for_each(|job| settle_spares_of(tx, job));
    nodes.into_iter().for_each(|node| settle_spares_on(tx, node));
}

fn settle_spares_of(tx: &mut Tx<'_>, id: JobId) {
    for (node, held) in spares_held(tx, id) {
        if let Some(why) = spare_misplaced(tx, &held, node) {
            drop_spares(tx, (id, held.group), node, held.count, why);
            tx.touch_node(node);
        }
    }
    for (node, held) in spares_held(tx, id) {
        let job = tx.job(id);
        let at = usize::from(held.group);
        let excess = job.groups[at].spares.saturating_sub(job.spares_wanted(at)).min(held.count);
        if excess > 0 {
            drop_spares(tx, (id, held.group), node, excess, "its group needs it no more");
            tx.touch_node(node);
        }
    }
    settle_quota_of_spares(tx, id);
}

/// A job whose queue is over its quota gives back its spares first. What is promised to those for whom others stop is
/// not there for spares either.
fn settle_quota_of_spares(tx: &mut Tx<'_>, id: JobId) {
    for (node, held) in spares_held(tx, id) {
        for _ in 0..held.count {
            if !tx.jobs.get(id).is_some_and(|job| is_over_quota(tx, job, usize::from(held.group))) {
                break;
            }
            drop_spares(tx, (id, held.group), node, 1, "its queue is over its quota");
            tx.touch_node(node);
        }
    }
}

/// The most important spares stay, then the oldest, each with as much as there is room for.
pub(crate) fn settle_spares_on(tx: &mut Tx<'_>, node: NodeId) {
    if !tx.nominations.on_node(node).iter().any(Held::is_spare) {
        return;
    }
    let on_node = tx.nominations.on_node(node).to_vec();
    let (mut spares, others): (Vec<Held>, Vec<Held>) = on_node.into_iter().partition(Held::is_spare);
    let mut over = Overlay::default();
    over.bare(node);
    others.into_iter().filter(|held| !held.is_promised()).for_each(|held| over.hold(node, held));
    spares.sort_by_key(|held| (Reverse(held.priority), held.since, held.job, held.group));
    let mut any = false;
    for held in spares {
        let misplaced = spare_misplaced(tx, &held, node);
        let most = match (misplaced, tx.jobs.get(held.job)) {
            (None, Some(job)) => room_for_spares(tx, (job, GroupIndex(held.group)), node, held.count, &over),
            _ => 0,
        };
        let gone = held.count - most;
        let why = misplaced.unwrap_or("its room is taken");
        drop_spares(tx, (held.job, held.group), node, gone, why);
        any |= gone > 0;
        over.hold(node, Held { count: most, ..held });
    }
    if any {
        tx.touch_node(node);
    }
}

/// Room that is reserved for tasks on the move takes spares of their group on the node first.
pub(crate) fn move_onto_spares(tx: &mut Tx<'_>, row: &Nomination, count: u32) {
    let used = count.min(tx.spares_on(row.job, GroupIndex(row.group.0), row.node));
    drop_spares(tx, (row.job, row.group.0), row.node, used, "used");
}

/// Why a spare may not be on `node`, whatever room there is; nothing if it may. A node that is only suspected may
/// be back in a moment.
pub(crate) fn spare_misplaced(cell: &Cell, held: &Held, node: NodeId) -> Option<&'static str> {
    let Some(job) = cell.jobs.get(held.job) else { return Some("its job is gone") };
    let group = usize::from(held.group);
    if job.state != JobState::Active && job.spares_wanted(group) == 0 {
        return Some("its job is over or suspended");
    }
    if job.spares_wanted(group) == 0 {
        return Some("its group needs it no more");
    }
    let Some(record) = cell.nodes.get(node) else { return Some("its node is gone") };
    if record.health == NodeHealth::Lost {
        return Some("its node is lost");
    }
    if (cell.nodes.flags(node) | READY) & STATE_MASK != PRESENT | READY {
        return Some("its node takes no work");
    }
    if !cell.admits(job.groups[group].shape, node) {
        return Some("its group may not run on the node");
    }
    let domain = job.shared_domain(group);
    let astray = domain
        .is_some_and(|domain| job.binding_level(group).is_some() && cell.domain_key(job, group, node) != Some(domain));
    astray.then_some("its group is in another domain")
}

/// Whether the queue of `job` uses more than it may of something that the group asks for, or takes what is promised to
/// others.
fn is_over_quota(cell: &Cell, job: &Job, group: usize) -> bool {
    let Some(queue) = cell.quota.find(&job.spec.queue) else { return false };
    let promised = (!cell.preemptions.is_empty()).then(|| QuotaIf::promised(cell, job));
    let is_over = |column: FlavorResource| {
        let left = cell.quota.available_over(queue, column, &Grid::default());
        let beside = promised.as_ref().and_then(|tree| tree.available(queue, column));
        left.is_some_and(|left| left < 0) || beside.is_some_and(|left| left < 0)
    };
    let shape = cell.shape_of(job, group);
    shape.iter().flat_map(|shape| &shape.charges).any(|(column, _)| is_over(*column))
}
