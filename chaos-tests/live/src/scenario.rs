//! A scenario: what the cell is made of, what goes through it, what goes wrong, and what must be true in the end.
//!
//! One sentence in a line, readable aloud; `#` begins a comment.
//!
//! ```text
//! about: every process is killed without a word while jobs go through
//! cell: 4 real nodes, 20 simulated nodes, 2 batch schedulers, 2 health candidates, node lease 10s, disk of 64MiB
//! cell: 4 real nodes, etcd of 3 members
//! cell: 200 simulated nodes in racks of 10
//! load: 250 batch jobs on simulated nodes, 8 per second, 1 to 3 tasks of 300ms
//! load: 40 tas jobs on simulated nodes, 8 per second, 4 to 8 tasks until the end, in one rack, repair waits 1min
//! fault: from 4s every 6s kill server, batch-1, node-1, shim-1, fleet in turn
//! fault: at 60s kill everything
//! fault: from 4s every 3s kill the leader for 2min      (cell: 3 servers, …)
//! fault: at 10s pause server for 5s
//! fault: at 10s cut node-1 towards the server for 20s
//! fault: at 10s delay batch-1 by 300ms for 10s
//! fault: at 10s reset node-2 for 3s
//! fault: at 10s fill the disk for 6s
//! fault: from 4s every 3s strike at random 20 times
//! fault: from 4s every 5s take a node (two nodes, a rack) down for 8s to 30s 20 times
//! fault: at 10s take a rack down for 20s
//! expect: quiet within 120s
//! expect: node-1 lost
//! expect: no node lost
//! expect: no task started again
//! expect: P2 broken
//! ```

mod parse;

pub use parse::{ScenarioError, duration_ms};

use ohm_model::Class;

/// What one file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// In one sentence.
    pub about: String,
    /// What the cell is made of.
    pub cell: Shape,
    /// What goes through it.
    pub loads: Vec<Load>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What must be true in the end, besides the promises.
    pub expectations: Vec<Expectation>,
    /// How long the healed cell may take until every job has ended, in milliseconds.
    pub quiet_ms: u64,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// [`ScenarioError`] names the line and what would be right.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        parse::scenario(text)
    }
}

/// Racks of simulated nodes in one block.
pub const RACKS_PER_BLOCK: usize = 5;

/// What the cell is made of: servers, three classes of schedulers, and these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Servers that keep the truth: `server`, or `server-1` and so on where there are several.
    pub servers: usize,
    /// Nodes with real processes, each with an agent and a shim of its own: `node-1`, `shim-1` and so on.
    pub real_nodes: usize,
    /// Nodes whose tasks are timers, all in one process: `fleet`.
    pub simulated_nodes: usize,
    /// How many of them stand in one rack, if they stand in racks; [`RACKS_PER_BLOCK`] racks make a block.
    pub nodes_per_rack: Option<usize>,
    /// Schedulers by class: `batch-1`, `tas-1` and so on.
    pub schedulers: Vec<(Class, usize)>,
    /// Candidates for the health duty: `health-1` and so on.
    pub health: usize,
    /// How long a node may go on without a word from the health duty, in milliseconds.
    pub node_lease_ms: u64,
    /// Members of an etcd that keeps the log: `etcd-1` and so on; without any the server keeps it.
    pub etcd: usize,
    /// Whether real nodes get timers from the kernel; without, a stopped shim has no second fence.
    pub has_timers: bool,
    /// The size of the file system under the server's data, in bytes; the machine's own without one.
    pub disk_bytes: Option<u64>,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            servers: 1,
            real_nodes: 0,
            simulated_nodes: 0,
            nodes_per_rack: None,
            schedulers: Class::BUILT_IN.map(|class| (class, 1)).to_vec(),
            health: 1,
            node_lease_ms: 10_000,
            etcd: 0,
            has_timers: true,
            disk_bytes: None,
        }
    }
}

impl Shape {
    /// The name of a simulated node, counted from 0.
    pub fn simulated_name(number: usize) -> String {
        format!("sim-{}", number + 1)
    }

    /// The numbers of the simulated nodes by rack; one rack where they stand in none.
    pub fn racks(&self) -> Vec<std::ops::Range<usize>> {
        let size = self.nodes_per_rack.unwrap_or(self.simulated_nodes).max(1);
        let starts = (0..self.simulated_nodes).step_by(size);
        starts.map(|start| start..(start + size).min(self.simulated_nodes)).collect()
    }

    /// The names of the servers.
    pub fn server_names(&self) -> Vec<String> {
        match self.servers {
            1 => vec!["server".to_string()],
            count => (1..=count).map(|number| format!("server-{number}")).collect(),
        }
    }

    /// The names of all processes that can be struck, the servers first.
    pub fn processes(&self) -> Vec<String> {
        let numbered = |name: &str, count: usize| (1..=count).map(|number| format!("{name}-{number}")).collect();
        let mut names = self.server_names();
        for (class, count) in &self.schedulers {
            names.extend::<Vec<String>>(numbered(class.name(), *count));
        }
        names.extend::<Vec<String>>(numbered("health", self.health));
        names.extend::<Vec<String>>(numbered("node", self.real_nodes));
        names.extend::<Vec<String>>(numbered("shim", self.real_nodes));
        names.extend((self.simulated_nodes > 0).then(|| "fleet".to_string()));
        names.extend::<Vec<String>>(numbered("etcd", self.etcd));
        names
    }
}

/// Where jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// On nodes with real processes.
    Real,
    /// On nodes whose tasks are timers.
    Simulated,
}

impl Pool {
    /// The value of the label `pool` of its nodes.
    pub fn name(self) -> &'static str {
        match self {
            Pool::Real => "real",
            Pool::Simulated => "simulated",
        }
    }
}

/// Jobs that come one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub jobs: usize,
    /// Of which class.
    pub class: Class,
    /// Where they run.
    pub pool: Pool,
    /// How many come in a second.
    pub per_second: u64,
    /// Fewest and most tasks of one job.
    pub tasks: (usize, usize),
    /// How long a task runs, in milliseconds; without a time until its job is cancelled: when all such jobs are whole
    /// after everything was healed.
    pub task_ms: Option<u64>,
    /// Whether all tasks of a job stand in one rack.
    pub in_rack: bool,
    /// What becomes of a job that lost nodes, if it says so.
    pub repair: Option<Repair>,
}

/// What becomes of a gang that lost nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It is evicted whole where there is no room at once.
    FailsFast,
    /// It waits for room so long, in milliseconds.
    Waits(u64),
    /// It leaves its rack for the block around it.
    Widens,
}

impl Load {
    /// When the job of this number is sent, in milliseconds.
    pub fn at_ms(&self, number: usize) -> u64 {
        number as u64 * 1000 / self.per_second
    }

    /// How many tasks the job of this number has: all sizes in turn.
    pub fn tasks_of(&self, number: usize) -> usize {
        self.tasks.0 + number % (self.tasks.1 - self.tasks.0 + 1)
    }
}

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

/// What must be true in the end, besides the promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The node was declared lost at least once.
    Lost(String),
    /// No node was.
    NoneLost,
    /// Every task ran once: none was started again, on whatever node.
    NoneStartedAgain,
    /// The faults are beyond what Ohm promises to stand, this promise breaks, and the verdict must say so.
    Broken(String),
}

impl Expectation {
    /// The promise that is to break, if it is about one.
    pub fn broken(&self) -> Option<&str> {
        match self {
            Expectation::Broken(promise) => Some(promise),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
