//! The `ohm` binary: arguments in, roles out, no logic.
#![forbid(unsafe_code)]

mod agent;
mod checks;
mod roles;

use agent::AgentArguments;
use clap::{CommandFactory, Parser, Subcommand};
use ohm_cli::{ChaosNode, ClientCommand, Globals, LogCommand, OutputFormat, Simulate, TlsCommand, Up};
use roles::{HealthArguments, ProvisionerArguments, SchedulerArguments, ServerArguments};
use std::process::ExitCode;

/// Commands and plans are many small pieces that end on other threads than they began on. What long bodies took goes
/// back to the system: a thread of the allocator gives pages back that nobody has used for ten seconds.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A cell scheduler: jobs in, placements out, and they stay right while machines fail.
#[derive(Parser)]
#[command(name = "ohm", version, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a whole cell on this machine
    Up(Up),
    #[command(flatten)]
    Client(ClientCommand),
    /// Read the log of a data folder without a server
    #[command(subcommand)]
    Log(LogCommand),
    /// Make the certificates of a cell
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Break things on purpose, and judge what came of it
    #[command(subcommand)]
    Chaos(Chaos),
    /// Run a server
    Server(ServerArguments),
    /// Run a scheduler of one class
    Scheduler(SchedulerArguments),
    /// Run a candidate for the health duty
    Health(HealthArguments),
    /// Run a candidate for the provisioning duty: who asks for nodes on behalf of queues with checks
    Provisioner(ProvisionerArguments),
    /// Run the agent of a node, or of many simulated ones
    Agent(AgentArguments),
}

#[derive(Subcommand)]
enum Chaos {
    /// Take a node of the cell that `ohm up` runs down, with its tasks
    NodeDown(ChaosNode),
    /// Let it come up again
    NodeUp(ChaosNode),
    /// Run whole cells in virtual time, each from one seed
    Sim(Simulate),
    /// Run a scenario against a cell of real processes
    Live(ohm_live::Live),
}

/// Planted bugs are for the simulator's own test and never for a binary that anybody runs.
const _: () = assert!(!ohm_stdx::bug::COMPILED, "the ohm binary is not built with the feature bugs");

fn chaos(command: &Chaos, globals: &Globals) -> ExitCode {
    match command {
        Chaos::NodeDown(node) => ohm_cli::chaos_node(node, true, globals),
        Chaos::NodeUp(node) => ohm_cli::chaos_node(node, false, globals),
        Chaos::Sim(options) => ohm_cli::simulate(options, globals),
        Chaos::Live(options) => {
            // JSON is YAML too.
            let is_text = globals.output == OutputFormat::Table;
            ohm_live::live(options, if is_text { ohm_live::Form::Text } else { ohm_live::Form::Json })
        }
    }
}

fn main() -> ExitCode {
    // The shim is started by agents alone, thousands of times faster than a command line is parsed.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "shim") {
        return roles::shim(words);
    }
    let Arguments { globals, command } = Arguments::parse();
    match command {
        Command::Up(options) => ohm_cli::up(&options, &globals),
        Command::Client(command) => ohm_cli::run(command, &globals, Arguments::command),
        Command::Log(command) => ohm_cli::log(&command, &globals),
        Command::Tls(command) => ohm_cli::tls(&command, &globals),
        Command::Chaos(command) => chaos(&command, &globals),
        Command::Server(arguments) => roles::server(arguments, &globals),
        Command::Scheduler(arguments) => roles::scheduler(&arguments, &globals),
        Command::Health(arguments) => roles::health(&arguments, &globals),
        Command::Provisioner(arguments) => roles::provisioner(&arguments, &globals),
        Command::Agent(arguments) => roles::agent(arguments, &globals),
    }
}
