//! What the oracle is told.

use ohm_model::{Entry, Event, Index, Outcome, RunRef};
use std::sync::Arc;

/// What an entry caused.
#[derive(Clone, Debug, Default)]
pub struct Caused {
    /// One outcome per command, in order.
    pub outcomes: Vec<Outcome>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// One thing that happened, at a moment of real time (the simulator's, or CLOCK_BOOTTIME of the one machine).
#[derive(Clone, Debug)]
pub enum Record {
    /// A copy of the cell applied an entry.
    Applied {
        /// When.
        at_ms: u64,
        /// Which copy; a process that restarted is another copy.
        copy: String,
        /// The entry's index.
        index: Index,
        /// The entry.
        entry: Arc<Entry>,
        /// What it caused there.
        applied: Arc<Caused>,
        /// The copy's running hash after it.
        chain: u64,
    },
    /// Another copy applied the entry too.
    Copied {
        /// Which copy.
        copy: String,
        /// The entry's index.
        index: Index,
        /// The copy's running hash after it.
        chain: u64,
    },
    /// A client was told that its job is in the cell.
    Acknowledged {
        /// When.
        at_ms: u64,
        /// The job's name.
        job: String,
    },
    /// A server has stamped an entry, and gives it to the log.
    Stamped {
        /// When.
        at_ms: u64,
        /// The stamp.
        stamp_ms: u64,
    },
    /// The clocks of a majority of the servers were set forward, or the operator said that one is right: from here on
    /// the time of the cell may jump.
    ClocksMoved {
        /// When.
        at_ms: u64,
    },
    /// A task really began on a node.
    Began {
        /// When.
        at_ms: u64,
        /// The node's name.
        node: String,
        /// Which run.
        run: RunRef,
        /// Whether it may overlap with its replacement (`onDisconnect: keep`).
        keeps: bool,
        /// How long until its node may end it because of its lease, in milliseconds.
        fence_in_ms: u64,
    },
    /// A task was really over.
    Over {
        /// When.
        at_ms: u64,
        /// The node's name.
        node: String,
        /// Which run.
        run: RunRef,
    },
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// `P1` to `P11`.
    pub promise: &'static str,
    /// What happened, in words.
    pub what: String,
}

impl Broken {
    pub(crate) fn new(promise: &'static str, what: String) -> Self {
        Broken { promise, what }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} broken: {}", self.promise, self.what)
    }
}
