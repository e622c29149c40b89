//! What a client feels of others that misuse the server, on this machine: `cargo bench -p ohm --bench misuse`.
//!
//! 1,000 jobs are submitted to an idle cell, each by itself, and 1,000 more while 50 clients misuse it and 10,000
//! connections stand idle. Those are a process of their own that has only what nobody else wants of this machine: they
//! stand for other machines, and what they compute must not be measured. Every job must end well, and the server must
//! live; the times are printed.

#[allow(dead_code)] // A bench uses its part of this.
#[path = "../tests/cell/mod.rs"]
mod cell;

use cell::http::Http;
use cell::misuse::Misuse;
use cell::{Cell, Killed};
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const JOBS: usize = 1_000;
const NODES: usize = 100;
const CLIENTS: usize = 50;
const IDLE: usize = 10_000;
/// Until all clients are at it.
const SETTLING: Duration = Duration::from_secs(5);
/// Between two submissions.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(300);
/// What the server may hold at most.
const MEMORY_MIB_MAX: u64 = 1024;
/// Says to the other process whom to misuse.
const LISTEN: &str = "OHM_MISUSE_LISTEN";
const TOKEN: &str = "OHM_MISUSE_TOKEN";

/// Submits so many jobs; how long each took, in milliseconds, shortest first.
fn submit(http: &mut Http, names: &[String]) -> Vec<f64> {
    let one = |name: &String| {
        let job = format!(
            "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{requests: {{cpu: 100m}}, command: [\"true\"], sim: \
             {{duration: 100ms}}}}\n"
        );
        let started = Instant::now();
        let (status, answer) = http.submit(job.as_bytes());
        let took_ms = started.elapsed().as_secs_f64() * 1000.0;
        assert_eq!(status, 200, "{answer}");
        std::thread::sleep(PAUSE);
        took_ms
    };
    let mut took_ms: Vec<f64> = names.iter().map(one).collect();
    took_ms.sort_by(f64::total_cmp);
    took_ms
}

fn names(prefix: &str) -> Vec<String> {
    (0..JOBS).map(|number| format!("{prefix}-{number}")).collect()
}

/// The other process: misuses until nobody holds its input any more.
fn misuse(listen: &str) {
    ohm_runtime::descriptors::raise();
    let misuse = Misuse::of(listen, &env::var(TOKEN).unwrap());
    std::thread::scope(|scope| {
        let begin = || println!("{} connections stand idle", misuse.tally.idle.load(Ordering::Relaxed));
        let misuse = &misuse;
        scope.spawn(move || misuse.run(CLIENTS, IDLE, begin));
        let _ = std::io::stdin().read(&mut [0]);
        println!("{:?}", misuse.tally);
        misuse.stop();
    });
}

fn main() {
    if let Ok(listen) = env::var(LISTEN) {
        return misuse(&listen);
    }
    // `cargo test` runs benches once, to see that they run; a measurement takes minutes.
    if !env::args().any(|word| word == "--bench") {
        return;
    }
    let mut cell = Cell::start(&["--nodes", "0"]);
    let agent = cell.sim_agent(NODES);
    cell.wait_for_nodes(NODES);
    let server = cell.child("server").unwrap();
    let mut http = Http::connect(&cell);
    let (idle, misused) = (names("idle"), names("misused"));
    let before = submit(&mut http, &idle);
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(env::current_exe().unwrap());
    command.env(LISTEN, cell.listen()).env(TOKEN, cell.token()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let held = child.stdin.take();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    println!("{}", said.next().unwrap().unwrap());
    let misusers = Killed::of(child);
    std::thread::sleep(SETTLING);
    let after = submit(&mut http, &misused);
    let connections = http.get("/metrics");
    let all: Vec<String> = idle.into_iter().chain(misused).collect();
    cell.wait_until_all_succeeded(&all, PATIENCE);
    drop(held);
    println!("{}", said.next().unwrap().unwrap());
    drop(misusers);
    let peak_mib = server.peak_memory_mib();
    std::thread::sleep(Duration::from_secs(20));
    let at = |took_ms: &[f64], permille: usize| took_ms[took_ms.len() * permille / 1000];
    println!("{:<10} {:>10} {:>10} {:>10}", "SUBMIT", "P50 MS", "P99 MS", "MOST MS");
    for (name, took_ms) in [("idle", &before), ("misused", &after)] {
        let most = took_ms.last().unwrap();
        println!("{name:<10} {:>10.2} {:>10.2} {most:>10.2}", at(took_ms, 500), at(took_ms, 990));
    }
    println!("p99 by p99 of the idle cell: {:.2}", at(&after, 990) / at(&before, 990));
    println!("memory of the server: at most {peak_mib} MiB, {} MiB 20 s later", server.memory_mib());
    connections.lines().filter(|line| line.starts_with("ohm_connections")).for_each(|line| println!("{line}"));
    println!("all {} jobs succeeded", all.len());
    assert!(peak_mib < MEMORY_MIB_MAX, "{peak_mib} MiB");
    assert_eq!(cell.child("server"), Some(server), "the server goes on");
    drop(agent);
    cell::verify_log(&cell.stop());
}
