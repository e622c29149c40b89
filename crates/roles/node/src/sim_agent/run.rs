//! The process around the fleet.

use super::fleet::Fleet;
use super::outage::Marks;
use crate::agent::AgentError;
use crate::agent::key::{self, NodeIdentity};
use crate::agent::link::{self, ARRIVALS_MAX, Arrival, Outlets};
use ohm_agent::{AgentConfig, DriverConfig};
use ohm_model::NodeSpec;
use ohm_runtime::clock::boot_ms;
use ohm_runtime::recorder::Recorder;
use ohm_runtime::servers::{Dialer, Servers};
use ohm_runtime::shutdown::Shutdown;
use ohm_runtime::{data_dir, dice};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Between two turns that nothing but time asks for, in milliseconds: what is due in between is done together.
const TURN_MS_MIN: u64 = 2;
/// The longest sleep, in milliseconds.
const SLEEP_MS_MAX: u64 = 1_000;
/// Reports of a large fleet wait longer for company, so that it sends at most about this many batches per second.
const REPORT_BATCHES_PER_SECOND: u64 = 50_000;

/// How simulated nodes are started.
#[derive(Clone, Debug)]
pub struct SimAgentOptions {
    /// The servers of the cell.
    pub servers: Servers,
    /// The nodes, at least one.
    pub nodes: Vec<NodeSpec>,
    /// Where the random part of their keys is kept. Without one the nodes of a restarted process are strangers, and
    /// wait until their predecessors are found lost.
    pub data_dir: Option<PathBuf>,
    /// A folder with a file for each node that is to be down at the moment, named after it.
    pub down_dir: Option<PathBuf>,
    /// Whether the process ends once all its nodes are down.
    pub ends_with_nodes: bool,
    /// How simulated tasks behave.
    pub driver: DriverConfig,
    /// How their agents behave.
    pub agent: AgentConfig,
}

impl SimAgentOptions {
    /// Nodes with the values used in a cell; reports of large fleets wait a little longer to share a batch.
    pub fn new(servers: Servers, nodes: Vec<NodeSpec>) -> Self {
        let mut agent = AgentConfig::default();
        agent.report_delay_ms = agent.report_delay_ms.max(nodes.len() as u64 * 1000 / REPORT_BATCHES_PER_SECOND);
        let driver = DriverConfig { fence_lead_ms: agent.fence_lead_ms(), ..DriverConfig::default() };
        SimAgentOptions { servers, nodes, data_dir: None, down_dir: None, ends_with_nodes: false, driver, agent }
    }
}

/// Runs simulated nodes until `shutdown`. Their tasks end with the process.
///
/// # Errors
/// See [`AgentError`]; servers that can't be reached are waited for.
pub async fn run_sim_agent(options: SimAgentOptions, shutdown: Shutdown) -> Result<(), AgentError> {
    if options.nodes.is_empty() {
        return Err(AgentError::NoNode);
    }
    let dialer = Dialer::new(options.servers)?;
    let _lock = options.data_dir.as_deref().map(data_dir::lock).transpose()?;
    // Simulated tasks don't outlive this process: to the cell each process is a boot of its own.
    let process = dice::random_u64();
    let identity = match &options.data_dir {
        Some(folder) => key::load_or_make(folder, process)?,
        None => NodeIdentity { key: process, boot: 1 },
    };
    if let Some(folder) = &options.data_dir {
        let names: String = options.nodes.iter().map(|node| format!("{}\n", node.name)).collect();
        let path = folder.join(data_dir::FLEET_NAMES_FILE);
        data_dir::replace(&path, 0o600, names.as_bytes()).map_err(AgentError::file(&path))?;
    }
    tracing::info!(nodes = options.nodes.len(), "simulated nodes started");
    let recorder = Recorder::from_environment("fleet", "fleet");
    let mut fleet = Fleet::new(options.nodes, identity, &options.agent, options.driver, dice::dice(), recorder);
    fleet.attach(boot_ms());
    let marks = options.down_dir.as_deref().map(Marks::new);
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    // Ends with this function, however that ends.
    let mut tasks = JoinSet::new();
    tasks.spawn(link::run(dialer, sender));
    let host = Host { fleet, marks, ends_with_nodes: options.ends_with_nodes, outlets: None };
    tokio::select! { biased;
        () = shutdown.started() => Ok(()),
        ended = host.run(arrivals) => ended,
    }
}

struct Host {
    fleet: Fleet,
    marks: Option<Marks>,
    ends_with_nodes: bool,
    outlets: Option<Outlets>,
}

impl Host {
    async fn run(mut self, mut arrivals: mpsc::Receiver<Arrival>) -> Result<(), AgentError> {
        while !self.fleet.is_superseded() {
            let now_ms = boot_ms();
            if let Some(down) = self.marks.as_mut().and_then(|marks| marks.changed(now_ms)) {
                self.fleet.keep_down(now_ms, down);
                if self.ends_with_nodes && self.fleet.is_down() {
                    tracing::info!("all nodes are down");
                    return Ok(());
                }
            }
            let look_ms = self.marks.as_ref().map_or(SLEEP_MS_MAX, |marks| marks.pause_ms(now_ms));
            let sleep_ms = self.fleet.due_ms().map_or(SLEEP_MS_MAX, |due_ms| due_ms.saturating_sub(now_ms));
            let sleep = Duration::from_millis(sleep_ms.min(look_ms).clamp(TURN_MS_MIN, SLEEP_MS_MAX));
            tokio::select! { biased;
                arrival = arrivals.recv() => self.take(arrival.ok_or(AgentError::TaskEnded("the servers"))?)?,
                () = tokio::time::sleep(sleep) => {}
            }
            for _ in 0..ARRIVALS_MAX {
                match arrivals.try_recv() {
                    Ok(arrival) => self.take(arrival)?,
                    Err(_) => break,
                }
            }
            self.fleet.turn(boot_ms());
            self.send().await;
        }
        Err(AgentError::Superseded)
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), AgentError> {
        let now_ms = boot_ms();
        match arrival {
            Arrival::Connected(outlets) => {
                self.outlets = Some(outlets);
                self.fleet.connected(now_ms);
            }
            Arrival::Disconnected => {
                self.outlets = None;
                self.fleet.disconnected(now_ms);
            }
            Arrival::Order(order) => self.fleet.take(now_ms, order),
            Arrival::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits for the network: while it does not keep up, nothing new is taken in either.
    async fn send(&mut self) {
        for message in self.fleet.take_messages() {
            let Some(outlets) = &self.outlets else { return };
            if outlets.messages.send(message).await.is_err() {
                // The link says so too, in its turn.
                self.outlets = None;
            }
        }
    }
}
