//! The roles that run as processes: their arguments, and the one call that runs each.

use crate::agent::{self, AgentArguments};
use ohm_cli::{
    BelieveClock, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EngineArguments, Globals, MembersCommand, RescueCommand,
};
use ohm_daemon::{HealthOptions, ProvisionerOptions, SchedulerOptions, SimOptions};
use ohm_daemon::{run_health, run_provisioner, run_scheduler};
use ohm_model::Class;
use ohm_node::agent::{AgentOptions, machine_node, run_agent};
use ohm_node::sim_agent::{SimAgentOptions, run_sim_agent};
use ohm_runtime::servers::{Servers, TokenSource};
use ohm_runtime::shutdown::Shutdown;
use ohm_runtime::trace;
use ohm_server::ServerOptions;
use std::ffi::OsString;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `ohm server`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServerArguments {
    #[command(subcommand)]
    command: Option<ServerCommand>,
    /// Address of its one port
    #[arg(long, default_value = "127.0.0.1:6460", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Listen on an address that other machines can reach although nothing is encrypted
    #[arg(long)]
    insecure: bool,
    /// Let only those in who show a certificate of --tls-ca
    #[arg(long)]
    tls_client_auth: bool,
    /// Where other machines reach it [default: the address it listens on]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Servers of the cell to join while the data folder is empty; without any, an empty folder founds a cell
    #[arg(long, value_name = "URL,URL", value_delimiter = ',')]
    join: Vec<String>,
    /// Take a snapshot after so many entries
    #[arg(long, value_name = "COUNT")]
    snapshot_every: Option<u64>,
    #[command(flatten)]
    engine: EngineArguments,
}

/// What is done about servers instead of running one.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum ServerCommand {
    /// The servers of the cell: list, add, remove, transfer
    #[command(subcommand)]
    Members(MembersCommand),
    /// Say that the wall clock of a server is right: the time of the cell moves forward to it
    BelieveClock(BelieveClock),
    #[command(flatten)]
    Rescue(RescueCommand),
}

/// `ohm scheduler`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchedulerArguments {
    /// Which jobs it places: batch, service, tas, or the class of a SchedulingProfile
    #[arg(long)]
    class: Class,
    /// How it is called in events and metrics [default: class and process id]
    #[arg(long)]
    name: Option<String>,
}

/// `ohm health`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HealthArguments {
    /// How it is called in events [default: health and process id]
    #[arg(long)]
    name: Option<String>,
    /// How long a node may go on after its last answered beat, in milliseconds; longer than the duty takes to go to
    /// another process
    #[arg(long, default_value_t = 30_000, value_name = "MS")]
    node_lease_ms: u64,
    /// How long the lease of the duty itself lasts, in milliseconds, equal for all candidates
    #[arg(long, default_value_t = 4_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(500..60_000))]
    duty_lease_ms: u64,
    /// When more than this share of the nodes falls silent at once, none is declared lost for 30 s; 100 for never
    #[arg(long, default_value_t = 30, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    brake_percent: u64,
}

/// `ohm provisioner`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProvisionerArguments {
    /// How it is called in events [default: provisioner and process id]
    #[arg(long)]
    name: Option<String>,
    /// Bring simulated nodes for classes of the kind `sim`, and keep them in this folder
    #[arg(long, value_name = "DIR")]
    sim_dir: Option<PathBuf>,
}

fn servers(globals: &Globals) -> Servers {
    let token = match (&globals.token_file, std::env::var("OHM_TOKEN")) {
        (Some(path), _) => TokenSource::File(path.clone()),
        (None, Ok(token)) => TokenSource::Text(token),
        (None, Err(_)) => TokenSource::File(globals.data_dir().join("token")),
    };
    let addresses = globals.server.split(',').map(|address| address.trim().trim_end_matches('/').to_string()).collect();
    Servers { addresses, token, tls: globals.tls() }
}

/// Runs a role on as many threads as there are cores, until a signal, the end of its parent, or its own end.
fn run<F, E>(threads: usize, role: impl FnOnce(Shutdown) -> F) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    trace::start("info");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let outcome = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            let shutdown = Shutdown::on_signals().map_err(|error| error.to_string())?;
            shutdown.on_orphaned();
            role(shutdown).await.map_err(|error| error.to_string())
        })
    });
    match outcome {
        Ok(()) => ExitCode::from(EXIT_DONE),
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

pub(crate) fn server(arguments: ServerArguments, globals: &Globals) -> ExitCode {
    match &arguments.command {
        Some(ServerCommand::Members(command)) => return ohm_cli::members(command, globals),
        Some(ServerCommand::BelieveClock(options)) => return ohm_cli::believe_clock(options, globals),
        Some(ServerCommand::Rescue(command)) => return ohm_cli::rescue(command, globals),
        None => {}
    }
    let etcd = match arguments.engine.options() {
        Ok(etcd) => etcd,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let options = ServerOptions {
        etcd,
        data_dir: globals.data_dir(),
        listen: arguments.listen,
        insecure: arguments.insecure,
        tls: globals.tls(),
        tls_client_auth: arguments.tls_client_auth,
        advertise: arguments.advertise,
        join: arguments.join,
        snapshot_every_entries: arguments.snapshot_every,
    };
    run(2, |shutdown| ohm_server::run(options, shutdown))
}

pub(crate) fn scheduler(arguments: &SchedulerArguments, globals: &Globals) -> ExitCode {
    let name = arguments.name.clone().unwrap_or_else(|| format!("{}-{}", arguments.class.name(), std::process::id()));
    let options = SchedulerOptions::new(servers(globals), arguments.class, &name);
    run(1, |shutdown| run_scheduler(options, shutdown))
}

pub(crate) fn health(arguments: &HealthArguments, globals: &Globals) -> ExitCode {
    let name = arguments.name.clone().unwrap_or_else(|| format!("health-{}", std::process::id()));
    let options = HealthOptions::new(servers(globals), &name)
        .with_node_lease_ms(arguments.node_lease_ms)
        .with_duty_lease_ms(arguments.duty_lease_ms)
        .with_brake_percent(arguments.brake_percent);
    if let Err(short) = options.config.health.check() {
        return used_wrongly(&format!("--node-lease-ms: {short} (--duty-lease-ms)"));
    }
    run(1, |shutdown| run_health(options, shutdown))
}

pub(crate) fn provisioner(arguments: &ProvisionerArguments, globals: &Globals) -> ExitCode {
    let name = arguments.name.clone().unwrap_or_else(|| format!("provisioner-{}", std::process::id()));
    let sim = arguments.sim_dir.as_ref().map(|folder| simulation(folder, globals)).transpose();
    let sim = match sim {
        Ok(sim) => sim,
        Err(error) => return used_wrongly(&format!("--sim-dir: {error}")),
    };
    let options = ProvisionerOptions { servers: servers(globals), name, sim };
    run(1, |shutdown| run_provisioner(options, shutdown))
}

/// Simulated nodes find the servers as their provisioner does.
fn simulation(folder: &Path, globals: &Globals) -> std::io::Result<SimOptions> {
    let mut arguments = vec!["--server".to_string(), globals.server.clone()];
    let token = globals.token_file.clone().unwrap_or_else(|| globals.data_dir().join("token"));
    let token = std::path::absolute(token)?;
    if token.exists() {
        arguments.extend(["--token-file".to_string(), token.display().to_string()]);
    }
    arguments.extend(globals.tls_words());
    Ok(SimOptions { folder: std::path::absolute(folder)?, program: std::env::current_exe()?, arguments })
}

pub(crate) fn shim(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match ohm_node::shim::shim_command(arguments) {
        Ok(()) => ExitCode::from(EXIT_DONE),
        Err(error) => {
            eprintln!("shim: {error}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

pub(crate) fn agent(arguments: AgentArguments, globals: &Globals) -> ExitCode {
    let Some(sim) = &arguments.sim else { return real_agent(&arguments, globals) };
    match agent::simulated(sim) {
        Ok(nodes) => {
            let mut options = SimAgentOptions::new(servers(globals), nodes);
            options.ends_with_nodes = arguments.ends_with_nodes;
            if let Some(data_dir) = &globals.data_dir {
                match agent::state_folder(data_dir, arguments.name.as_deref().unwrap_or("sim")) {
                    Ok(folder) => {
                        options.data_dir = Some(folder);
                        options.down_dir = Some(data_dir.join("down"));
                    }
                    Err(error) => return used_wrongly(&error),
                }
            }
            run(1, |shutdown| run_sim_agent(options, shutdown))
        }
        Err(error) => used_wrongly(&error),
    }
}

fn used_wrongly(error: &str) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(EXIT_USAGE)
}

fn real_agent(arguments: &AgentArguments, globals: &Globals) -> ExitCode {
    // The token is that of the data folder; the agent's own state is below, so that servers and agents can share one.
    let data_dir = std::path::absolute(globals.data_dir()).unwrap_or_else(|_| globals.data_dir());
    let node = agent::described(arguments, machine_node());
    match node.and_then(|node| Ok((agent::state_folder(&data_dir, &node.name)?, node))) {
        Ok((folder, node)) => {
            let mut options = AgentOptions::new(servers(globals), &folder, node);
            options.stop_tasks_on_exit = arguments.stop_tasks_on_exit;
            options.checks = arguments.checks.options();
            run(1, |shutdown| run_agent(options, shutdown))
        }
        Err(error) => used_wrongly(&error),
    }
}
