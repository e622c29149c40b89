//! Rooms that are planned for one job, for when others have stopped: whether they fit on their nodes.

use crate::cell::Cell;
use crate::rooms::laying::resume_run;
use crate::rooms::overlay::Overlay;
use crate::rooms::reads::{live_run, live_runs};
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::{Group, Job};
use crate::state::preemptions::Stopping;
use crate::state::requests::tasks_of;
use crate::state::runs::Run;
use ohm_model::{GroupIndex, NodeId, Nomination, Purpose, TaskIndex, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// The rooms, by node.
#[derive(Clone, Debug)]
pub struct PlannedRooms<'a> {
    job: &'a Job,
    by_node: BTreeMap<NodeId, Vec<(GroupIndex, u32)>>,
}

impl<'a> PlannedRooms<'a> {
    /// So many tasks of groups of `job` on these nodes.
    pub fn of(job: &'a Job, rooms: impl Iterator<Item = (GroupIndex, NodeId, u32)>) -> Self {
        let mut by_node: BTreeMap<NodeId, Vec<(GroupIndex, u32)>> = BTreeMap::new();
        for (group, node, count) in rooms {
            by_node.entry(node).or_default().push((group, count));
        }
        PlannedRooms { job, by_node }
    }

    /// The rooms of `job` that a transaction names.
    pub(crate) fn named(job: &'a Job, transaction: &Transaction) -> Self {
        Self::of(job, transaction.nominate.iter().map(|room| (room.group, room.node, room.count)))
    }

    /// For how many tasks of each group there are rooms; nothing where there are none.
    pub(crate) fn counts(&self) -> Vec<u32> {
        tasks_of(self.job, self.by_node.values().flatten().copied())
    }

    /// Whether they are for tasks that wait, and enough to start the groups that have not.
    pub(crate) fn are_wanted(&self) -> bool {
        let starts_whole = self.job.starts_whole();
        let is_enough = |(at, group): (usize, &Group)| {
            let count = self.count_of(GroupIndex(at as u16));
            let may_wait = count == 0 && !starts_whole;
            count <= group.pending.len() && (may_wait || count >= self.job.least_to_place(at))
        };
        !self.by_node.is_empty() && self.job.groups.iter().enumerate().all(is_enough)
    }

    /// The nodes, ascending.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.by_node.keys().copied()
    }

    /// Whether one of the rooms is on `node`.
    pub fn has(&self, node: NodeId) -> bool {
        self.by_node.contains_key(&node)
    }

    /// For how many tasks of a group there are rooms.
    pub(crate) fn count_of(&self, group: GroupIndex) -> u32 {
        let rooms = self.by_node.values().flatten().filter(|(of, _)| *of == group);
        rooms.fold(0u32, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether the rooms on `node` fit there together, beside what else is on it and kept there for others: spares of
    /// the job are room for its own tasks. The overlay is as before afterwards.
    pub fn fit_on(&self, cell: &Cell, over: &mut Overlay, node: NodeId) -> bool {
        let (before, was_later) = (over.savepoint(), std::mem::replace(&mut over.later, true));
        if !over.lent.contains(&self.job.id) {
            over.lend_spares(cell, self.job);
        }
        let rooms = self.by_node.get(&node).map_or(&[][..], Vec::as_slice);
        let fit = rooms.iter().all(|&(group, count)| {
            let wish = Wish::Plan { moving: false, within: None };
            let Some(asker) = Asker::of(cell, self.job, group, wish) else { return false };
            let fits = Room::of(&asker, WhatIf { cell, over }, node, count).count >= count;
            let (job, first, purpose) = (self.job.id, TaskIndex(0), Purpose::Spare);
            over.take_nominated(cell, self.job, &Nomination { job, group, node, first, count, purpose });
            fits
        });
        over.roll_back(cell, before);
        over.later = was_later;
        fit
    }

    /// Whether all rooms fit.
    pub(crate) fn fit(&self, cell: &Cell, over: &mut Overlay) -> bool {
        self.nodes().all(|node| self.fit_on(cell, over, node))
    }

    /// Whether they fit if this one stayed that stops on the overlay. It stops on it afterwards, too.
    pub(crate) fn fit_beside(&self, cell: &Cell, over: &mut Overlay, victim: Stopping<'_>) -> bool {
        let before = over.savepoint();
        let mut nodes = BTreeSet::new();
        for run in runs_to_stop(cell, victim).filter(|run| self.has(run.node)) {
            resume_run(over, cell, run);
            nodes.insert(run.node);
        }
        let fit = nodes.into_iter().all(|node| self.fit_on(cell, over, node));
        over.roll_back(cell, before);
        fit
    }
}

/// The live runs that are told to stop with this victim: those that do not stop already.
pub(crate) fn runs_to_stop<'a>(cell: &'a Cell, victim: Stopping<'a>) -> impl Iterator<Item = &'a Run> {
    let all = victim.is_whole().then(|| live_runs(cell, victim.job)).into_iter().flatten();
    let named = victim.runs.iter().filter_map(|run| live_run(cell, *run));
    all.chain(named).filter(|run| run.stop.is_none())
}

/// Gives back the room of the runs on `node` that stop already.
pub(crate) fn end_stopping(cell: &Cell, over: &mut Overlay, node: NodeId) {
    let stopping = cell.runs.on_node(&cell.nodes, node).filter(|(_, run)| run.stop.is_some());
    stopping.for_each(|(_, run)| over.end_run(cell, run));
}
