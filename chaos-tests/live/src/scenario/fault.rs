//! What goes wrong.

/// One way between a process and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What the process sends.
    Towards,
    /// What the server sends.
    From,
    /// Both.
    Both,
}

/// What goes down at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One node.
    Node,
    /// Two nodes; every other time of one rack.
    TwoNodes,
    /// All nodes of a rack.
    Rack,
}

/// One fault, or one and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SIGKILL to all of them at once.
    Kill(Vec<String>),
    /// SIGKILL to the server that leads at that moment.
    KillLeader,
    /// SIGSTOP, then SIGCONT.
    Pause {
        /// Whom.
        process: String,
        /// For how long.
        for_ms: u64,
    },
    /// Nothing passes, nothing is closed: half-open connections.
    Cut {
        /// Whose connections.
        process: String,
        /// Which way.
        way: Way,
        /// For how long.
        for_ms: u64,
    },
    /// Everything passes later.
    Delay {
        /// Whose connections.
        process: String,
        /// How much later.
        by_ms: u64,
        /// For how long.
        for_ms: u64,
    },
    /// Connections are closed, and new ones at once.
    Reset {
        /// Whose connections.
        process: String,
        /// For how long.
        for_ms: u64,
    },
    /// Whatever the seed says: one to four processes killed, one paused (no shim: frozen together with its agent it
    /// could not end its tasks), or the connections of one cut, delayed or reset.
    Random,
    /// Simulated nodes that chance chooses among those that are up go down with all that runs on them, and boot again.
    Outage {
        /// How many.
        extent: Extent,
        /// The shortest and the longest time that they are down, in milliseconds.
        for_ms: (u64, u64),
    },
    /// As [`Kind::Outage`], once chance has chosen.
    Down {
        /// How many.
        extent: Extent,
        /// Which.
        nodes: Vec<String>,
        /// For how long.
        for_ms: u64,
    },
    /// The server's file system is filled to the last byte.
    FillDisk {
        /// For how long.
        for_ms: u64,
    },
}

/// A fault and its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it strikes, in milliseconds after everything runs.
    pub at_ms: u64,
    /// What it is.
    pub kind: Kind,
}
