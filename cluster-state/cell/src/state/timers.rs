//! What is to be looked at when its time has come.

use ohm_model::{Incarnation, Index, JobId, NodeId, TaskRef};
use serde::{Deserialize, Serialize};

/// Times further ahead than [`FAR_MS`] are looked at on this grid, so that many fall together.
pub(crate) const FAR_GRID_MS: u64 = 65_536;
/// How far ahead that is.
pub(crate) const FAR_MS: u64 = 600_000;
/// The grid of all others.
pub(crate) const GRID_MS: u64 = 64;

/// What to look at when its time has come. Whatever changed meanwhile is checked then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Timer {
    /// A task may be placed again.
    BackOff(TaskRef, Incarnation),
    /// A job may have run too long.
    Deadline(JobId),
    /// A finished job may be forgotten.
    Forget(JobId),
    /// A nomination may have ended.
    Nomination(NodeId),
    /// A gang may have waited for its repair for too long, since this loss.
    Repair(JobId, Index),
    /// A node may have been held down for long enough.
    HoldDown(NodeId),
    /// The wait before a job's next round of admission may be over, or the time of one of this round's checks.
    Admission(JobId, u32),
    /// What still stands on a node that drains may have to stop.
    Drain(NodeId),
    /// Something that runs on a node may have tolerated its taints for long enough.
    Toleration(NodeId),
    /// A task on the move that has ended may keep its room no longer.
    Room(TaskRef, Incarnation),
    /// Room may be owed to what a job lost no longer.
    Claim(JobId),
    /// The time of a request for nodes that a repair of the job has made may be over.
    RepairRequest(JobId),
    /// The quota of those that were stopped for a job may have been kept for it for long enough.
    Preemption(JobId),
    /// A node that was brought may have been used by nobody for long enough.
    Idle(NodeId),
    /// A job may have waited for its start for too long.
    StartDeadline(JobId),
    /// A job may not be ready in time, or may have waited for long enough because it was not.
    Ready(JobId),
    /// A rollout may go on, or have stalled.
    Rollout(JobId),
    /// A run that waits where it is because an earlier attempt failed its probes may be started.
    Start(TaskRef, Incarnation),
}
