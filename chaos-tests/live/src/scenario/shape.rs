//! What a cell is made of.

use ohm_health::HealthConfig;
use ohm_model::{Class, ShortNodeLease};

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
    /// How long the lease of the health duty itself lasts, in milliseconds.
    pub duty_lease_ms: u64,
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
            duty_lease_ms: 4_000,
            etcd: 0,
            has_timers: true,
            disk_bytes: None,
        }
    }
}

impl Shape {
    /// Whether tasks outlive the end of whoever holds the health duty.
    ///
    /// # Errors
    /// When the node lease is too short for that.
    pub fn check_leases(&self) -> Result<(), ShortNodeLease> {
        let (node_lease_ms, duty_lease_ms) = (self.node_lease_ms, self.duty_lease_ms);
        HealthConfig { node_lease_ms, duty_lease_ms, ..HealthConfig::default() }.check()
    }

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
