//! What a cell on one machine consists of: which processes with which arguments, which nodes with what room.

use super::child::Command;
use super::options::{HOSTS_MAX, Shape, Up};
use crate::etcd::{Engine, EngineArguments, LocalEtcd};
use crate::failure::Failure;
use ohm_health::HealthConfig;
use ohm_model::Class;
use ohm_runtime::data_dir;
use ohm_runtime::machine;
use ohm_wire::api::INSTANCE_VARIABLE;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The topology of the virtual nodes.
pub(super) const TOPOLOGY: &str = "\
apiVersion: ohm/v1
kind: Topology
metadata: {name: default}
spec:
  levels:
  - nodeLabel: topology.ohm/block
  - nodeLabel: topology.ohm/rack
  - nodeLabel: kubernetes.io/hostname
";

/// Who is stopped first when the cell stops: those with the highest number.
const ETCD: u8 = 0;
const SERVER: u8 = 1;
const HEALTH: u8 = 2;
pub(super) const AGENTS: u8 = 3;
const SCHEDULERS: u8 = 4;
/// The share of the machine's memory that its virtual nodes offer together, in per cent: the rest is for Ohm itself and
/// whatever else runs there.
const MEMORY_PERCENT: u64 = 80;

/// Everything that `ohm up` starts.
pub(super) struct CellPlan {
    folder: PathBuf,
    /// By which our servers are known from any other one.
    instance: String,
    /// Where the servers listen.
    listens: Vec<SocketAddr>,
    node_lease_ms: u64,
    duty_lease_ms: u64,
    replicas: Vec<(Class, usize)>,
    hosts: Vec<Host>,
    /// What keeps the log, and an etcd of our own for it.
    engine: EngineArguments,
    local_etcd: Option<LocalEtcd>,
}

struct Host {
    block: usize,
    rack: usize,
    host: usize,
    cpu_milli: u64,
    memory_bytes: u64,
    number: usize,
}

impl CellPlan {
    pub(super) fn new(options: &Up, folder: &Path, instance: &str) -> Result<Self, Failure> {
        let replicas = Class::BUILT_IN.map(|class| {
            let asked = options.schedulers.iter().rev().find(|replicas| replicas.class == class);
            (class, asked.map_or(1, |replicas| replicas.count))
        });
        let hosts = match options.nodes {
            Some(0) => Vec::new(),
            None => hosts_of(options.shape)?,
            Some(hosts) if hosts <= HOSTS_MAX => hosts_of(Shape { blocks: 1, racks: 1, hosts })?,
            Some(count) => {
                return Err(Failure::Usage(format!(
                    "--nodes {count}: at most {HOSTS_MAX} are possible on one machine"
                )));
            }
        };
        let port =
            |number: u16| options.listen.port().checked_add(number).ok_or("the ports after --listen end at 65535");
        let listen = |number| Ok(SocketAddr::new(options.listen.ip(), port(number)?));
        let listens: Result<Vec<SocketAddr>, &str> = (0..options.servers).map(listen).collect();
        let (mut engine, mut local_etcd) = (options.engine.clone(), None);
        if engine.engine == Engine::Etcd && engine.etcd.is_empty() {
            let local = LocalEtcd::in_folder(&folder.join("etcd"))?;
            engine.etcd = vec![local.url.clone()];
            local_etcd = Some(local);
        }
        engine.options().map_err(Failure::Usage)?;
        let (node_lease_ms, duty_lease_ms) = (options.node_lease_ms, options.duty_lease_ms);
        let health = HealthConfig { node_lease_ms, duty_lease_ms, ..HealthConfig::default() };
        health.check().map_err(|short| Failure::Usage(format!("--node-lease-ms: {short} (--duty-lease-ms)")))?;
        let plan = CellPlan {
            engine,
            local_etcd,
            folder: folder.to_path_buf(),
            instance: instance.to_string(),
            listens: listens.map_err(|error| Failure::Usage(error.to_string()))?,
            node_lease_ms,
            duty_lease_ms,
            replicas: replicas.to_vec(),
            hosts,
        };
        let servers = (0..plan.listens.len()).map(|number| plan.server_folder(number));
        for part in servers.chain([plan.logs(), plan.folder.join("nodes")]) {
            data_dir::create(&part).map_err(|error| Failure::Failed(error.to_string()))?;
        }
        Ok(plan)
    }

    /// The servers keep the same token as the cell's folder.
    pub(super) fn write_token(&self, token: &str) -> Result<(), Failure> {
        for number in 0..self.listens.len() {
            let path = self.server_folder(number).join("token");
            if !data_dir::read_token(&path).is_ok_and(|known| known == token) {
                let copied = std::fs::copy(self.token_file(), &path);
                copied.map_err(|error| Failure::io(path.display().to_string(), error))?;
            }
        }
        Ok(())
    }

    /// The folder of one server; the first one is called as if there were no others.
    fn server_folder(&self, number: usize) -> PathBuf {
        match number {
            0 => self.folder.join("server"),
            _ => self.folder.join(format!("server-{}", number + 1)),
        }
    }

    pub(super) fn listens(&self) -> &[SocketAddr] {
        &self.listens
    }

    /// Where all servers listen, as clients are told.
    pub(super) fn addresses(&self) -> String {
        let urls: Vec<String> = self.listens.iter().map(|listen| format!("http://{listen}")).collect();
        urls.join(",")
    }

    pub(super) fn token_file(&self) -> PathBuf {
        self.folder.join("token")
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn has_nodes(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The first server founds the cell and the others join it. One whose folder is empty later joins again.
    pub(super) fn servers(&self) -> Vec<Command> {
        let runs_already = (1..self.listens.len()).any(|number| self.server_folder(number).join("log").exists());
        let command = |(number, listen): (usize, &SocketAddr)| {
            let mut arguments = vec!["server".to_string(), "--listen".into(), listen.to_string()];
            arguments.extend(self.engine.words());
            if self.engine.engine == Engine::Raft && (number > 0 || runs_already) {
                let others = self.listens.iter().filter(|other| *other != listen);
                let urls: Vec<String> = others.map(|other| format!("http://{other}")).collect();
                arguments.extend(["--join".into(), urls.join(",")]);
            }
            let folder = self.server_folder(number);
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let mut server = self.command(&name, SERVER, arguments, Some(folder));
            server.environment.push((INSTANCE_VARIABLE, self.instance.clone()));
            server
        };
        self.listens.iter().enumerate().map(command).collect()
    }

    /// The etcd that keeps the log, if it is ours.
    pub(super) fn etcd(&self) -> Option<Command> {
        let local = self.local_etcd.as_ref()?;
        let mut command = self.command("etcd", ETCD, local.arguments.clone(), None);
        command.program = Some(local.program.clone());
        Some(command)
    }

    /// Schedulers, health and provisioner.
    pub(super) fn followers(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for &(class, count) in &self.replicas {
            for number in 1..=count {
                let name = format!("{}-{number}", class.name());
                let arguments =
                    vec!["scheduler".into(), "--class".into(), class.name().into(), "--name".into(), name.clone()];
                commands.push(self.command(&name, SCHEDULERS, self.towards_server(arguments), None));
            }
        }
        let mut health = ["health", "--name", "health"].map(String::from).to_vec();
        health.extend(["--node-lease-ms".into(), self.node_lease_ms.to_string()]);
        health.extend(["--duty-lease-ms".into(), self.duty_lease_ms.to_string()]);
        commands.push(self.command("health", HEALTH, self.towards_server(health), None));
        let folder = self.folder.display().to_string();
        let provisioner = vec!["provisioner".into(), "--name".into(), "provisioner".into(), "--sim-dir".into(), folder];
        commands.push(self.command("provisioner", SCHEDULERS, self.towards_server(provisioner), None));
        commands
    }

    pub(super) fn agents(&self) -> Vec<Command> {
        self.hosts.iter().map(|host| self.agent(host)).collect()
    }

    fn agent(&self, host: &Host) -> Command {
        let name = format!("b{}-r{}-h{}", host.block, host.rack, host.host);
        let mut arguments = vec!["agent".to_string(), "--name".into(), name.clone()];
        let mut add = |flag: &str, value: String| arguments.extend([flag.to_string(), value]);
        // Each virtual node has an address of its own, so that ports of different nodes don't collide.
        add("--address", format!("127.0.1.{}", host.number + 1));
        add("--label", format!("topology.ohm/block=b{}", host.block));
        add("--label", format!("topology.ohm/rack=b{}-r{}", host.block, host.rack));
        add("--capacity", format!("cpu={}m", host.cpu_milli));
        add("--capacity", format!("memory={}", host.memory_bytes));
        add("--capacity", "pods=110".to_string());
        arguments.push("--stop-tasks-on-exit".into());
        // The agent keeps its own state below `nodes`.
        self.command(&name, AGENTS, self.towards_server(arguments), Some(self.folder.clone()))
    }

    fn towards_server(&self, mut arguments: Vec<String>) -> Vec<String> {
        let token = self.token_file().display().to_string();
        arguments.extend(["--server".into(), self.addresses(), "--token-file".into(), token]);
        arguments
    }

    fn command(&self, name: &str, rank: u8, mut arguments: Vec<String>, folder: Option<PathBuf>) -> Command {
        if let Some(folder) = folder {
            arguments.extend(["--data-dir".into(), folder.display().to_string()]);
        }
        let log = self.logs().join(format!("{name}.log"));
        Command { name: name.to_string(), program: None, rank, arguments, environment: Vec::new(), log }
    }
}

/// The hosts of a shape, which share the machine in equal parts.
fn hosts_of(shape: Shape) -> Result<Vec<Host>, Failure> {
    let count = shape.blocks * shape.racks * shape.hosts;
    let unknown = |what: &str| Failure::Failed(format!("this machine does not say how much {what} it has"));
    let cpu_milli = machine::cpu_milli().ok_or_else(|| unknown("cpu"))?;
    let memory_bytes = machine::memory_bytes().ok_or_else(|| unknown("memory"))? / 100 * MEMORY_PERCENT;
    let mut hosts = Vec::with_capacity(count);
    for block in 1..=shape.blocks {
        for rack in 1..=shape.racks {
            for host in 1..=shape.hosts {
                hosts.push(Host {
                    block,
                    rack,
                    host,
                    cpu_milli: cpu_milli / count as u64,
                    memory_bytes: memory_bytes / count as u64,
                    number: hosts.len(),
                });
            }
        }
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_the_machine_and_have_their_own_names() {
        let hosts = hosts_of("2x2x2".parse().unwrap()).unwrap();
        assert_eq!(hosts.len(), 8);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        assert!(hosts.iter().map(|host| host.cpu_milli).sum::<u64>() <= cores * 1000);
    }
}
