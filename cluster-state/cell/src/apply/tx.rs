//! One command being applied: the cell, and what the entry has caused so far.

use crate::apply::Applied;
use crate::cell::Cell;
use crate::state::timers::Timer;
use ohm_model::{Event, EventKind, Index, JobId, NodeId, ResourceId, SessionId};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The cell while a command changes it. Reads go through to the cell; whatever others must hear of is written here.
pub(crate) struct Tx<'a> {
    pub(crate) cell: &'a mut Cell,
    pub(crate) applied: &'a mut Applied,
}

impl Deref for Tx<'_> {
    type Target = Cell;

    fn deref(&self) -> &Cell {
        self.cell
    }
}

impl DerefMut for Tx<'_> {
    fn deref_mut(&mut self) -> &mut Cell {
        self.cell
    }
}

impl Tx<'_> {
    /// The entry that is being applied.
    pub(crate) fn index(&self) -> Index {
        self.cell.applied
    }

    /// Says what happened.
    pub(crate) fn tell(&mut self, kind: EventKind) {
        self.applied.events.push(Event { index: self.cell.applied, at_ms: self.cell.now_ms, kind });
    }

    /// `node` has changed, and not by a commit.
    pub(crate) fn touch_node(&mut self, node: NodeId) {
        self.cell.nodes.touch(node, self.cell.applied, SessionId(0));
        self.applied.nodes.push(node);
    }

    /// Something of `job` has changed.
    pub(crate) fn touch_job(&mut self, job: JobId) {
        self.applied.jobs.push(job);
    }

    /// More may fit on `node` than before.
    pub(crate) fn free_node(&mut self, node: NodeId) {
        if self.applied.freed.nodes.last() != Some(&node) {
            self.applied.freed.nodes.push(node);
        }
    }

    /// Sets or clears a flag that bears on new work.
    pub(crate) fn mark_node(&mut self, node: NodeId, flag: u8, on: bool) {
        let before = self.nodes.is_schedulable(node);
        self.nodes.set_flag(node, flag, on);
        if !before && self.nodes.is_schedulable(node) {
            self.free_node(node);
        }
    }

    /// Adds each amount to the usage of `queue`; negative gives back.
    pub(crate) fn charge_queue(&mut self, queue: &str, amounts: impl Iterator<Item = (ResourceId, i64)>) {
        let mut gives = false;
        self.quota.charge(queue, amounts.inspect(|(_, amount)| gives |= *amount < 0));
        if gives {
            let root = self.cell.quota.root(queue);
            let roots = &mut self.applied.freed.roots;
            if !roots.iter().any(|known| **known == *root) {
                roots.push(Arc::from(root));
            }
        }
    }

    /// Puts `timer` on at `due_ms`, rounded up so that many share one slot: to 64 ms, far ones to about a minute.
    pub(crate) fn arm(&mut self, due_ms: u64, timer: Timer) {
        let far = due_ms.saturating_sub(self.now_ms) > 600_000;
        let grid = if far { 65_536 } else { 64 };
        let due_ms = due_ms.saturating_add(grid - 1) / grid * grid;
        Arc::make_mut(self.timers.entry(due_ms).or_default()).push(timer);
    }
}
