//! A whole cell of real processes in one folder, each with its own way to the servers.
//!
//! ```text
//! DIR/server/        the server's data (under DIR/disk where the scenario wants a small one); several: server-1/ …
//! DIR/nodes/NAME/    an agent and its shim      DIR/fleet/    the simulated nodes
//! DIR/records/       what all of them recorded  DIR/signs/    what real tasks wrote themselves
//! DIR/logs/          what they printed
//! ```

mod fleet;

use crate::client::Client;
use crate::disk::SmallDisk;
use crate::error::LiveError;
use crate::etcd;
use crate::process::{Process, Program, Stranger};
use crate::proxy::Proxy;
use crate::scenario::Shape;
use crate::timeline::{Action, LinkState};
use fleet::Marks;
use nix::sys::signal::Signal;
use ohm_runtime::data_dir;
use ohm_runtime::ports;
use ohm_runtime::recorder::{Happened, Recorder};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the whole cell may take until it serves.
const STARTING: Duration = Duration::from_secs(120);
/// How long a process may take to stop when it is asked to.
const STOPPING: Duration = Duration::from_secs(20);
/// How long the tasks of a killed shim may take to be gone.
const DYING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);
/// How long to look for a leader to kill.
const ELECTING: Duration = Duration::from_secs(2);
/// What the clients' way to the servers is called.
pub(crate) const CLIENTS: &str = "clients";

/// A running cell.
pub(crate) struct Cell {
    folder: PathBuf,
    /// Names and addresses of the servers.
    servers: Vec<(String, SocketAddr)>,
    token: String,
    /// Asks the servers without any fault in between.
    client: Client,
    processes: Vec<Process>,
    /// State folders of shims, by name.
    shims: BTreeMap<String, PathBuf>,
    /// By whose connections pass them: one before each server.
    proxies: BTreeMap<String, Vec<Proxy>>,
    recorder: Recorder,
    disk: Option<SmallDisk>,
    /// Where the members of the etcd listen, if there is one.
    etcd: Vec<String>,
    has_timers: bool,
}

impl Cell {
    /// Starts everything and waits until every node is ready. `disturbed` says whose connections pass a proxy.
    pub(crate) fn start(
        folder: &Path,
        shape: &Shape,
        disturbed: &BTreeSet<&str>,
        disk: Option<SmallDisk>,
    ) -> Result<Self, LiveError> {
        let io = |error| LiveError::Io(folder.display().to_string(), error);
        for part in ["logs", "records", "signs", "nodes"] {
            fs::create_dir_all(folder.join(part)).map_err(io)?;
        }
        let names = shape.server_names();
        let addresses = ports::free_addresses(names.len()).map_err(io)?;
        let servers: Vec<(String, SocketAddr)> = names.into_iter().zip(addresses).collect();
        let token = data_dir::token(folder).map_err(|error| LiveError::Failed(error.to_string()))?;
        let start = |name: &str| -> Result<_, std::io::Error> {
            let proxies: Result<Vec<Proxy>, _> = servers.iter().map(|(_, server)| Proxy::start(*server)).collect();
            Ok((name.to_string(), proxies?))
        };
        let proxies: Result<BTreeMap<String, Vec<Proxy>>, _> = disturbed.iter().map(|name| start(name)).collect();
        let recorder = Recorder::open(&folder.join("records"), "chaos", "chaos").map_err(io)?;
        let mut cell = Cell {
            folder: folder.to_path_buf(),
            client: Client::new(
                servers.iter().map(|(_, address)| format!("http://{address}")).collect(),
                token.clone(),
            ),
            servers,
            token,
            processes: Vec::new(),
            shims: BTreeMap::new(),
            proxies: proxies.map_err(io)?,
            recorder,
            disk,
            etcd: Vec::new(),
            has_timers: shape.has_timers,
        };
        cell.start_servers(shape)?;
        cell.start_deciders(shape)?;
        cell.start_nodes(shape)?;
        let nodes = shape.real_nodes + shape.simulated_nodes;
        cell.wait("all nodes are ready", |cell| cell.client().ready_nodes() == Ok(nodes))?;
        if shape.nodes_per_rack.is_some() {
            cell.wait("the topology is known", |cell| cell.client().define(&fleet::topology()).is_ok())?;
        }
        Ok(cell)
    }

    /// The first one founds the cell and the others join it.
    fn start_servers(&mut self, shape: &Shape) -> Result<(), LiveError> {
        if shape.etcd > 0 {
            self.etcd = etcd::start(&self.folder, shape.etcd, &mut self.processes)?;
        }
        for (number, (name, address)) in self.servers.clone().into_iter().enumerate() {
            let folder = self.server_folder(&name);
            let io = |error| LiveError::Io(folder.display().to_string(), error);
            data_dir::create(&folder).map_err(|error| LiveError::Failed(error.to_string()))?;
            fs::copy(self.folder.join("token"), folder.join("token")).map_err(io)?;
            let (listen, data_dir) = (address.to_string(), folder.display().to_string());
            let mut arguments = ["server", "--listen", &listen, "--data-dir", &data_dir].map(String::from).to_vec();
            if !self.etcd.is_empty() {
                arguments.extend(["--engine".into(), "etcd".into(), "--etcd".into(), self.etcd.join(",")]);
            }
            if number > 0 {
                let others = self.servers.iter().filter(|(_, other)| *other != address);
                let urls: Vec<String> = others.map(|(_, other)| format!("http://{other}")).collect();
                arguments.extend(["--join".into(), urls.join(",")]);
            }
            self.add(&name, 0, arguments)?;
            if !self.etcd.is_empty() {
                continue;
            }
            // One after the other: a server joins once those before it vote.
            self.wait("the server votes", |cell| cell.client().voters() == Ok(number + 1))?;
        }
        self.wait("the servers serve", |cell| cell.client().jobs().is_ok())
    }

    fn start_deciders(&mut self, shape: &Shape) -> Result<(), LiveError> {
        for (class, count) in &shape.schedulers {
            for number in 1..=*count {
                let name = format!("{}-{number}", class.name());
                let arguments = ["scheduler", "--class", class.name(), "--name", &name].map(String::from).to_vec();
                self.add_with_server(&name, 1, arguments)?;
            }
        }
        let (lease_ms, duty_ms) = (shape.node_lease_ms.to_string(), shape.duty_lease_ms.to_string());
        for number in 1..=shape.health {
            let name = format!("health-{number}");
            let leases = ["--node-lease-ms", &lease_ms, "--duty-lease-ms", &duty_ms];
            let arguments = ["health", "--name", &name].into_iter().chain(leases).map(String::from).collect();
            self.add_with_server(&name, 1, arguments)?;
        }
        Ok(())
    }

    fn start_nodes(&mut self, shape: &Shape) -> Result<(), LiveError> {
        for number in 1..=shape.real_nodes {
            let name = format!("node-{number}");
            let folder = self.folder.join("nodes").join(&name);
            let address = format!("127.0.2.{number}");
            let data_dir = folder.display().to_string();
            let mut arguments = ["agent", "--name", &name, "--address", &address, "--data-dir", &data_dir].to_vec();
            for words in [["--label", "pool=real"], ["--capacity", "cpu=500m"], ["--capacity", "memory=1Gi"]] {
                arguments.extend(words);
            }
            arguments.extend(["--capacity", "pods=110", "--stop-tasks-on-exit"]);
            self.shims.insert(format!("shim-{number}"), folder.join("shim"));
            self.add_with_server(&name, 2, arguments.into_iter().map(String::from).collect())?;
        }
        if shape.simulated_nodes > 0 {
            let file = self.folder.join("fleet.yaml");
            fs::write(&file, fleet::documents(shape))
                .map_err(|error| LiveError::Io(file.display().to_string(), error))?;
            let folder = self.folder.join("fleet").display().to_string();
            let arguments = ["agent", "--sim", &file.display().to_string(), "--data-dir", &folder].map(String::from);
            self.add_with_server("fleet", 2, arguments.to_vec())?;
        }
        Ok(())
    }

    fn add_with_server(&mut self, name: &str, rank: u8, mut arguments: Vec<String>) -> Result<(), LiveError> {
        let token = self.folder.join("token").display().to_string();
        arguments.extend(["--server".into(), self.addresses(name).join(","), "--token-file".into(), token]);
        self.add(name, rank, arguments)
    }

    fn add(&mut self, name: &str, rank: u8, arguments: Vec<String>) -> Result<(), LiveError> {
        let log = self.folder.join("logs").join(format!("{name}.log"));
        let has_timers = self.has_timers || !name.starts_with("node-");
        let program =
            Program { name: name.to_string(), path: None, rank, arguments, log, records: self.records(), has_timers };
        self.processes.push(Process::start(program)?);
        Ok(())
    }

    /// Where this process finds the servers.
    fn addresses(&self, name: &str) -> Vec<String> {
        let direct = || self.servers.iter().map(|(_, address)| *address).collect();
        let addresses: Vec<SocketAddr> =
            self.proxies.get(name).map_or_else(direct, |proxies| proxies.iter().map(Proxy::address).collect());
        addresses.into_iter().map(|address| format!("http://{address}")).collect()
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) -> Result<(), LiveError> {
        let started = Instant::now();
        while !done(self) {
            if started.elapsed() > STARTING {
                return Err(LiveError::Failed(format!("not within {STARTING:?}: {what}")));
            }
            self.look()?;
            sleep(LOOK);
        }
        Ok(())
    }

    /// Asks the server without any fault in between.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client as the scenario's clients are.
    pub(crate) fn far_client(&self) -> Client {
        Client::new(self.addresses(CLIENTS), self.token.clone())
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.folder.join("records")
    }

    pub(crate) fn signs(&self) -> PathBuf {
        self.folder.join("signs")
    }

    /// The data of the servers, wherever they are.
    pub(crate) fn server_folders(&self) -> Vec<PathBuf> {
        self.servers.iter().map(|(name, _)| self.server_folder(name)).collect()
    }

    fn server_folder(&self, name: &str) -> PathBuf {
        self.disk.as_ref().map_or(self.folder.as_path(), |disk| disk.folder()).join(name)
    }

    /// What is to be done, with the leader by its name; nothing if nobody leads for so long that there is none to kill.
    pub(crate) fn resolve(&mut self, action: &Action) -> Result<Option<Action>, LiveError> {
        if *action != Action::KillLeader(None) {
            return Ok(Some(action.clone()));
        }
        let started = Instant::now();
        while started.elapsed() < ELECTING {
            let leader = self.client().leader().and_then(|address| address.parse::<SocketAddr>().ok());
            let found = self.servers.iter().find(|(_, address)| Some(*address) == leader);
            if let Some((name, _)) = found {
                return Ok(Some(Action::KillLeader(Some(name.clone()))));
            }
            self.look()?;
            sleep(LOOK);
        }
        Ok(None)
    }

    /// Where the members of the etcd listen that keeps the log, if one does. They run until the cell is dropped.
    pub(crate) fn etcd(&self) -> &[String] {
        &self.etcd
    }

    /// How often processes ended that nobody had struck.
    pub(crate) fn ended_by_themselves(&self) -> BTreeMap<String, u32> {
        let ended = self.processes.iter().filter(|process| process.ended_by_itself > 0);
        ended.map(|process| (process.program.name.clone(), process.ended_by_itself)).collect()
    }

    /// Starts again whoever is dead.
    pub(crate) fn look(&mut self) -> Result<(), LiveError> {
        for process in &mut self.processes {
            if let Some(pid) = process.look() {
                let name = process.program.name.clone();
                self.recorder.write(|| Happened::Exited { name, pid });
            }
            process.revive()?;
        }
        Ok(())
    }

    /// Does it, and records that it was done.
    pub(crate) fn perform(&mut self, action: &Action) -> Result<(), LiveError> {
        self.recorder.write(|| Happened::Fault { what: action.to_string() });
        match action {
            Action::Kill(victims) => self.kill(victims),
            Action::KillLeader(leader) => self.kill(leader.as_slice()),
            Action::Pause(process) => self.signal(process, Signal::SIGSTOP),
            Action::Continue(process) => self.signal(process, Signal::SIGCONT),
            Action::Link(process, state) => {
                self.proxies.get(process).into_iter().flatten().for_each(|proxy| proxy.set(*state));
            }
            Action::Down(_, nodes) => Marks::of(&self.folder).put(nodes)?,
            Action::Up(nodes) => Marks::of(&self.folder).take_away(nodes),
            Action::FillDisk => {
                if let Some(disk) = &self.disk {
                    disk.fill().map_err(|error| LiveError::Io("the ballast".into(), error))?;
                }
            }
            Action::MakeRoom => {
                if let Some(disk) = &self.disk {
                    disk.make_room();
                }
            }
        }
        Ok(())
    }

    fn signal(&mut self, name: &str, signal: Signal) {
        if let Some(folder) = self.shims.get(name) {
            if let Some(shim) = Stranger::shim(folder) {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(shim.pid.cast_signed()), signal);
            }
            return;
        }
        let found = self.processes.iter_mut().find(|process| process.program.name == *name);
        found.into_iter().for_each(|process| process.signal(signal));
    }

    /// All signals first, then the waiting.
    fn kill(&mut self, victims: &[String]) {
        let mut shims = Vec::new();
        for name in victims {
            if let Some(folder) = self.shims.get(name)
                && let Some(shim) = Stranger::shim(folder)
            {
                let mut tasks = Stranger::marked(folder);
                shim.kill();
                tasks.extend(Stranger::marked(folder));
                shims.push((name.clone(), shim, tasks));
            } else {
                self.signal(name, Signal::SIGKILL);
            }
        }
        for process in self.processes.iter_mut().filter(|process| victims.contains(&process.program.name)) {
            if let Some(pid) = process.bury() {
                let name = process.program.name.clone();
                self.recorder.write(|| Happened::Exited { name, pid });
            }
        }
        for (name, shim, tasks) in shims {
            let started = Instant::now();
            while shim.is_alive() || tasks.iter().any(Stranger::is_alive) {
                if started.elapsed() > DYING {
                    // Whoever comes after this shim finds them and tells when they are gone.
                    return;
                }
                sleep(Duration::from_millis(1));
            }
            self.recorder.write(|| Happened::Exited { name, pid: shim.pid });
        }
    }

    /// Ends every fault that is still in force.
    pub(crate) fn heal(&mut self) {
        self.processes.iter_mut().for_each(|process| process.signal(Signal::SIGCONT));
        self.proxies.values().flatten().for_each(|proxy| proxy.set(LinkState::Open));
        Marks::of(&self.folder).take_all_away();
        if let Some(disk) = &self.disk {
            disk.make_room();
        }
    }

    /// Stops everything in order: nodes with their tasks, then who decides, the server last.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.heal();
        let mut stubborn = Vec::new();
        for rank in [2, 1, 0] {
            let mut stopping: Vec<&mut Process> =
                self.processes.iter_mut().filter(|process| process.program.rank == rank).collect();
            stopping.iter_mut().for_each(|process| process.signal(Signal::SIGTERM));
            let started = Instant::now();
            while !stopping.is_empty() {
                stopping.retain_mut(|process| process.look().is_none() && process.pid().is_some());
                if started.elapsed() > STOPPING {
                    for process in stopping.drain(..) {
                        stubborn.push(process.program.name.clone());
                        process.signal(Signal::SIGKILL);
                        process.bury();
                    }
                }
                sleep(LOOK);
            }
        }
        self.kill_shims();
        stubborn
    }

    /// Shims end with the tasks of their agents; what is left of them all the same goes now.
    fn kill_shims(&self) {
        self.shims.values().filter_map(|folder| Stranger::shim(folder)).for_each(|shim| shim.kill());
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(|process| process.signal(Signal::SIGKILL));
        self.kill_shims();
    }
}
