//! Runs: the attempts that hold room right now, each in the list of its node.

use crate::state::health::RunHealth;
use crate::state::nodes::Nodes;

pub use crate::state::nodes::NO_RUN;
use ohm_model::{Index, NodeId, RunRef, ShapeId, StopCause};
use ohm_stdx::Slab;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A live run:
///
/// ```text
/// placed ──started──▶ running ──ended──▶ (gone)
///    └──────stop wished at any time──────┘   the room is free only when it is gone
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which attempt at which task.
    pub run: RunRef,
    /// Where.
    pub node: NodeId,
    /// What it takes there: the shape that its group had when it was placed.
    pub shape: ShapeId,
    /// The revision of its group that it was started as.
    pub revision: u32,
    /// The entry that placed it.
    pub placed: Index,
    /// Stamped time of that entry.
    pub placed_ms: u64,
    /// Stamped time at which it was reported to run; 0 before.
    pub started_ms: u64,
    /// Its process id on the node; 0 before it runs and on simulated nodes.
    pub pid: u32,
    /// Why it is to stop, once it is.
    pub stop: Option<StopCause>,
    /// It is to end and to start again where it is, under the next number, unless it is to stop for good by then.
    pub restart: bool,
    /// What its probes say of it, and whether it waits because an earlier attempt failed them; nothing of a run that is
    /// ready as soon as it runs.
    pub health: Option<Box<RunHealth>>,
    /// Its devices: one mask per device resource of its shape.
    pub devices: Option<Arc<[u64]>>,
    next: u32,
    previous: u32,
}

impl Run {
    /// A run of this shape and revision that is placed on `node` by an entry with a stamped time.
    pub(crate) fn placed(
        run: RunRef,
        node: NodeId,
        (shape, revision): (ShapeId, u32),
        (placed, placed_ms): (Index, u64),
        masks: &[u64],
    ) -> Self {
        Run {
            run,
            node,
            shape,
            revision,
            placed,
            placed_ms,
            started_ms: 0,
            pid: 0,
            stop: None,
            restart: false,
            health: None,
            devices: (!masks.is_empty()).then(|| masks.into()),
            next: NO_RUN,
            previous: NO_RUN,
        }
    }
}

impl Run {
    /// Whether it runs, and its probes let it count as ready.
    pub fn is_ready(&self) -> bool {
        self.started_ms != 0 && self.health.as_ref().is_none_or(|health| health.ready)
    }

    /// Whether it runs and is not ready.
    pub fn is_unready(&self) -> bool {
        self.started_ms != 0 && !self.is_ready()
    }

    /// Until when it waits to be started, in stamped time, because an earlier attempt failed its probes.
    pub fn starts_ms(&self) -> Option<u64> {
        let starts_ms = self.health.as_ref().map_or(0, |health| health.starts_ms);
        (starts_ms > 0 && self.started_ms == 0).then_some(starts_ms)
    }
}

/// All live runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    slab: Slab<Run>,
}

impl Runs {
    /// The run in `slot`.
    pub fn get(&self, slot: u32) -> Option<&Run> {
        self.slab.get(slot)
    }

    /// How many runs are live.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether no run is live.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// All live runs by slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Run)> {
        self.slab.iter()
    }

    /// The runs that stand on `node`, last placed first.
    pub fn on_node<'a>(&'a self, nodes: &Nodes, node: NodeId) -> impl Iterator<Item = (u32, &'a Run)> {
        let mut at = nodes.first_run(node);
        std::iter::from_fn(move || {
            let slot = at;
            let run = self.slab.get(slot)?;
            at = run.next;
            Some((slot, run))
        })
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Run> {
        self.slab.get_mut(slot)
    }

    pub(super) fn slab(&self) -> &Slab<Run> {
        &self.slab
    }

    pub(super) fn from_slab(slab: Slab<Run>) -> Self {
        Runs { slab }
    }

    pub(crate) fn insert(&mut self, nodes: &mut Nodes, mut run: Run) -> u32 {
        let node = run.node;
        let head = nodes.first_run(node);
        (run.next, run.previous) = (head, NO_RUN);
        let (slot, _) = self.slab.insert(run);
        if let Some(next) = self.slab.get_mut(head) {
            next.previous = slot;
        }
        nodes.add_run(node, slot);
        slot
    }

    pub(crate) fn remove(&mut self, nodes: &mut Nodes, slot: u32) -> Option<Run> {
        let run = self.slab.remove(slot)?;
        let previous = self.slab.get_mut(run.previous).map(|previous| previous.next = run.next);
        if let Some(next) = self.slab.get_mut(run.next) {
            next.previous = run.previous;
        }
        nodes.remove_run(run.node, previous.is_none().then_some(run.next));
        Some(run)
    }
}
