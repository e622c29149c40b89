//! Runs of jobs with `onDisconnect: keep` that live on where the cell can't see them: their node was declared lost, and
//! for the cell they are over.
//!
//! ```text
//!                the node returns, says that the run lives,
//!  node lost     and the job's rule lets it live on               its replacement is over
//!  ────────▶ Away ──────────────────────────────────▶ Back ──────────────────────────▶ a live run again
//!             │                                        │         (at once where none stands)
//!             └── it is gone, or loses; its job ends, is suspended, given up or changed ──▶ forgotten
//! ```
//! What is forgotten is in no wanted set any more, so its agent stops it when it hears of that. What is back has its
//! room on the node as a live run has, although no task counts it yet. A run that lives again keeps its number and its
//! beginning, and stands there as any placement does: judged by the same rules.

use ohm_model::{Incarnation, Index, JobId, NodeId, RunRef, ShapeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is remembered of a run that may live on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRun {
    /// Where it stands.
    pub node: NodeId,
    /// What it takes there, as of a live run.
    pub shape: ShapeId,
    /// The revision of its group, as of a live run.
    pub revision: u32,
    /// The entry that placed it.
    pub placed: Index,
    /// Stamped time of that entry.
    pub placed_ms: u64,
    /// Stamped time at which it was reported to run; 0 before.
    pub started_ms: u64,
    /// Its process id on the node.
    pub pid: u32,
    /// Its devices, as of a live run.
    pub devices: Option<Arc<[u64]>>,
    /// Its node is back and it lives on: as soon as the attempt of this number is over, if there is one.
    pub back: Option<Option<Incarnation>>,
}

impl KeptRun {
    /// One mask per device resource of its group; none where it has none.
    pub fn masks(&self) -> &[u64] {
        self.devices.as_deref().unwrap_or(&[])
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    runs: BTreeMap<RunRef, KeptRun>,
    /// Derived from the runs.
    by_node: BTreeSet<(NodeId, RunRef)>,
    /// Derived from the runs.
    back: BTreeSet<RunRef>,
}

impl Kept {
    pub(crate) fn from_runs(runs: impl Iterator<Item = (RunRef, KeptRun)>) -> Self {
        let mut kept = Kept::default();
        runs.for_each(|(run, found)| kept.insert(run, found));
        kept
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = (&RunRef, &KeptRun)> {
        self.runs.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What is remembered of this run.
    pub fn get(&self, run: RunRef) -> Option<&KeptRun> {
        self.runs.get(&run)
    }

    /// The kept runs of a job.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = (&RunRef, &KeptRun)> {
        self.runs.range(RunRef::new(job, 0, 0, 0)..=RunRef::new(job, u16::MAX, u32::MAX, u32::MAX))
    }

    /// The kept runs on a node.
    pub fn on_node(&self, node: NodeId) -> impl Iterator<Item = RunRef> + '_ {
        let first = (node, RunRef::new(JobId(0), 0, 0, 0));
        self.by_node.range(first..).take_while(move |(of, _)| *of == node).map(|(_, run)| *run)
    }

    /// Those on a node that live on: it is to leave them alone.
    pub fn back_on(&self, node: NodeId) -> impl Iterator<Item = RunRef> + '_ {
        // Seldom anything lives on anywhere, and limits ask this for every node.
        let found = (!self.back.is_empty()).then(|| self.on_node(node));
        found.into_iter().flatten().filter(|run| self.back.contains(run))
    }

    /// Whether any of a job lives on.
    pub(crate) fn lets_live(&self, job: JobId) -> bool {
        self.back.range(RunRef::new(job, 0, 0, 0)..=RunRef::new(job, u16::MAX, u32::MAX, u32::MAX)).next().is_some()
    }

    pub(crate) fn insert(&mut self, run: RunRef, kept: KeptRun) {
        self.remove(run);
        self.by_node.insert((kept.node, run));
        if kept.back.is_some() {
            self.back.insert(run);
        }
        self.runs.insert(run, kept);
    }

    pub(crate) fn remove(&mut self, run: RunRef) -> Option<KeptRun> {
        let kept = self.runs.remove(&run)?;
        self.by_node.remove(&(kept.node, run));
        self.back.remove(&run);
        Some(kept)
    }

    /// Gives a run another shape that takes the same room.
    pub(crate) fn set_shape(&mut self, run: RunRef, shape: ShapeId) {
        if let Some(kept) = self.runs.get_mut(&run) {
            kept.shape = shape;
        }
    }

    /// Says whether a run lives on, and after which attempt.
    pub(crate) fn set_back(&mut self, run: RunRef, back: Option<Option<Incarnation>>) {
        if let Some(mut kept) = self.remove(run) {
            kept.back = back;
            self.insert(run, kept);
        }
    }
}
