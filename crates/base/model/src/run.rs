//! What nodes report about runs.

use crate::ids::RunRef;
use serde::{Deserialize, Serialize};

/// What is kept of a message about the end of a run, in characters.
pub const MESSAGE_CHARS_MAX: usize = 200;

/// The longest time between the polite signal and the kill: a day.
pub const GRACE_MS_MAX: u64 = 86_400_000;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Killed at its own limit of memory.
    OutOfMemory,
    /// It could not be started; counts as a failure of its own.
    StartFailed,
    /// Stopped by its node because the lease ran out; never charged to the job.
    LeaseExpired,
    /// It never started: it was unwanted again before.
    NeverStarted,
    /// Its node restarted or its traces are gone; never charged to the job.
    Vanished,
    /// Its node was declared lost; never charged to the job.
    NodeLost,
    /// Its node was shut down in order, and stopped its tasks first; never charged to the job.
    NodeShutdown,
    /// Killed because the memory of its node ended, and it had taken more than it asked for at some time; that is its
    /// own doing, and charged as [`Exit::OutOfMemory`] is.
    OverRequest,
    /// A probe found that it did not start or is not well, and its node stopped it; charged unless its group says
    /// otherwise.
    Unhealthy,
}

impl Exit {
    /// Whether the task did what it was asked to.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// Whether the end is the task's own doing and so counts against its retries.
    pub fn is_charged(self) -> bool {
        match self {
            Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory | Exit::OverRequest => true,
            Exit::StartFailed | Exit::Unhealthy => true,
            Exit::LeaseExpired | Exit::NeverStarted | Exit::Vanished | Exit::NodeLost | Exit::NodeShutdown => false,
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::OutOfMemory => f.write_str("out of memory"),
            Exit::StartFailed => f.write_str("could not start"),
            Exit::LeaseExpired => f.write_str("node lease expired"),
            Exit::NeverStarted => f.write_str("never started"),
            Exit::Vanished => f.write_str("vanished"),
            Exit::NodeLost => f.write_str("node lost"),
            Exit::NodeShutdown => f.write_str("node shut down"),
            Exit::OverRequest => f.write_str("OverRequest: its node ran out of memory"),
            Exit::Unhealthy => f.write_str("unhealthy"),
        }
    }
}

/// Why a run is to stop although it has not ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StopCause {
    /// Its job was cancelled.
    Cancelled,
    /// Its job was suspended.
    Suspended,
    /// A scheduler took the room for more important work.
    Preempted,
    /// A scheduler moved it.
    Moved,
    /// Its job ran longer than it may.
    DeadlineExceeded,
    /// Another task of the job failed for good.
    JobFailed,
    /// Its node can no longer hold it.
    NodeShrunk,
    /// Its gang fell apart and starts again whole.
    GangRestart,
    /// Its gang lost tasks that could not be placed again, and is evicted whole.
    RepairFailed,
    /// Its node is being drained.
    Drained,
    /// Its job was updated to fewer tasks.
    ScaledDown,
    /// It starts again where it is, because others of its job were placed anew, or a probe found it unhealthy.
    Restarted,
    /// The nodes that were provisioned for its job are taken away.
    CapacityRevoked,
    /// An earlier run of its task came back with its node, and lives on instead.
    Reconciled,
    /// Its queue is held, and what runs of it is stopped.
    QueueHeld,
    /// Its job was not ready in the time that its queue gives.
    ReadyTimeout,
    /// Its job rolls out another revision, or has done so and needs it no more.
    RolledOut,
}

impl StopCause {
    /// Whether it says that the node can't hold the run: its end is a loss of its job, and nobody's wish.
    pub fn is_loss(self) -> bool {
        matches!(self, StopCause::NodeShrunk | StopCause::Drained | StopCause::Moved)
    }
}

/// One fact about one run, from the node it stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// The run.
    pub run: RunRef,
    /// The fact.
    pub kind: RunReportKind,
}

/// What happened to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunReportKind {
    /// It runs, under this process id (0 where there is no process).
    Started {
        /// The process id on the node.
        pid: u32,
    },
    /// It is over; its room is free.
    Ended {
        /// How.
        exit: Exit,
        /// More for people, possibly empty: why it could not start, or which probe ended it.
        message: String,
    },
    /// Its probes find it ready, or not ready any more, or not ready yet.
    Ready {
        /// Which.
        ready: bool,
        /// Higher than that of any earlier word about the run: what comes late says nothing any more.
        number: u64,
        /// Which probe failed, and how; empty when it is ready.
        message: String,
    },
}

/// Tasks of one group that went from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The group.
    pub group: u16,
    /// First task.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// The former node's name.
    pub from: String,
    /// The new node's name.
    pub to: String,
}
