//! The agent process: its options, and how it comes up and goes down.

use super::checks::{self, CheckOptions};
use super::desk::Desk;
use super::link::{self, ARRIVALS_MAX};
use super::peers::PeersFiles;
use super::retention::LogRetention;
use super::runner::{ORDERS_MAX, Runner, WORDS_MAX};
use super::spec::Place;
use super::{AgentError, key};
use crate::clock;
use crate::rotation::LogLimits;
use crate::shim::{LeaseFile, ShimCommand, ShimOptions};
use ohm_agent::AgentConfig;
use ohm_model::NodeSpec;
use ohm_runtime::data_dir;
use ohm_runtime::servers::{Dialer, Servers};
use ohm_runtime::shutdown::Shutdown;
use ohm_stdx::hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Findings that wait to be heard.
const FINDINGS_MAX: usize = 16;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The servers of its cell.
    pub servers: Servers,
    /// Its own folder: the node's key, and below `shim` what the shim keeps. Short enough for a socket in it (some 90
    /// bytes).
    pub data_dir: PathBuf,
    /// What the node is.
    pub node: NodeSpec,
    /// The program that knows `shim`; this very one when absent.
    pub shim_program: Option<PathBuf>,
    /// Whether tasks may be put into a process namespace if that is possible.
    pub wants_namespace: bool,
    /// Whether runs may be put into cgroups if that is possible.
    pub wants_cgroups: bool,
    /// Whether the node's tasks are stopped, each with its grace, when this process is told to end. Otherwise they run
    /// on, and the next agent of the folder finds them.
    pub stop_tasks_on_exit: bool,
    /// How much output of one run is kept.
    pub log_limits: LogLimits,
    /// How much output of ended runs is kept.
    pub log_retention: LogRetention,
    /// What is looked at on the machine.
    pub checks: CheckOptions,
    /// How the agent behaves; what is judged of the machine follows from `checks`.
    pub agent: AgentConfig,
}

impl AgentOptions {
    /// An agent with the values used in a cell, for `node`, with its state in `data_dir`.
    pub fn new(servers: Servers, data_dir: &Path, node: NodeSpec) -> Self {
        AgentOptions {
            servers,
            data_dir: data_dir.to_path_buf(),
            node,
            shim_program: None,
            wants_namespace: true,
            wants_cgroups: true,
            stop_tasks_on_exit: false,
            log_limits: LogLimits::default(),
            log_retention: LogRetention::default(),
            checks: CheckOptions::default(),
            agent: AgentConfig::default(),
        }
    }

    fn shim_command(&self, folder: &Path) -> Result<ShimCommand, AgentError> {
        let (wants_namespace, wants_cgroups) = (self.wants_namespace, self.wants_cgroups);
        // The last signal before the lease ends comes at most two beats early.
        let fence_lead_ms = self.agent.fence_lead_ms();
        let options = ShimOptions { folder: folder.to_path_buf(), wants_namespace, wants_cgroups, fence_lead_ms };
        match &self.shim_program {
            Some(program) => Ok(ShimCommand { program: program.clone(), options }),
            None => ShimCommand::this_program(options).map_err(AgentError::file(Path::new("/proc/self/exe"))),
        }
    }
}

/// Runs the agent of one node until `shutdown`.
///
/// # Errors
/// See [`AgentError`]; servers that can't be reached are waited for, and a shim that is lost is started anew.
pub async fn run_agent(options: AgentOptions, shutdown: Shutdown) -> Result<(), AgentError> {
    let dialer = Dialer::new(options.servers.clone())?;
    let _lock = data_dir::lock(&options.data_dir)?;
    let boot_id = clock::boot_id().map_err(AgentError::file(Path::new("/proc/sys/kernel/random/boot_id")))?;
    let identity = key::of_machine(&options.data_dir, hash::bytes(boot_id.as_bytes()))?;
    let folder = options.data_dir.join("shim");
    data_dir::create(&folder)?;
    let lease = LeaseFile::open(&folder).map_err(AgentError::file(&folder.join("lease")))?;
    let is_closing = Arc::new(AtomicBool::new(false));
    let (orders, ordered) = mpsc::channel(ORDERS_MAX);
    let (speaker, words) = mpsc::channel(WORDS_MAX);
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let command = options.shim_command(&folder)?;
    let runner = Runner { command, orders: ordered, words: speaker, is_closing: Arc::clone(&is_closing) };
    // Both end with this function, however that ends.
    let mut tasks = JoinSet::new();
    tasks.spawn(runner.run());
    tasks.spawn(link::run(dialer, sender));
    let (finder, findings) = mpsc::channel(FINDINGS_MAX);
    tasks.spawn(checks::run(options.checks.clone(), folder.clone(), finder));
    tracing::info!(node = options.node.name, folder = %options.data_dir.display(), "agent started");
    let place = Place {
        node_name: options.node.name.clone(),
        node_address: options.node.address.clone(),
        logs: options.log_limits,
        peers: PeersFiles::new(folder.join("peers")),
    };
    let agent = AgentConfig { checks: options.checks.policies(), ..options.agent.clone() };
    let desk = Desk::new(&options.node, identity, agent, place, lease, &folder, options.log_retention);
    let stop = options.stop_tasks_on_exit.then_some(is_closing);
    desk.run(words, orders, arrivals, findings, shutdown, stop).await
}
