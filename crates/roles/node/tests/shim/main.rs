//! The shim with real processes. This program is its own shim, guard and agent, so it has its own `main`.

mod faults;
mod lives;
mod resources;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    match first.to_str() {
        Some("shim") => {
            if let Err(error) = ohm_node::shim::shim_command(arguments) {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Some("agent") => faults::agent(arguments.next().unwrap_or_default()),
        _ => run_tests(),
    }
}

/// What `cargo test` would do: runs the tests whose name holds the filter, one after the other.
fn run_tests() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tests: Vec<world::Test> = lives::TESTS.iter().chain(resources::TESTS).chain(faults::TESTS).copied().collect();
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let mut failed = Vec::new();
    for setup in world::SETUPS {
        for (name, test) in tests.iter().filter(|(name, _)| name.contains(&filter)) {
            let passed = catch_unwind(AssertUnwindSafe(|| test(setup))).is_ok();
            println!("test {name} [{setup}] ... {}", if passed { "ok" } else { "FAILED" });
            if !passed {
                failed.push(format!("{name} [{setup}]"));
            }
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}
