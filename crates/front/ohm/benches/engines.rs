//! How fast durable placements are over each engine, on this machine, in one run:
//! `cargo bench -p ohm --features etcd --bench engines`. `OHM_BENCH_JOBS` says how many jobs a backlog has.
//!
//! Every role is a process of its own. The backlog is loaded while the batch scheduler stands still; it counts from
//! its first placement to its last, by the cell's own stamps, since a question takes its turn behind the work.
//! Latency is that of one job in an idle cell, from the beginning of its submission until the server shows it placed.

#[allow(dead_code)] // A bench uses its part of this.
#[path = "../tests/cell/mod.rs"]
mod cell;
#[allow(dead_code)]
#[path = "../../../../cluster-state/log-etcd/tests/process/mod.rs"]
mod process;

use cell::Cell;
use cell::http::Http;
use cell::processes::signal;
use process::Etcd;
use serde_json::Value;
use std::fmt::Write;
use std::time::{Duration, Instant};

const NODES: usize = 300;
const LATENCIES: usize = 1000;
/// Jobs in one submission.
const CHUNK: usize = 1000;
const LOOK: Duration = Duration::from_millis(100);

struct Figures {
    placed_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn document(name: &str) -> String {
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{requests: {{cpu: 100m}}, command: [\"true\"], \
         sim: {{duration: 1h}}}}\n"
    )
}

fn get(http: &mut Http, path: &str) -> Value {
    serde_json::from_str(&http.get(path)).unwrap()
}

/// Submits a job and waits until it shows as placed.
fn latency(http: &mut Http, number: usize) -> Duration {
    let name = format!("late-{number}");
    let started = Instant::now();
    let (status, answer) = http.submit(document(&name).as_bytes());
    assert_eq!(status, 200, "{answer}");
    while get(http, &format!("/v1/jobs/{name}?stale=ok"))["state"] != "running" {}
    started.elapsed()
}

fn live_tasks(http: &mut Http) -> u64 {
    get(http, "/v1/status?stale=ok")["tasks"]["live"].as_u64().unwrap()
}

/// Seconds from the first placement of the backlog to the last.
fn placing_s(http: &mut Http) -> f64 {
    let (mut first_ms, mut last_ms, mut after) = (u64::MAX, 0, "job-".to_string());
    loop {
        let page = get(http, &format!("/v1/jobs?stale=ok&limit=10000&after={after}"));
        let names = page["jobs"].as_array().unwrap().iter();
        for job in names.filter(|job| job["name"].as_str().unwrap().starts_with("job-")) {
            let placed_ms = job["startedMs"].as_u64().unwrap();
            assert!(placed_ms > 0, "{job}");
            (first_ms, last_ms) = (first_ms.min(placed_ms), last_ms.max(placed_ms));
        }
        match page["next"].as_str() {
            Some(next) if !next.is_empty() => after = next.to_string(),
            _ => return (last_ms - first_ms) as f64 / 1000.0,
        }
    }
}

fn measure(words: &[&str]) -> Figures {
    let jobs: usize = std::env::var("OHM_BENCH_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(24_000);
    let mut cell = Cell::start(&[words, &["--nodes", "0"]].concat());
    let agent = cell.sim_agent(NODES);
    cell.wait_for_nodes(NODES);
    // The first ones find everybody still busy with the start.
    let mut http = Http::connect(&cell);
    (0..20).for_each(|number| {
        latency(&mut http, number);
    });
    let mut latencies: Vec<Duration> = (0..LATENCIES).map(|number| latency(&mut http, 1000 + number)).collect();
    latencies.sort_unstable();
    let scheduler = cell.child("scheduler --class batch").unwrap().pid;
    signal(scheduler, "STOP");
    for chunk in 0..jobs / CHUNK {
        let mut text = String::new();
        (0..CHUNK).for_each(|number| write!(text, "{}", document(&format!("job-{chunk}-{number}"))).unwrap());
        let (status, answer) = http.submit(text.as_bytes());
        assert_eq!((status, &answer["accepted"]), (200, &CHUNK.into()));
    }
    let before = live_tasks(&mut http);
    let wanted = before + (jobs / CHUNK * CHUNK) as u64;
    let started = Instant::now();
    signal(scheduler, "CONT");
    while live_tasks(&mut http) < wanted {
        assert!(started.elapsed() < Duration::from_secs(300), "the backlog is not placed");
        std::thread::sleep(LOOK);
    }
    let seconds = placing_s(&mut http);
    drop(agent);
    cell.stop();
    let at = |permille: usize| latencies[latencies.len() * permille / 1000].as_secs_f64() * 1000.0;
    Figures { placed_per_s: (wanted - before) as f64 / seconds, p50_ms: at(500), p99_ms: at(990) }
}

fn main() {
    // `cargo test` runs benches once, to see that they run; a measurement takes minutes.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    println!("{:<26} {:>14} {:>12} {:>12}", "ENGINE", "PLACED/S", "P50 MS", "P99 MS");
    let print = |name: &str, figures: Figures| {
        let Figures { placed_per_s, p50_ms, p99_ms } = figures;
        println!("{name:<26} {placed_per_s:>14.0} {p50_ms:>12.2} {p99_ms:>12.2}");
    };
    print("raft, one server", measure(&[]));
    print("raft, three servers", measure(&["--servers", "3"]));
    for members in [1, 3] {
        let etcd = Etcd::start(members);
        let urls = etcd.urls().join(",");
        for (servers, name) in [("1", "one server"), ("3", "three servers")] {
            let prefix = format!("/ohm-{servers}");
            let words = ["--engine", "etcd", "--etcd", &urls, "--etcd-prefix", &prefix, "--servers", servers];
            print(&format!("etcd of {members}, {name}"), measure(&words));
        }
    }
}
