//! Priority classes: names for priorities.

use serde::{Deserialize, Serialize};

/// Most bytes of a description.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;
/// Most priority classes of a cell.
pub const PRIORITY_CLASSES_MAX: usize = 1024;

/// A name for a priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityClass {
    /// Unique in the cell.
    pub name: String,
    /// The priority of the jobs that name it; higher is placed first.
    pub value: i32,
    /// Whether others may be stopped for these jobs (`preemptionPolicy`).
    pub preempts: bool,
    /// What it is meant for, for people; at most [`DESCRIPTION_BYTES_MAX`].
    pub description: String,
    /// Whether jobs that name neither a class nor a priority get it (`globalDefault`); one class of a cell at most.
    pub global_default: bool,
}
