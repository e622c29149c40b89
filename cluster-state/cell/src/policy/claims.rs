//! Claims: room that is owed to what jobs lost with nodes, and how it comes to be kept for them.
//!
//! ```text
//! no room found ─▶ claim ─▶ what is free where the tasks may go, and what becomes free there, is earmarked,
//!                   │       never more than they lack ─▶ tasks are placed ─▶ their earmarks go
//!                   └─ ends with the repair, with another content of its job, or when its time is over
//! ```
//! An earmark is room by amount for certain tasks ([`Held`] with `Purpose::Repair`), not a plan: a planner may place
//! the tasks elsewhere. It binds everybody but its own job, more important or older repairs, and runs that come back
//! with their node.
//!
//! Invariants, swept: whoever has earmarks has a claim; each one is for a task that is lost and waits, once, where it
//! may be placed, and there is room for it beside what runs, moves and the earmarks of repairs that go before.

use crate::apply::Tx;
use crate::apply::steps::holds::{hold, sweep_nominations};
use crate::cell::Cell;
use crate::judge::slices::may_join;
use crate::policy::brought::requester;
use crate::policy::spares::settle_spares_on;
use crate::rooms::nominations::{Held, OpenClaim, Turn};
use crate::rooms::overlay::Overlay;
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::{Job, TaskState};
use crate::state::nodes::NOMINATED;
use crate::state::timers::Timer;
use ohm_model::{Claim, EventKind, GroupIndex, JobId, NodeId};
use ohm_stdx::RangeSet;
use ohm_stdx::bug::{self, Bug};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// From now on room is owed to the group; what is free already is given at the end of the command.
pub(crate) fn make_claim(tx: &mut Tx<'_>, row: &Claim) {
    tx.nominations.put_claim((row.job, row.group.0), OpenClaim { sought_for: 0 });
    tx.job_mut(row.job).repairs.open.iter_mut().for_each(|open| _ = open.without_room.insert(row.group));
    let job = tx.job(row.job);
    let (name, tasks) = (job.spec.name.clone(), job.owed(row.group).len());
    let until_ms = job.owed_until_ms();
    tx.tell(EventKind::RoomClaimed { job: row.job, name, group: row.group.0, tasks });
    tx.touch_job(row.job);
    if let Some(until_ms) = until_ms {
        tx.arm(until_ms, Timer::Claim(row.job));
    }
}

/// The time for which room is owed to `id` may be over.
pub(crate) fn end_claims(tx: &mut Tx<'_>, id: JobId) {
    if tx.nominations.claims_of(id).next().is_none() {
        return;
    }
    let until_ms = tx.jobs.get(id).and_then(|job| job.owed_until_ms()).unwrap_or(0);
    // A later loss has set it anew.
    if until_ms > tx.now_ms {
        return tx.arm(until_ms, Timer::Claim(id));
    }
    clear_claims(tx, id, "its time is over");
}

/// Nothing is owed to `id` any more.
pub(crate) fn clear_claims(tx: &mut Tx<'_>, id: JobId, reason: &str) {
    let groups: Vec<u16> = tx.nominations.claims_of(id).map(|(group, _)| group).collect();
    groups.into_iter().for_each(|group| clear_claim(tx, (id, group), reason));
}

fn clear_claim(tx: &mut Tx<'_>, (id, group): (JobId, u16), reason: &str) {
    drop_where(tx, (id, group), reason, |_, _, _| true);
    tx.nominations.end_claim((id, group));
    let (name, reason) = (name_of(tx, id), reason.to_string());
    tx.tell(EventKind::ClaimOver { job: id, name, group, reason });
    tx.touch_job(id);
}

/// What is earmarked on `node` is given back, whoever it is for.
pub(crate) fn clear_earmarks_on(tx: &mut Tx<'_>, node: NodeId, reason: &str) {
    let earmarks = tx.nominations.on_node(node).iter().filter(|held| held.is_earmark());
    for held in earmarks.cloned().collect::<Vec<_>>() {
        lose_earmark(tx, (held.job, held.group), node, &held.tasks, reason);
    }
}

/// Gives back what may be kept no longer. Called after every command, over the nodes and jobs that it named, before
/// spares are looked at: those yield to it. Where nobody claims anything it costs one look.
pub(crate) fn settle_claims(tx: &mut Tx<'_>) {
    if !tx.nominations.has_claims() {
        return;
    }
    let claims = |job: &JobId| tx.nominations.claims_of(*job).next().is_some();
    let jobs: BTreeSet<JobId> = tx.touched_jobs().iter().copied().filter(claims).collect();
    let nominated = |node: &NodeId| tx.nodes.flags(*node) & NOMINATED != 0;
    let touched = tx.touched_nodes().iter().copied().filter(nominated);
    // Where a job may be placed changes with its domain.
    let of_jobs = jobs.iter().flat_map(|job| tx.nominations.of_job(*job).filter(|(_, held)| held.is_earmark()));
    let nodes: BTreeSet<NodeId> = touched.chain(of_jobs.map(|(node, _)| node)).collect();
    jobs.into_iter().for_each(|job| settle_claims_of(tx, job));
    nodes.into_iter().for_each(|node| settle_earmarks_on(tx, node));
}

/// Gives what became free to whom it is owed, once all that was to be given back in this command has been.
pub(crate) fn give_owed_room(tx: &mut Tx<'_>) {
    if !tx.nominations.has_claims() {
        return;
    }
    // In their order, as for what becomes free.
    let claims: BTreeSet<(Option<Turn>, JobId)> = tx.touched_jobs().iter().map(|job| (turn(tx, *job), *job)).collect();
    claims.into_iter().for_each(|(_, job)| seek_anew(tx, job));
    let freed: BTreeSet<NodeId> = tx.freed_nodes().iter().copied().collect();
    give_freed(tx, &freed);
}

fn settle_claims_of(tx: &mut Tx<'_>, id: JobId) {
    let groups: Vec<u16> = tx.nominations.claims_of(id).map(|(group, _)| group).collect();
    for group in groups {
        let owed = tx.jobs.get(id).map(|job| job.owed(GroupIndex(group))).unwrap_or_default();
        if bug::is_planted(Bug::KeepEarmarks) {
            continue;
        }
        drop_where(tx, (id, group), "used", |cell, node, rank| place_of(cell, (id, group), rank) == Some(node));
        drop_where(tx, (id, group), "its task is elsewhere", |cell, _, rank| {
            place_of(cell, (id, group), rank).is_some()
        });
        drop_where(tx, (id, group), "nothing of it waits any more", |_, _, rank| !owed.contains(rank, 1));
        if owed.is_empty() {
            clear_claim(tx, (id, group), "nothing of it waits for room any more");
            continue;
        }
        leave_slices(tx, (id, group));
        if tx.nominations.claim(id, GroupIndex(group)).is_some_and(|claim| claim.sought_for > owed.len()) {
            tx.nominations.put_claim((id, group), OpenClaim { sought_for: owed.len() });
        }
    }
}

/// Where the task has a place again.
fn place_of(cell: &Cell, (id, group): (JobId, u16), rank: u32) -> Option<NodeId> {
    let group = cell.jobs.get(id).and_then(|job| job.groups.get(usize::from(group)))?;
    let task = group.tasks.get(rank as usize).filter(|task| task.state == TaskState::Live)?;
    cell.runs.get(task.run).map(|run| run.node)
}

/// Gives back what is earmarked where others of the slice are not any more: it is sought elsewhere.
fn leave_slices(tx: &mut Tx<'_>, (id, group): (JobId, u16)) {
    let (job, at) = (tx.job(id).clone(), usize::from(group));
    if job.spec.groups[at].slices().is_empty() {
        return;
    }
    let astray = |tx: &Cell, node: NodeId, rank: u32| !may_join(tx, (&job, at), rank, node);
    for (node, tasks) in earmarked_where(tx, (id, group), astray) {
        lose_earmark(tx, (id, group), node, &tasks, "the others of its slice are elsewhere");
    }
}

/// More is lost than room was sought for: it is sought on all nodes.
fn seek_anew(tx: &mut Tx<'_>, id: JobId) {
    let claims: Vec<(u16, OpenClaim)> = tx.nominations.claims_of(id).map(|(group, claim)| (group, *claim)).collect();
    for (group, claim) in claims {
        let owed = tx.jobs.get(id).map(|job| job.owed(GroupIndex(group))).unwrap_or_default();
        if owed.len() <= claim.sought_for || is_over(tx, id) || is_nowhere(tx, (id, group)) {
            continue;
        }
        tx.nominations.put_claim((id, group), OpenClaim { sought_for: owed.len() });
        let mut lacking = lacking_of(tx, (id, group));
        for node in (0..tx.nodes.slots() as u32).map(NodeId) {
            if lacking.is_empty() {
                break;
            }
            earmark(tx, (id, group), node, &mut lacking);
        }
    }
}

/// Whether the time is over for which room is owed to a job: its claims end with the next look at its alarm.
fn is_over(cell: &Cell, id: JobId) -> bool {
    cell.jobs.get(id).and_then(|job| job.owed_until_ms()).is_none_or(|until_ms| until_ms <= cell.now_ms)
}

/// Whether a group must be in one domain and is in none: what is kept for it in several would be of no use, and where
/// it goes is not known before one of its tasks is placed.
fn is_nowhere(cell: &Cell, (id, group): (JobId, u16)) -> bool {
    let at = usize::from(group);
    cell.jobs.get(id).is_some_and(|job| job.binding_level(at).is_some() && job.shared_domain(at).is_none())
}

/// The place of a job among repairs.
fn turn(cell: &Cell, id: JobId) -> Option<Turn> {
    let job = cell.jobs.get(id)?;
    Some((Reverse(job.spec.priority), job.repairs.open.as_ref()?.since, id))
}

/// The most important repair comes first, then the oldest.
fn give_freed(tx: &mut Tx<'_>, freed: &BTreeSet<NodeId>) {
    if freed.is_empty() || bug::is_planted(Bug::ForgetClaims) {
        return;
    }
    let mut claims: Vec<(Option<Turn>, (JobId, u16))> =
        tx.nominations.claims().map(|(of, _)| (turn(tx, of.0), of)).collect();
    claims.retain(|(_, of)| !is_over(tx, of.0) && !is_nowhere(tx, *of));
    claims.sort_unstable();
    let mut lacking: BTreeMap<(JobId, u16), RangeSet> = BTreeMap::new();
    for &node in freed {
        for &(_, of) in &claims {
            let lacking = lacking.entry(of).or_insert_with(|| lacking_of(tx, of));
            if !lacking.is_empty() {
                earmark(tx, of, node, lacking);
            }
        }
    }
}

/// The tasks of a claim that no room is earmarked for yet.
pub(crate) fn lacking_of(cell: &Cell, (id, group): (JobId, u16)) -> RangeSet {
    let Some(job) = cell.jobs.get(id) else { return RangeSet::default() };
    let mut lacking = job.owed(GroupIndex(group));
    for (_, held) in cell.nominations.of_job(id).filter(|(_, held)| held.earmarks(id, group)) {
        lacking.remove_all(&held.tasks);
    }
    lacking
}

/// Earmarks on `node` what there is room for of the tasks that are `lacking` it.
fn earmark(tx: &mut Tx<'_>, (id, group): (JobId, u16), node: NodeId, lacking: &mut RangeSet) {
    let at = usize::from(group);
    let Some(tasks) = fitting(tx, (id, at), node, lacking) else { return };
    let job = tx.job(id);
    let since = job.repairs.open.as_ref().map_or(tx.index(), |open| open.since);
    let held = Held::earmark(job, group, tasks.clone(), since);
    let (name, count) = (job.spec.name.clone(), held.count);
    hold(tx, node, held);
    settle_spares_on(tx, node);
    tx.touch_job(id);
    lacking.remove_all(&tasks);
    tx.tell(EventKind::RoomEarmarked { job: id, name, group, node, count });
}

/// Those of `lacking` that find room on `node`; nothing if there is none.
fn fitting(cell: &Cell, (id, at): (JobId, usize), node: NodeId, lacking: &RangeSet) -> Option<RangeSet> {
    let job = cell.jobs.get(id)?;
    let shape = cell.shape_of(job, at)?;
    // Most nodes have nothing free: that is told before the rules are asked.
    if !shape.requests.iter().all(|(resource, amount)| cell.nodes.free(node, *resource) >= *amount) {
        return None;
    }
    let most = room_for_repair(cell, (job, GroupIndex(at as u16)), node, lacking.len(), &Overlay::default());
    let sliced = !job.spec.groups[at].slices().is_empty();
    let ranks = lacking.values();
    let ranks = ranks.filter(|rank| !sliced || may_join(cell, (job, at), *rank, node)).take(most as usize);
    let mut tasks = RangeSet::default();
    ranks.for_each(|rank| tasks.insert(rank, 1));
    (!tasks.is_empty()).then_some(tasks)
}

/// How many of `most` lost tasks of the group find room on `node`, in the cell with `over`.
pub(crate) fn room_for_repair(
    cell: &Cell,
    (job, group): (&Job, GroupIndex),
    node: NodeId,
    most: u32,
    over: &Overlay,
) -> u32 {
    let asker = Asker::of(cell, job, group, Wish::Repair);
    asker.map_or(0, |asker| Room::of(&asker, WhatIf { cell, over }, node, most).count)
}

/// The earmarks on `node` in the order they are kept, each with how many of its tasks there is room for.
pub(crate) fn rooms_left(cell: &Cell, node: NodeId) -> Vec<(Held, u32)> {
    let on_node = cell.nominations.on_node(node).iter();
    let (mut earmarks, others): (Vec<&Held>, Vec<&Held>) = on_node.partition(|held| held.is_earmark());
    earmarks.sort_by_key(|held| (held.turn(), held.group));
    let mut over = Overlay::default();
    over.bare(node);
    // Preemptors are promised room without anybody asking whether it is there, and spares yield.
    others.into_iter().filter(|held| held.is_move()).for_each(|held| over.hold(node, held.clone()));
    let mut left = Vec::new();
    for held in earmarks {
        let job =
            cell.jobs.get(held.job).filter(|_| cell.nominations.claim(held.job, GroupIndex(held.group)).is_some());
        let most = job.map_or(0, |job| room_for_repair(cell, (job, GroupIndex(held.group)), node, held.count, &over));
        over.hold(node, Held { count: most, ..held.clone() });
        left.push((held.clone(), most));
    }
    left
}

/// The earmarks of the most important repairs stay, each with as much as there is room for.
fn settle_earmarks_on(tx: &mut Tx<'_>, node: NodeId) {
    if !tx.nominations.on_node(node).iter().any(Held::is_earmark) {
        return;
    }
    let usable = tx.nodes.is_schedulable(node);
    for (held, most) in rooms_left(tx, node) {
        let mut over = held.tasks.clone();
        let kept = held.tasks.values().take(most as usize);
        kept.collect::<Vec<_>>().into_iter().for_each(|rank| over.remove(rank, 1));
        let why = match usable {
            false => "its node takes no work",
            true if most == 0 && !may_be_on(tx, &held, node) => "its group may not run on the node",
            true => "its room is taken",
        };
        lose_earmark(tx, (held.job, held.group), node, &over, why);
    }
}

/// Whether tasks of the group may be on the node, whatever room there is.
fn may_be_on(cell: &Cell, held: &Held, node: NodeId) -> bool {
    let shape =
        cell.jobs.get(held.job).and_then(|job| job.groups.get(usize::from(held.group))).map(|group| group.shape);
    shape.is_some_and(|shape| cell.admits(shape, node))
}

/// The room is gone, and still owed: it is sought elsewhere.
fn lose_earmark(tx: &mut Tx<'_>, of: (JobId, u16), node: NodeId, tasks: &RangeSet, reason: &str) {
    drop_earmark(tx, of, node, tasks, reason);
    let requester = tx.nodes.get(node).and_then(|record| requester(tx, &record.spec.labels));
    if requester.is_some_and(|job| job.id == of.0) {
        // It was asked for, and has gone before it was used: it is asked for anew.
        tx.job_mut(of.0).repairs.open.iter_mut().for_each(|open| open.end_served(GroupIndex(of.1), tasks));
    }
    if let Some(claim) = tx.nominations.claim(of.0, GroupIndex(of.1)).copied() {
        tx.nominations.put_claim(of, OpenClaim { sought_for: claim.sought_for.saturating_sub(tasks.len()) });
    }
}

/// Gives back what is earmarked for those tasks of a group that `which` names.
fn drop_where(tx: &mut Tx<'_>, of: (JobId, u16), reason: &str, which: impl Fn(&Cell, NodeId, u32) -> bool) {
    let gone = earmarked_where(tx, of, which);
    gone.into_iter().for_each(|(node, tasks)| drop_earmark(tx, of, node, &tasks, reason));
}

/// The earmarked tasks of a group that `which` names, by node.
fn earmarked_where(
    cell: &Cell,
    (id, group): (JobId, u16),
    which: impl Fn(&Cell, NodeId, u32) -> bool,
) -> Vec<(NodeId, RangeSet)> {
    let earmarks = cell.nominations.of_job(id).filter(|(_, held)| held.earmarks(id, group));
    let named = |(node, held): (NodeId, &Held)| {
        let mut tasks = RangeSet::default();
        let ranks = held.tasks.values();
        ranks.filter(|rank| which(cell, node, *rank)).for_each(|rank| tasks.insert(rank, 1));
        (node, tasks)
    };
    earmarks.map(named).filter(|(_, tasks)| !tasks.is_empty()).collect()
}

fn drop_earmark(tx: &mut Tx<'_>, (id, group): (JobId, u16), node: NodeId, tasks: &RangeSet, reason: &str) {
    if tasks.is_empty() {
        return;
    }
    sweep_nominations(tx, node, |held| {
        if held.earmarks(id, group) {
            held.give_back(tasks);
        }
        held.count > 0
    });
    tx.touch_node(node);
    tx.touch_job(id);
    let (name, count, reason) = (name_of(tx, id), tasks.len(), reason.to_string());
    tx.tell(EventKind::EarmarkGone { job: id, name, group, node, count, reason });
}

fn name_of(cell: &Cell, id: JobId) -> String {
    cell.jobs.get(id).map_or_else(String::new, |job| job.spec.name.clone())
}
