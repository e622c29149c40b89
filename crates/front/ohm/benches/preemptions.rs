//! How many preemptions a second are durable, on this machine: `cargo bench -p ohm --bench preemptions`.
//!
//! Every role is a process of its own. 5,000 simulated nodes are full of less important jobs of one task each; then
//! jobs come that need a whole node each, in one batch. The clock runs from the first entry that says whom one of them
//! stops to the last one, and to when the last of them is placed, by the server's stamps; each is durable by then.

#[allow(dead_code)] // A bench uses its part of this.
#[path = "../tests/cell/mod.rs"]
mod cell;

use cell::http::Http;
use cell::{Cell, Killed, small_nodes, wait};
use serde_json::Value;
use std::fmt::Write;

const NODES: usize = 5_000;
/// Also so many jobs on each node.
const CPUS: usize = 4;
/// A server keeps the last 20,000 events, and each of them makes twenty.
const PREEMPTORS: usize = 800;
/// So many jobs are submitted at once: a request is at most some MiB.
const AT_ONCE: usize = 5_000;

fn job(text: &mut String, name: &str, priority: usize, cpus: usize) {
    write!(
        text,
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{priority: {priority}, requests: \
         {{cpu: {cpus}}}, terminationGracePeriodSeconds: 0, command: [\"true\"], sim: {{duration: 24h}}}}\n"
    )
    .unwrap();
}

fn submit(http: &mut Http, jobs: impl Iterator<Item = (String, usize, usize)>) {
    let jobs: Vec<_> = jobs.collect();
    for some in jobs.chunks(AT_ONCE) {
        let mut text = String::new();
        some.iter().for_each(|(name, priority, cpus)| job(&mut text, name, *priority, *cpus));
        assert_eq!(http.submit(text.as_bytes()).0, 200);
    }
}

fn running(http: &mut Http) -> u64 {
    let answer: Value = serde_json::from_str(&http.get("/v1/status")).unwrap();
    answer["tasks"]["running"].as_u64().unwrap_or(0)
}

/// The stamps of the events of this kind, of the jobs whose names begin so.
fn stamps_ms(events: &[Value], kind: &str, beginning: &str) -> Vec<u64> {
    let is_meant =
        |event: &&Value| event["kind"] == kind && event["job"].as_str().is_some_and(|job| job.starts_with(beginning));
    events.iter().filter(is_meant).map(|event| event["atMs"].as_u64().unwrap()).collect()
}

fn main() {
    // `cargo test` runs benches once, to see that they run; a measurement takes minutes.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let mut cell = Cell::start(&["--nodes", "0"]);
    let file = cell.put("nodes.yaml", small_nodes(NODES, CPUS));
    let fleet: Killed = cell.sim_agent(file);
    cell.wait_for_nodes(NODES);
    let mut http = Http::connect(&cell);
    submit(&mut http, (0..NODES * CPUS).map(|at| (format!("less-{at}"), at * 7919 % 100, 1)));
    wait("the cell is full", || running(&mut http) == (NODES * CPUS) as u64);
    submit(&mut http, (0..PREEMPTORS).map(|at| (format!("more-{at}"), 1_000, CPUS)));
    let all = (NODES * CPUS - PREEMPTORS * (CPUS - 1)) as u64;
    wait("all preemptors run", || running(&mut http) == all);
    let answer: Value = serde_json::from_str(&http.get("/v1/events?limit=100000")).unwrap();
    let events = answer["events"].as_array().cloned().unwrap();
    drop(fleet);
    cell.stop();

    let (stops, places) = (stamps_ms(&events, "preempting", "more-"), stamps_ms(&events, "placed", "more-"));
    assert_eq!((stops.len(), places.len()), (PREEMPTORS, PREEMPTORS), "each stops others once and is placed once");
    let first_ms = *stops.iter().min().unwrap();
    let per_second = |ends: &[u64]| 1000 * ends.len() as u64 / (ends.iter().max().unwrap() - first_ms).max(1);
    println!("{PREEMPTORS} jobs of a node each stop {} of {} tasks on {NODES} nodes", PREEMPTORS * CPUS, NODES * CPUS);
    println!("{} durable preemptions/s, {} preemptors placed/s", per_second(&stops), per_second(&places));
}
