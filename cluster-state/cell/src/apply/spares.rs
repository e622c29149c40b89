//! Spares held, used and given back.
//!
//! Nothing else gives them back: after each command, what it changed is looked at, and a spare that may not be where it
//! is, that is one too many, or that finds no room any more, is gone.

use super::Applied;
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::rooms::overlay::Overlay;
use crate::state::jobs::Job;
use crate::state::nodes::NOMINATED;
use ohm_model::{EventKind, GroupIndex, JobId, NodeId, Nomination, Placement, SessionId};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How much an entry had changed before the command at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    nodes: usize,
    jobs: usize,
}

impl Before {
    pub(super) fn of(applied: &Applied) -> Self {
        Before { nodes: applied.nodes.len(), jobs: applied.jobs.len() }
    }
}

impl Cell {
    pub(super) fn hold_spare(&mut self, row: &Nomination, applied: &mut Applied) {
        let (id, group, count, since) = (row.job, row.group.0, row.count, self.applied);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(state) = job.groups.get_mut(usize::from(group)) else { return };
        state.spares += count;
        let name = job.spec.name.clone();
        let held = Held::spare(job, row.group, count, since);
        self.hold(row.node, held, applied);
        self.charge_spares(id, group, i64::from(count));
        applied.jobs.push(id);
        self.tell(applied, EventKind::SpareHeld { job: id, name, group, node: row.node, count });
    }

    /// What was lost and is placed on `node` takes spares there first; whoever places it touches the node.
    pub(super) fn use_spares(&mut self, placement: &Placement, count: u32, applied: &mut Applied) {
        let (id, group, first) = (placement.job, placement.group, placement.first.0);
        let Some(state) = self.jobs.get(id).and_then(|job| job.groups.get(usize::from(group.0))) else { return };
        if state.spares == 0 {
            return;
        }
        // What is on the move has a room of its own.
        let lost =
            (first..first + count).filter(|task| state.lost.contains(*task, 1) && !state.moving.contains(*task, 1));
        let used = (lost.count() as u32).min(self.spares_on(id, group, placement.node));
        self.drop_spares((id, group.0), placement.node, used, "used", applied);
    }

    /// Gives back spares of the group on `node`; the caller touches it.
    pub(super) fn drop_spares(
        &mut self,
        (id, group): (JobId, u16),
        node: NodeId,
        count: u32,
        reason: &str,
        applied: &mut Applied,
    ) {
        let count = count.min(self.spares_on(id, GroupIndex(group), node));
        if count == 0 {
            return;
        }
        self.sweep_nominations(node, |held| {
            if held.spares(id, group) {
                held.count -= count;
            }
            held.count > 0
        });
        self.charge_spares(id, group, -i64::from(count));
        applied.jobs.push(id);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(state) = job.groups.get_mut(usize::from(group)) else { return };
        state.spares -= count;
        let (name, reason) = (job.spec.name.clone(), reason.to_string());
        self.tell(applied, EventKind::SpareGone { job: id, name, group, node, count, reason });
    }

    fn charge_spares(&mut self, id: JobId, group: u16, count: i64) {
        let Some(job) = self.jobs.get(id).filter(|job| !job.spec.queue.is_empty()) else { return };
        let (queue, Some(shape)) = (job.spec.queue.clone(), self.shape_of(job, usize::from(group))) else { return };
        let shape = Arc::clone(shape);
        self.charge_queue(&queue, shape.requests.iter().map(|&(resource, request)| (resource, request * count)));
    }

    /// All spares of `job` are given back.
    pub(super) fn clear_spares(&mut self, id: JobId, reason: &str, applied: &mut Applied) {
        for (node, held) in self.spares_held(id) {
            self.drop_spares((id, held.group), node, held.count, reason, applied);
            self.touch_node(node, applied);
        }
    }

    /// All spares on `node` are given back.
    pub(super) fn clear_spares_on(&mut self, node: NodeId, reason: &str, applied: &mut Applied) {
        let spares = self.nominations.on_node(node).iter().filter(|held| held.is_spare());
        for held in spares.cloned().collect::<Vec<_>>() {
            self.drop_spares((held.job, held.group), node, held.count, reason, applied);
        }
    }

    /// The spares of `job`, last nodes first.
    fn spares_held(&self, id: JobId) -> Vec<(NodeId, Held)> {
        if self.jobs.get(id).is_none_or(|job| job.groups.iter().all(|group| group.spares == 0)) {
            return Vec::new();
        }
        let spares = self.nominations.of_job(id).rev().filter(|(_, held)| held.is_spare());
        spares.map(|(node, held)| (node, held.clone())).collect()
    }

    /// Gives back what may not be held any more, of the nodes and jobs that changed since `before`.
    pub(super) fn settle_spares(&mut self, before: Before, applied: &mut Applied) {
        if self.nominations.is_empty() {
            return;
        }
        let holds =
            |job: &JobId| self.jobs.get(*job).is_some_and(|job| job.groups.iter().any(|group| group.spares > 0));
        let jobs: BTreeSet<JobId> = applied.jobs[before.jobs..].iter().copied().filter(holds).collect();
        let nominated = |node: &NodeId| self.nodes.flags(*node) & NOMINATED != 0;
        let nodes: BTreeSet<NodeId> = applied.nodes[before.nodes..].iter().copied().filter(nominated).collect();
        jobs.into_iter().for_each(|job| self.settle_spares_of(job, applied));
        nodes.into_iter().for_each(|node| self.settle_spares_on(node, applied));
    }

    fn settle_spares_of(&mut self, id: JobId, applied: &mut Applied) {
        for (node, held) in self.spares_held(id) {
            if let Some(why) = self.spare_misplaced(&held, node) {
                self.drop_spares((id, held.group), node, held.count, why, applied);
                self.touch_node(node, applied);
            }
        }
        for (node, held) in self.spares_held(id) {
            let Some(job) = self.jobs.get(id) else { return };
            let at = usize::from(held.group);
            let excess = job.groups[at].spares.saturating_sub(job.spares_wanted(at)).min(held.count);
            if excess > 0 {
                self.drop_spares((id, held.group), node, excess, "its group needs it no more", applied);
                self.touch_node(node, applied);
            }
        }
        self.settle_quota_of_spares(id, applied);
    }

    /// A job whose queue is over its quota gives back its spares first.
    fn settle_quota_of_spares(&mut self, id: JobId, applied: &mut Applied) {
        for (node, held) in self.spares_held(id) {
            let over = |cell: &Cell, job: &Job| {
                let shape = cell.shape_of(job, usize::from(held.group));
                let mut requests = shape.iter().flat_map(|shape| &shape.requests);
                requests.any(|(column, _)| cell.quota.available(&job.spec.queue, *column).is_some_and(|left| left < 0))
            };
            for _ in 0..held.count {
                if !self.jobs.get(id).is_some_and(|job| over(self, job)) {
                    break;
                }
                self.drop_spares((id, held.group), node, 1, "its queue is over its quota", applied);
                self.touch_node(node, applied);
            }
        }
    }

    /// The most important spares stay, then the oldest, each with as much as there is room for.
    fn settle_spares_on(&mut self, node: NodeId, applied: &mut Applied) {
        let on_node = self.nominations.on_node(node).to_vec();
        let (mut spares, others): (Vec<Held>, Vec<Held>) = on_node.into_iter().partition(Held::is_spare);
        let mut over = Overlay::over(self);
        over.bare(node);
        others.into_iter().filter(Held::is_move).for_each(|held| over.hold(node, held));
        spares.sort_by_key(|held| (Reverse(held.priority), held.since, held.job, held.group));
        let mut any = false;
        for held in spares {
            let misplaced = self.spare_misplaced(&held, node);
            let most = match (misplaced, self.jobs.get(held.job)) {
                (None, Some(job)) => self.room_for_spares((job, GroupIndex(held.group)), node, held.count, &over),
                _ => 0,
            };
            let gone = held.count - most;
            let why = misplaced.unwrap_or("its room is taken");
            self.drop_spares((held.job, held.group), node, gone, why, applied);
            any |= gone > 0;
            over.hold(node, Held { count: most, ..held });
        }
        if any {
            self.nodes.touch(node, self.applied, SessionId(0));
            applied.nodes.push(node);
        }
    }

    /// Room that is reserved for tasks on the move takes spares of their group on the node first.
    pub(super) fn move_onto_spares(&mut self, row: &Nomination, count: u32, applied: &mut Applied) {
        let used = count.min(self.spares_on(row.job, GroupIndex(row.group.0), row.node));
        self.drop_spares((row.job, row.group.0), row.node, used, "used", applied);
    }
}
