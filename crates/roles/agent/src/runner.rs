//! What the runner (the shim, or the simulator's driver) and the agent say to each other.

use crate::probes::ProbeResult;
use ohm_model::{Exit, Incarnation, ProbeKind, RunRef};
use serde::{Deserialize, Serialize};

/// The lease as the runner sees it: one small file, written by the agent.
///
/// A `stop` run may live at `now` only if `now < deadline_ms` and it was started at or after `since_ms`: a runner that
/// slept over a deadline and wakes to a newer one must still end what should have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseFile {
    /// The lease ends here, on the node's boot-time clock.
    pub deadline_ms: u64,
    /// Since when the lease has run without a gap.
    pub since_ms: u64,
    /// The registration it belongs to; `OHM_INCARNATION` of what is started under it. A start order of an older
    /// registration is refused by the runner.
    pub incarnation: Incarnation,
}

/// A run that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRun {
    /// The run.
    pub run: RunRef,
    /// Its process; 0 where there is none.
    pub pid: u32,
    /// When it was started, on the node's boot-time clock.
    pub started_ms: u64,
    /// Between the polite signal and the kill, as it was started with.
    pub grace_ms: u64,
}

/// A run that is over and that the agent has not asked to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundExit {
    /// The run.
    pub run: RunRef,
    /// How it ended.
    pub exit: Exit,
    /// More for people, possibly empty.
    pub message: String,
}

/// What the runner tells the agent. Said only of what is certain: an exit means that nothing of the run lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunnerEvent {
    /// All that the runner knows; the first word after each (re)connection to it.
    Found {
        /// The lease file, if there is one of this boot.
        lease: Option<LeaseFile>,
        /// What lives.
        live: Vec<FoundRun>,
        /// What is over.
        exits: Vec<FoundExit>,
    },
    /// A run was started.
    Started {
        /// The run.
        run: RunRef,
        /// Its process; 0 where there is none.
        pid: u32,
    },
    /// A run could not be started, and nothing of it lives.
    StartFailed {
        /// The run.
        run: RunRef,
        /// Why, for people.
        message: String,
    },
    /// A run is over.
    Exited {
        /// The run.
        run: RunRef,
        /// How.
        exit: Exit,
    },
    /// A probe of a run is over.
    Probed {
        /// The run.
        run: RunRef,
        /// Which of its probes.
        kind: ProbeKind,
        /// Of the order.
        number: u64,
        /// What came of it.
        result: ProbeResult,
    },
}
