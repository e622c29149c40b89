//! What the cell wants to run on a node, and all that is needed to start it.

use ohm_model::{Amounts, Incarnation, Index, OnDisconnect, RunRef, TaskSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What equal tasks of one group share: made once per group, pointed to by every run of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The job's name.
    pub job_name: String,
    /// The group's name.
    pub group_name: String,
    /// How many tasks the group has; the rank of a run is its task number.
    pub count: u32,
    /// Addresses of the group's tasks by rank, as far as they are placed; empty where a task has none.
    pub peers: Vec<String>,
    /// What each task asks for, in the units of [`ohm_model::UnitKind`].
    pub requests: Amounts,
    /// What happens to the run when the node lease ends.
    pub on_disconnect: OnDisconnect,
    /// When the job's active deadline passes, in milliseconds since 1970 by the cell's stamped clock; 0 is never. Shown
    /// to the task; the cell itself stops the run.
    pub deadline_ms: u64,
    /// What is run.
    pub task: TaskSpec,
}

/// One run that the cell has placed on the node and that has not ended there as far as the cell knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedRun {
    /// The run.
    pub run: RunRef,
    /// The cell was told that it started. A started run that the runner does not know is gone, not new.
    pub started: bool,
    /// It is to be stopped; it stays in the set until its end was reported.
    pub stop: bool,
    /// Which devices it was given: a mask of the node's devices by resource name.
    pub devices: BTreeMap<String, u64>,
    /// How to start it.
    pub launch: Arc<Launch>,
}

/// Everything that is wanted on one node, as of one entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedSet {
    /// Raised when the cell itself was restored from a backup; indices of different ones cannot be compared.
    pub cell_incarnation: u64,
    /// The registration of the node that the set was made for.
    pub node_incarnation: Incarnation,
    /// The last entry that the set takes into account.
    pub index: Index,
    /// The runs, in any order.
    pub runs: Vec<WantedRun>,
}

impl WantedSet {
    /// What decides which of two sets is the newer one.
    pub(crate) fn age(&self) -> (u64, Incarnation, Index) {
        (self.cell_incarnation, self.node_incarnation, self.index)
    }
}
