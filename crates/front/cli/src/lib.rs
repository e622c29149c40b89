//! The commands for people. They speak the public HTTP API and nothing else, so that everything a person can do, a
//! script can.
//!
//! Invariants: what is printed as JSON or YAML is what the server answered; colour and progress appear on a terminal
//! only; a table fits the terminal; the exit code is 0 when it was done, 1 when it failed, 2 when the command was
//! used wrongly and 3 when no server could be reached (`run` ends with the code of its task).

mod answers;
mod chaos;
mod client;
mod clock;
mod command;
mod commands;
mod etcd;
mod failure;
mod globals;
mod log_files;
mod members;
mod output;
mod replay;
mod rescue;
mod terminal;
mod text;
mod tls;
mod up;

pub use chaos::Simulate;
pub use clock::BelieveClock;
pub use command::ClientCommand;
pub use etcd::{Engine, EngineArguments};
pub use failure::{EXIT_DONE, EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, Failure};
pub use globals::{ColorChoice, Globals, OutputFormat};
pub use log_files::LogCommand;
pub use members::MembersCommand;
pub use rescue::RescueCommand;
pub use tls::TlsCommand;
pub use up::{ChaosNode, Up};

use std::process::ExitCode;

/// Does what `command` says. `whole` makes the whole command line of the binary, for shell completion.
pub fn run(command: ClientCommand, globals: &Globals, whole: fn() -> clap::Command) -> ExitCode {
    match commands::perform(command, globals, whole) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.report(globals.colors_on_stderr());
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Runs a whole cell on this machine until it is told to stop.
pub fn up(options: &Up, globals: &Globals) -> ExitCode {
    exit_code(up::up(options, globals), globals)
}

/// Takes a node of the cell that `ohm up` runs down, with its tasks, or lets it come up again.
pub fn chaos_node(node: &ChaosNode, is_down: bool, globals: &Globals) -> ExitCode {
    exit_code(up::mark(node, is_down, globals), globals)
}

/// Asks about the servers of the cell, and changes who they are.
pub fn members(command: &MembersCommand, globals: &Globals) -> ExitCode {
    exit_code(members::members(command, globals), globals)
}

/// Says that the wall clock of a server is right.
pub fn believe_clock(options: &BelieveClock, globals: &Globals) -> ExitCode {
    exit_code(clock::believe_clock(options, globals), globals)
}

/// Makes certificates.
pub fn tls(command: &TlsCommand, globals: &Globals) -> ExitCode {
    exit_code(tls::tls(command, globals), globals)
}

/// Backs a cell up, restores one, or recovers one after its majority is lost.
pub fn rescue(command: &RescueCommand, globals: &Globals) -> ExitCode {
    exit_code(rescue::rescue(command, globals), globals)
}

/// Reads a log at rest.
pub fn log(command: &LogCommand, globals: &Globals) -> ExitCode {
    exit_code(log_files::log(command, &globals.data_dir()), globals)
}

/// Simulates whole cells in virtual time.
pub fn simulate(options: &Simulate, globals: &Globals) -> ExitCode {
    exit_code(chaos::simulate(options, globals), globals)
}

fn exit_code(result: Result<(), Failure>, globals: &Globals) -> ExitCode {
    match result {
        Ok(()) => ExitCode::from(EXIT_DONE),
        Err(failure) => {
            failure.report(globals.colors_on_stderr());
            ExitCode::from(failure.exit_code())
        }
    }
}
