//! Whether a large cell shares its quota fairly for minutes: `cargo bench -p ohm --bench fairness -- [WORD=NUMBER]…`.
//!
//! Every role is a process of its own. 50 queues under 5 cohorts with work of random priorities, 10,000 jobs at first,
//! on 1,000 simulated nodes. Usage is averaged over 5 minutes, quotas and weights of a third of all queues and cohorts
//! are changed, and it is averaged again. Ends with 1 unless each queue had what is fair within 2 % or one task and
//! started something, no job was lost, and the log verifies. The words are those of [`scale`].

#[allow(dead_code)] // A bench uses its part of this.
#[path = "../tests/cell/mod.rs"]
mod cell;
#[allow(dead_code)] // The same, and not its tests.
#[path = "../tests/fairness/mod.rs"]
mod fairness;

use fairness::run::measure;
use fairness::scene::Scale;
use std::process::ExitCode;

/// The scale that these words ask for.
fn scale(words: impl Iterator<Item = String>) -> Scale {
    let mut scale = Scale {
        seed: 1,
        nodes: 1_000,
        cpus: 4,
        queues: 50,
        cohorts: 5,
        jobs: 10_000,
        replicas: 2,
        job_seconds: (20, 60),
        seconds: (300, 120),
        percent: 2.0,
    };
    for word in words {
        let Some((name, value)) = word.split_once('=') else { continue };
        let number: u64 = value.parse().expect("a number");
        match name {
            "seed" => scale.seed = number,
            "nodes" => scale.nodes = number as usize,
            "cpus" => scale.cpus = number,
            "queues" => scale.queues = number as usize,
            "cohorts" => scale.cohorts = number as usize,
            "jobs" => scale.jobs = number as usize,
            "replicas" => scale.replicas = number as usize,
            "shortest" => scale.job_seconds.0 = number,
            "longest" => scale.job_seconds.1 = number,
            "seconds" => scale.seconds.0 = number,
            "again" => scale.seconds.1 = number,
            "percent" => scale.percent = number as f64,
            _ => panic!("what is {name}?"),
        }
    }
    scale
}

fn main() -> ExitCode {
    // `cargo test` runs benches once, to see that they run; a measurement takes minutes.
    if !std::env::args().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    let scale = scale(std::env::args().skip(1));
    println!("{scale:?}");
    let problems = measure(&scale, |text| println!("{text}"));
    problems.iter().for_each(|problem| println!("{problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
