//! One command being applied: the cell, and what the entry has caused so far.

use crate::apply::Applied;
use crate::cell::Cell;
use crate::state::jobs::{Group, Job};
use crate::state::nodes::NodeRecord;
use crate::state::runs::Run;
use crate::state::shapes::Shape;
use crate::state::timers::{FAR_GRID_MS, FAR_MS, GRID_MS, Timer};
use ohm_model::{Command, Event, EventKind, FlavorResource, Index, JobId, NodeId, SessionId, ShapeId};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The cell while a command changes it. Reads go through to the cell; whatever others must hear of is written here.
pub(crate) struct Tx<'a> {
    pub(crate) cell: &'a mut Cell,
    pub(crate) applied: &'a mut Applied,
    /// The command, for what is said when the state is not as it must be.
    pub(crate) command: &'a Command,
    /// Jobs with kept runs that the command has let live on.
    pub(crate) returned: Vec<JobId>,
    /// Nodes besides those touched that may be kept for other jobs, or idle, since the command, if they were brought.
    pub(crate) brought: Vec<NodeId>,
    /// How many nodes and jobs the entry had touched before the command, and how many nodes it had given room back on.
    before: (usize, usize, usize),
}

/// The judge has allowed what the state does not hold: this copy stops, as one that diverges does.
#[cold]
fn stop(index: Index, command: &Command, expected: &str) -> ! {
    let command = format!("{command:?}");
    let name = command.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    panic!("entry {index}, command {name}: the cell does not hold {expected}")
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

impl<'a> Tx<'a> {
    pub(crate) fn new(cell: &'a mut Cell, applied: &'a mut Applied, command: &'a Command) -> Self {
        let before = (applied.nodes.len(), applied.jobs.len(), applied.freed.nodes.len());
        Tx { cell, applied, command, returned: Vec::new(), brought: Vec::new(), before }
    }

    /// The nodes that the command has touched so far; may repeat.
    pub(crate) fn touched_nodes(&self) -> &[NodeId] {
        &self.applied.nodes[self.before.0..]
    }

    /// The jobs that the command has touched so far; may repeat.
    pub(crate) fn touched_jobs(&self) -> &[JobId] {
        &self.applied.jobs[self.before.1..]
    }

    /// The nodes that the command has given room back on so far; may repeat.
    pub(crate) fn freed_nodes(&self) -> &[NodeId] {
        &self.applied.freed.nodes[self.before.2..]
    }

    /// Stops this copy: the state does not hold what was `expected` of it.
    #[cold]
    pub(crate) fn stop(&self, expected: &str) -> ! {
        stop(self.cell.applied, self.command, expected)
    }

    /// A job that the cell holds.
    pub(crate) fn job(&self, job: JobId) -> &Arc<Job> {
        self.cell.jobs.get(job).unwrap_or_else(|| self.stop(&format!("job {job}")))
    }

    /// The record of a node that the cell holds.
    pub(crate) fn record(&self, node: NodeId) -> &NodeRecord {
        self.cell.nodes.get(node).unwrap_or_else(|| self.stop(&format!("node {node}")))
    }

    /// A live run.
    pub(crate) fn run(&self, slot: u32) -> &Run {
        self.cell.runs.get(slot).unwrap_or_else(|| self.stop(&format!("a run in slot {slot}")))
    }

    /// A shape that a group, a live run or a kept run has.
    pub(crate) fn shape(&self, shape: ShapeId) -> &Arc<Shape> {
        self.cell.shapes.get(shape).unwrap_or_else(|| self.stop(&format!("shape {shape}")))
    }

    /// A job that the cell holds, to be changed.
    pub(crate) fn job_mut(&mut self, job: JobId) -> &mut Job {
        let (index, command) = (self.cell.applied, self.command);
        self.cell.jobs.get_mut(job).unwrap_or_else(|| stop(index, command, &format!("job {job}")))
    }

    /// A group of a job, both of which the cell holds.
    pub(crate) fn group_mut(&mut self, job: JobId, group: u16) -> &mut Group {
        let (index, command) = (self.cell.applied, self.command);
        let found = self.cell.jobs.get_mut(job).and_then(|job| job.groups.get_mut(usize::from(group)));
        found.unwrap_or_else(|| stop(index, command, &format!("group {group} of job {job}")))
    }

    /// A live run to be changed.
    pub(crate) fn run_mut(&mut self, slot: u32) -> &mut Run {
        let (index, command) = (self.cell.applied, self.command);
        self.cell.runs.get_mut(slot).unwrap_or_else(|| stop(index, command, &format!("a run in slot {slot}")))
    }

    /// The record of a node to be changed.
    pub(crate) fn record_mut(&mut self, node: NodeId) -> &mut NodeRecord {
        let (index, command) = (self.cell.applied, self.command);
        self.cell.nodes.record_mut(node).unwrap_or_else(|| stop(index, command, &format!("node {node}")))
    }

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
        if self.freed_nodes().last() != Some(&node) {
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
    pub(crate) fn charge_queue(&mut self, queue: &str, amounts: impl Iterator<Item = (FlavorResource, i64)>) {
        let mut gives = false;
        self.quota.charge(queue, amounts.inspect(|(_, amount)| gives |= *amount < 0));
        if gives {
            self.free_quota(queue);
        }
    }

    /// More may be charged to `queue`, and to those that share a root with it, than before.
    pub(crate) fn free_quota(&mut self, queue: &str) {
        let root = self.cell.quota.root(queue);
        let roots = &mut self.applied.freed.roots;
        if !roots.iter().any(|known| **known == *root) {
            roots.push(Arc::from(root));
        }
    }

    /// Puts `timer` on at `due_ms`, rounded up so that many share one slot: to 64 ms, far ones to about a minute.
    pub(crate) fn arm(&mut self, due_ms: u64, timer: Timer) {
        let far = due_ms.saturating_sub(self.now_ms) > FAR_MS;
        let grid = if far { FAR_GRID_MS } else { GRID_MS };
        let due_ms = due_ms.saturating_add(grid - 1) / grid * grid;
        Arc::make_mut(self.timers.entry(due_ms).or_default()).push(timer);
    }
}
