//! How long a repair takes, on this machine: `cargo bench -p ohm --bench repairs`.
//!
//! Every role is a process of its own; 10,000 simulated nodes, and a gang of 1,000 tasks, one on a node, that requires
//! one block of 1,040 nodes. Nodes of the gang vanish one after another. The clock runs from the entry that says that a
//! node is lost to the entry that places its task anew, by the server's stamps (milliseconds); both are durable before
//! anybody acts on them. What one durable command takes by itself is shown apart: a repair holds it once.

#[allow(dead_code)] // A bench uses its part of this.
#[path = "../tests/cell/mod.rs"]
mod cell;

use cell::http::Http;
use cell::{Cell, Killed};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

const NODES: usize = 10_000;
const BLOCKS: usize = 10;
/// Nodes of the block that the gang stands in.
const HOME: usize = 1_040;
const TASKS: usize = 1_000;
/// Nodes that vanish, each a process of its own.
const VICTIMS: usize = 30;
/// Further apart than two beats of a cell of this size, which are 2 s apart: what misses the same beat is lost
/// together.
const APART: Duration = Duration::from_millis(2_200);
const PATIENCE: Duration = Duration::from_secs(120);

fn node(number: usize) -> String {
    let block = if number < HOME { 0 } else { 1 + number % (BLOCKS - 1) };
    let rack = number / 16;
    format!(
        "---\napiVersion: ohm/v1\nkind: Node\nmetadata:\n  name: n{number}\n  labels: {{topology.ohm/block: b{block}, \
         topology.ohm/rack: r{rack}, home: \"{}\"}}\nstatus: {{capacity: {{cpu: 16, memory: 64Gi, pods: 110}}}}\n",
        number < HOME
    )
}

/// The topology is the cell's first: jobs mean it without naming it.
const TOPOLOGY: &str = "apiVersion: ohm/v1\nkind: Topology\nmetadata: {name: default}\nspec: {levels: \
    [{nodeLabel: topology.ohm/block}, {nodeLabel: topology.ohm/rack}, {nodeLabel: kubernetes.io/hostname}]}\n";

fn gang() -> String {
    format!(
        "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: gang}}\nspec:\n  class: tas\n  repair: {{policy: wait, \
         timeoutSeconds: 600}}\n  groups:\n  - name: workers\n    count: {TASKS}\n    maxPerNode: 1\n    requests: \
         {{cpu: 1}}\n    nodeSelector: {{home: \"true\"}}\n    topology: {{required: topology.ohm/block}}\n    \
         command: [\"true\"]\n    sim: {{duration: 24h}}\n"
    )
}

/// Simulated nodes in a process of their own.
fn fleet(cell: &Cell, name: &str, numbers: impl Iterator<Item = usize>) -> Killed {
    let file = cell.put(&format!("{name}.yaml"), numbers.map(node).collect::<String>());
    let mut command = Command::new(cell.path("ohm"));
    command.args(["agent", "--sim", &file, "--server", &cell.urls(), "--token-file"]);
    command.arg(format!("{}/token", cell.data_dir())).arg("--data-dir").arg(cell.path(name));
    Killed::of(command.stderr(File::create(cell.path(&format!("{name}.log"))).unwrap()).spawn().unwrap())
}

fn events(http: &mut Http, job: &str) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&http.get(&format!("/v1/events?job={job}&limit=100000"))).unwrap();
    answer["events"].as_array().cloned().unwrap()
}

/// Milliseconds from each loss to its repair.
fn repairs(events: &[Value]) -> Vec<u64> {
    let mut lost_ms = BTreeMap::new();
    let mut took_ms = Vec::new();
    for event in events {
        let at_ms = event["atMs"].as_u64().unwrap();
        match event["kind"].as_str().unwrap() {
            "tasksLost" => {
                lost_ms.insert(event["index"].as_u64().unwrap(), at_ms);
            }
            "repairCommitted" => {
                took_ms.extend(std::mem::take(&mut lost_ms).into_values().map(|lost_ms| at_ms - lost_ms));
            }
            _ => {}
        }
    }
    assert!(lost_ms.is_empty(), "a loss was not repaired");
    took_ms
}

/// What one durable command takes, from the request to its answer, in milliseconds.
fn durable_ms(http: &mut Http) -> Vec<f64> {
    let one = |number: usize| {
        let started = Instant::now();
        let text = format!("apiVersion: ohm/v1\nkind: Queue\nmetadata: {{name: queue-{number}}}\nspec: {{}}\n");
        assert_eq!(http.submit(text.as_bytes()).0, 200);
        started.elapsed().as_secs_f64() * 1000.0
    };
    (0..200).map(one).collect()
}

fn at<T: Copy + PartialOrd>(values: &mut [T], permille: usize) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap());
    values[values.len() * permille / 1000]
}

fn main() {
    // `cargo test` runs benches once, to see that they run; a measurement takes minutes.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let mut cell = Cell::start(&["--nodes", "0"]);
    // Of equally good nodes the first ones registered are taken first: so the gang stands on those that will vanish.
    let victims: Vec<Killed> =
        (0..VICTIMS).map(|number| fleet(&cell, &format!("v{number}"), number..number + 1)).collect();
    cell.wait_for_nodes(VICTIMS);
    let rest = fleet(&cell, "rest", VICTIMS..NODES);
    cell.wait_for_nodes(NODES);
    let mut http = Http::connect(&cell);
    assert_eq!(http.submit(TOPOLOGY.as_bytes()).0, 200);
    cell.submit(&gang());
    let running = |http: &mut Http| -> u64 {
        let job: Value = serde_json::from_str(&http.get("/v1/jobs/gang")).unwrap();
        job["groups"][0]["counts"]["running"].as_u64().unwrap_or(0)
    };
    cell::wait("the gang runs", || running(&mut http) == TASKS as u64);
    let mut durable = durable_ms(&mut http);
    for victim in victims {
        drop(victim);
        std::thread::sleep(APART);
    }
    // The server has given up a connection that said nothing for so long.
    let mut http = Http::connect(&cell);
    let started = Instant::now();
    let mut took_ms = Vec::new();
    while started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_secs(1));
        let answer: Value = serde_json::from_str(&http.get("/v1/status")).unwrap();
        if answer["nodes"]["lost"].as_u64() == Some(VICTIMS as u64) && running(&mut http) == TASKS as u64 {
            took_ms = repairs(&events(&mut http, "gang"));
            break;
        }
    }
    assert!(!took_ms.is_empty(), "nothing was lost, or not all of it repaired in {PATIENCE:?}");
    drop(rest);
    cell.stop();

    let (count, half, most) = (took_ms.len(), at(&mut took_ms, 500), *took_ms.iter().max().unwrap());
    println!("{count} repairs of a gang of {TASKS} on {NODES} nodes");
    println!("from lost to placed anew: p50 {half} ms, longest {most} ms");
    let (half, most) = (at(&mut durable, 500), at(&mut durable, 990));
    println!("of that, one durable command by itself: p50 {half:.2} ms, p99 {most:.2} ms");
}
