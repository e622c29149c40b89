//! The cell in numbers.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusView {
    /// The last log entry applied by the server that answers.
    pub applied_index: u64,
    /// A running hash over all that was applied, as 16 hexadecimal digits: equal on equal histories.
    pub chain: String,
    /// The apply version of the cell.
    pub cell_version: u32,
    /// Stamped time of the last entry.
    pub stamped_ms: u64,
    /// The server that leads; empty when the one that answers does not know.
    #[serde(skip_serializing_if = "is_default")]
    pub leader: String,
    /// The wall clocks of the servers that were heard lately, against the time of the cell.
    pub clocks: Vec<ClockView>,
    /// How many nodes fell silent at once, while no node is declared lost because of that; 0 otherwise.
    #[serde(skip_serializing_if = "is_default")]
    pub silent_nodes: u32,
    /// When that ends at the latest.
    #[serde(skip_serializing_if = "is_default")]
    pub held_until_ms: u64,
    /// No node lease that may be in force is longer, in milliseconds.
    pub node_lease_ms: u64,
    /// Nodes.
    pub nodes: NodeTotals,
    /// Jobs.
    pub jobs: JobTotals,
    /// Tasks of all jobs that are not over.
    pub tasks: TaskTotals,
    /// Open sessions and what they hold.
    pub sessions: Vec<SessionView>,
    /// Leases that nobody holds, of those that were ever held.
    #[serde(skip_serializing_if = "is_default")]
    pub free_leases: Vec<String>,
    /// What the server that answers saw judged since it started, by class.
    #[serde(skip_serializing_if = "is_default")]
    pub judged: Vec<JudgedView>,
}

/// What became of the transactions of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JudgedView {
    /// The class.
    pub class: String,
    /// How many transactions its schedulers sent to the log.
    pub transactions: u64,
    /// In how many of them something was refused.
    pub conflicted: u64,
    /// Refused rows by reason.
    #[serde(skip_serializing_if = "is_default")]
    pub conflicts: BTreeMap<String, u64>,
}

/// The wall clock of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClockView {
    /// The server.
    pub server: u64,
    /// By how many milliseconds it is ahead of the time of the cell; negative when it is behind.
    pub offset_ms: i64,
    /// It is further ahead than one clock is believed: time does not follow it.
    pub unbelieved: bool,
}

/// Nodes by condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeTotals {
    /// All.
    pub total: u64,
    /// Health says ready.
    pub ready: u64,
    /// Beats are missing.
    pub suspect: u64,
    /// Surely gone.
    pub lost: u64,
    /// A person keeps new work away.
    pub cordoned: u64,
}

/// Jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobTotals {
    /// All that the cell remembers.
    pub total: u64,
    /// Wait to be placed.
    pub pending: u64,
    /// Have live runs.
    pub running: u64,
    /// Kept from being placed.
    pub suspended: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Ended badly.
    pub failed: u64,
    /// Were cancelled.
    pub cancelled: u64,
}

/// Tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskTotals {
    /// Wait to be placed.
    pub pending: u64,
    /// Wait for their back-off to pass.
    pub backing_off: u64,
    /// Hold room on a node.
    pub live: u64,
    /// Were reported to run.
    pub running: u64,
    /// Of those, are not ready by their probes.
    #[serde(skip_serializing_if = "is_default")]
    pub unready: u64,
}

/// A process that speaks with the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionView {
    /// Its number.
    pub id: u64,
    /// `server`, `scheduler batch`, `scheduler service`, `scheduler tas`, `health` or `client`.
    pub role: String,
    /// Host and process.
    pub name: String,
    /// `alive`, `silent` (it did not speak in time: its process has ended, hangs or is cut off) or `replaced` (its
    /// process has ended: a later session has its name).
    pub state: String,
    /// The log entry of its last renewal.
    pub renewed_index: u64,
    /// Stamped time of its last command.
    pub spoke_ms: u64,
    /// The leases it holds, such as `health` or `batch/3`.
    #[serde(skip_serializing_if = "is_default")]
    pub leases: Vec<String>,
}
