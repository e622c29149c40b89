//! The house rules as a program: `cargo xtask check` is what must pass before anything is called done.
//!
//! Invariants: a check that this machine cannot make is said, never silently passed; no rule is without a test that
//! shows it fail.
#![forbid(unsafe_code)]

mod changes;
mod check;
mod circles;
mod command;
mod functions;
mod fuzz;
mod layers;
mod manifests;
mod purity;
mod ratchet;
mod scope;
mod sim;
mod source;
mod tidy;
mod tokens;
mod totals;
mod types;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

const USAGE: &str = "\
cargo xtask check [--profile NAME]       every check of every crate, built with the profile (dev)
cargo xtask check --fast                 format, layers, purity, tidy; clippy and tests of the crates that differ from
                                         the merge base with origin/main (main, where there is no origin), committed or
                                         not, but for the tests of ohm; on a clean main, from the commit before
cargo xtask check --sources              only what needs no build: format, layers, purity, tidy, locks
cargo xtask check -p CRATE               the same for one crate and all that depend on it
cargo xtask layers                       print which crate may import which, and the files that import each other
cargo xtask ratchet                      rewrite the list of exceptions, crates/xtask/ratchet.txt
cargo xtask sim --seeds A..B [--profile NAME] [-- OPTIONS]
                                         run the simulation for the seeds A to B - 1
cargo xtask fuzz [TARGET…] [--seconds N] [--keep]
                                         let libFuzzer run each target (all) for N (10) seconds; --keep puts what is
                                         worth it into the corpora
cargo xtask fuzz TARGET --input FILE     run one input, such as one that was found
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["check", rest @ ..] => scope::Request::parse(rest).and_then(|request| check::check(&request)),
        ["layers"] => print_layers(),
        ["ratchet"] => rewrite_ratchet(),
        ["sim", ..] => sim::sim(&arguments[1..]),
        ["fuzz", ..] => fuzz::fuzz(&arguments[1..]),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_layers() -> Result<bool> {
    let workspace = workspace::Workspace::load()?;
    print!("{}", layers::describe(&workspace.members));
    print!("\n{}", circles::describe(&circles::circles(&source::load(&workspace.root, &workspace.members)?)));
    Ok(true)
}

/// Writes the list of exceptions anew and says what it let grow.
fn rewrite_ratchet() -> Result<bool> {
    let workspace = workspace::Workspace::load()?;
    let measured = ratchet::measure(&source::load(&workspace.root, &workspace.members)?);
    let listed = ratchet::read(&workspace.root).unwrap_or_default();
    let comparison = ratchet::compare(&measured, &listed);
    comparison.failures.iter().for_each(|text| println!("worse: {text}"));
    comparison.improvements.iter().for_each(|text| println!("better: {text}"));
    ratchet::write(&workspace.root, &measured, &listed.reasons)?;
    println!("{} exceptions listed", measured.len());
    Ok(true)
}
