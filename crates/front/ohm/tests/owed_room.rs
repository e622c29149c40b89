//! Room that is owed: a repair that waits for its node to come back gets it before new work, whichever process plans
//! that, and people are told on both sides.

use crate::cell;

use cell::tasks::{attempt, node, told};
use cell::{Cell, verify_log, wait};
use std::time::{Duration, Instant};

/// Each rack is full by one gang.
const RACKS: usize = 4;
const ROUNDS: u32 = 2;
/// A node that is back has registered by then, and whoever gets it has placed something.
const PATIENCE: Duration = Duration::from_secs(20);

/// So many thousandths of the cpu of a node.
fn share(cell: &Cell, thousandths: u64) -> u64 {
    let cpu = cell.json(&["node", "show", "b1-r1-h1"])["capacity"]["cpu"].as_str().unwrap().to_string();
    let milli =
        cpu.strip_suffix('m').map_or_else(|| cpu.parse::<u64>().unwrap() * 1000, |milli| milli.parse().unwrap());
    milli * thousandths / 1000
}

fn job(name: &str, spec: &str, cpu_milli: u64) -> String {
    let head = format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\n");
    format!("{head}spec: {{{spec}, requests: {{cpu: {cpu_milli}m}}, command: [sleep, '1000']}}\n")
}

/// A full cell: a gang on each rack, and batch and service jobs that find no room.
fn full_cell(words: &[&str]) -> Cell {
    let shape = format!("1x{RACKS}x2");
    let cell = Cell::start(&[&["--shape", &shape], words].concat());
    cell.wait_for_nodes(2 * RACKS);
    let (gang, small) = (share(&cell, 900), share(&cell, 300));
    let spec = "class: tas, count: 2, topology: {required: topology.ohm/rack}, repair: {policy: wait}";
    (0..RACKS).for_each(|rack| cell.submit(&job(&format!("gang-{rack}"), spec, gang)));
    (0..RACKS).for_each(|rack| drop(cell.wait_for_tasks(&format!("gang-{rack}"))));
    for number in 0..2 * RACKS {
        cell.submit(&job(&format!("batch-{number}"), "class: batch, priority: -10", small));
        cell.submit(&job(&format!("service-{number}"), "class: service, priority: -10", small));
    }
    cell
}

/// Takes a node of each gang down and brings it back once its repair waits.
fn lose_and_return(cell: &Cell, round: u32) {
    let victims: Vec<(String, String)> = (0..RACKS)
        .map(|rack| {
            let name = format!("gang-{rack}");
            let tasks = cell.wait_for_tasks(&name);
            let victim = node(&tasks[round as usize % tasks.len()]);
            (name, victim)
        })
        .collect();
    let claims = |name: &str| told(cell, name, &["tasksLost"]).len();
    let before: Vec<usize> = victims.iter().map(|(name, _)| claims(name)).collect();
    victims.iter().for_each(|(_, victim)| drop(cell.ask(&["chaos", "node-down", victim]).good()));
    for ((name, _), before) in victims.iter().zip(before) {
        wait("what was lost is known", || claims(name) > before);
    }
    // The repairs were planned, found no room, and say so in the log, or never will.
    std::thread::sleep(Duration::from_secs(1));
    for (_, victim) in &victims {
        cell.ask(&["chaos", "node-up", victim]).good();
    }
}

/// How many gangs are whole again, with so many losses so far.
fn whole(cell: &Cell, losses: u32) -> usize {
    let is_whole = |rack: &usize| {
        let tasks = cell.tasks(&format!("gang-{rack}"));
        let attempts: u32 = tasks.iter().map(attempt).sum();
        tasks.iter().all(|task| task["state"] == "running") && attempts == 2 + losses
    };
    (0..RACKS).filter(is_whole).count()
}

fn repairs_win(words: &[&str]) {
    let mut cell = full_cell(words);
    for round in 1..=ROUNDS {
        lose_and_return(&cell, round);
        let started = Instant::now();
        while whole(&cell, round) < RACKS && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(200));
        }
        let states = cell.states();
        let taken = |(name, state): &&(String, String)| !name.starts_with("gang") && state != "pending";
        let taken: Vec<_> = states.iter().filter(taken).collect();
        assert_eq!(whole(&cell, round), RACKS, "repairs win every time; these took their room: {taken:?}");
        assert!(taken.is_empty(), "nothing else found room: {taken:?}");
    }
    verify_log(&cell.stop());
}

#[test]
fn a_waiting_repair_gets_its_node_before_new_work() {
    repairs_win(&[]);
}

#[test]
fn a_waiting_repair_gets_its_node_with_three_replicas_of_each_class() {
    repairs_win(&["--schedulers", "batch=3", "--schedulers", "service=3", "--schedulers", "tas=3"]);
}
