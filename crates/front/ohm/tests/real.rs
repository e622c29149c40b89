//! A cell with real nodes and real tasks: the examples run to their end, and say what they should.

use crate::cell;

use cell::{Cell, ohm, verify_log, wait};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const NODES: usize = 8;

fn example(name: &str) -> String {
    let path = format!("{}/../../../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// `text` with a part replaced that must be there.
fn with(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "the example has changed: no {old:?} in it");
    text.replace(old, new)
}

fn start() -> Cell {
    let cell = Cell::start(&[]);
    cell.wait_for_nodes(NODES);
    cell
}

/// What the task printed, without what the command says besides.
fn output(cell: &Cell, job: &str, task: usize) -> String {
    let said = cell.ask(&["logs", job, "--task", &task.to_string()]);
    assert_eq!(said.code, 0, "{said:?}");
    said.out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A task's node and its address.
fn place(cell: &Cell, task: &Value) -> (String, String) {
    let node = text(&task["node"]).to_string();
    let nodes = cell.json(&["nodes"]);
    let found = nodes["nodes"].as_array().unwrap().iter().find(|known| known["name"] == *node).cloned();
    let address = text(&found.unwrap()["address"]).to_string();
    (node, address)
}

#[test]
fn the_examples_run_to_their_end_and_say_who_they_are() {
    let mut cell = start();
    let documents = [
        with(&example("array"), "$((1 + OHM_RANK % 3))", "1"),
        with(&example("gang"), "sleep 20", "sleep 4"),
        with(&example("training"), "-lt 15", "-lt 4"),
    ];
    cell.submit(&documents.join("\n---\n"));
    check_training(&cell);
    cell.wait_until_all_succeeded(&["array", "gang", "training"].map(String::from), PATIENCE);
    for rank in 0..20 {
        let said = output(&cell, "array", rank);
        assert!(said.starts_with(&format!("task {rank} of 20 on b")), "{said}");
    }
    let job = cell.json(&["job", "gang"]);
    assert_eq!(job["tasks"]["succeeded"], 4);
    assert!(output(&cell, "gang", 3).starts_with("worker 3 of 4 on b"));
    assert!(output(&cell, "training", 1).ends_with("step 3\nstep 4\n"), "the whole output stays");
    let explained = cell.ask(&["explain", "gang"]).good();
    assert!(explained.contains("succeeded"), "{explained}");
    verify_log(&cell.stop());
}

/// While the training runs: two workers on each node of one rack, each with its rank, place and peers.
fn check_training(cell: &Cell) {
    let tasks = cell.wait_for_tasks("training");
    let places: Vec<(String, String)> = tasks.iter().map(|task| place(cell, task)).collect();
    let peers: Vec<&str> = places.iter().map(|(_, address)| address.as_str()).collect();
    let rack = |node: &str| node.rsplit_once('-').unwrap().0.to_string();
    assert!(places.iter().all(|(node, _)| rack(node) == rack(&places[0].0)), "one rack: {places:?}");
    for (rank, (node, address)) in places.iter().enumerate() {
        let beginning = format!(
            "job default/training, group workers: rank {rank} of 4\non node {node} at {address}, run 1 of this rank\npeers in \
             rank order: {}\n",
            peers.join(",")
        );
        wait("the worker says its place", || output(cell, "training", rank).lines().count() >= 3);
        let said = output(cell, "training", rank);
        assert!(said.starts_with(&beginning), "{said}\ninstead of\n{beginning}");
    }
}

#[test]
fn run_ends_as_its_command_ends() {
    let cell = start();
    let said = cell.ask_with(&["run"], &["sh", "-c", "echo from $OHM_NODE; echo no >&2; exit 3"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.starts_with("from b"), "{said:?}");
    assert!(said.err.contains("no\n"), "{said:?}");
    let said = cell.ask_with(&["run", "--name", "fine"], &["true"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert!(cell.states().contains(&("fine".to_string(), "succeeded".to_string())));
    let said = cell.ask_with(&["run"], &["/no/such/program"]);
    assert!(said.code != 0 && said.err.contains("/no/such/program"), "{said:?}");
}

#[test]
fn a_job_too_big_hears_how_many_nodes_are_too_small_and_which_is_nearest() {
    let cell = start();
    cell.submit(&example("too-big"));
    let mut explained = Value::Null;
    wait("it is explained", || {
        explained = cell.json(&["explain", "too-big"]);
        explained["obstacle"] == "room"
    });
    assert_eq!((&explained["state"], &explained["nodes"]), (&Value::from("pending"), &Value::from(NODES)));
    assert_eq!(explained["reasons"][0]["nodes"], NODES, "{explained}");
    assert!(text(&explained["reasons"][0]["reason"]).contains("too little cpu"), "{explained}");
    let mut said = String::new();
    wait("the nearest node is named", || {
        said = cell.ask(&["explain", "too-big"]).good();
        said.contains("Nearest in cpu: node b")
    });
    assert!(said.contains("8 have too little cpu"), "{said}");
}

#[test]
fn a_service_answers_on_its_own_address_until_it_is_cancelled() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        println!("not tested here: needs python3");
        return;
    }
    let cell = start();
    let port = free_port(&cell).to_string();
    cell.submit(&with(&example("service"), "8080", &port));
    let tasks = cell.wait_for_tasks("web");
    let places: Vec<(String, String)> = tasks.iter().map(|task| place(&cell, task)).collect();
    assert_ne!(places[0].1, places[1].1, "two nodes, two addresses");
    for (_, address) in &places {
        wait("the server answers", || fetch(address, &port).is_some_and(|answer| answer.contains("200 OK")));
    }
    // A port is taken once per node: with both servers on it, a third of it needs a third node.
    let third = with(&with(&example("service"), "8080", &port), "name: web", "name: web2");
    cell.submit(&with(&third, "count: 2", "count: 6"));
    let others = cell.wait_for_tasks("web2");
    for task in &others {
        assert!(!places.contains(&place(&cell, task)), "{task}");
    }
    cell.ask(&["cancel", "web", "web2"]).good();
    wait("nobody listens any more", || places.iter().all(|(_, address)| fetch(address, &port).is_none()));
}

/// A port that is free on all addresses of the nodes.
fn free_port(cell: &Cell) -> u16 {
    let nodes = cell.json(&["nodes"]);
    let addresses: Vec<String> =
        nodes["nodes"].as_array().unwrap().iter().map(|node| text(&node["address"]).to_string()).collect();
    let is_free = |port: &u16| addresses.iter().all(|address| TcpListener::bind((address.as_str(), *port)).is_ok());
    (18_080..28_080).find(is_free).unwrap()
}

fn fetch(address: &str, port: &str) -> Option<String> {
    let mut stream = TcpStream::connect(format!("{address}:{port}")).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_second_up_on_the_same_folder_goes_on() {
    let mut cell = start();
    cell.submit(&with(&example("gang"), "sleep 20", "true"));
    cell.wait_until_all_succeeded(&["gang".to_string()], PATIENCE);
    let endless = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: endless}\nspec:\n  class: service\n  requests: {cpu: \
                   10m, memory: 8Mi}\n  command: [sleep, \"1000\"]\n";
    cell.submit(endless);
    let before = cell.wait_for_tasks("endless");
    let data_dir = cell.stop();
    verify_log(&data_dir);
    assert!(!std::path::Path::new(&format!("/proc/{}", before[0]["pid"])).exists(), "its tasks were stopped");
    cell.start_again();
    cell.wait_for_nodes(NODES);
    let after = cell.wait_for_tasks("endless");
    assert!(after[0]["incarnation"].as_u64() > before[0]["incarnation"].as_u64(), "{after:?}");
    assert!(cell.states().contains(&("gang".to_string(), "succeeded".to_string())));
    assert!(output(&cell, "gang", 0).starts_with("worker 0 of 4"), "the output is still there");
    let again = cell.put("again.yaml", endless);
    assert!(cell.ask(&["submit", &again]).good().contains("unchanged"));
    cell.submit(&with(&with(&example("gang"), "sleep 20", "true"), "name: gang", "name: next"));
    cell.wait_until_all_succeeded(&["next".to_string()], PATIENCE);
    let dumped = ohm(&["log", "dump", "--data-dir", &data_dir]);
    assert!(dumped.lines().count() > 10, "a log can be read beside a running server");
}
