//! Tasks of jobs with `onDisconnect: keep`, in real processes: they outlive the lease of their node, and when it is back
//! one run of each task is left. Tasks keep diaries.

use crate::cell;

use cell::diary::{entry, lives};
use cell::processes::Process;
use cell::{Cell, verify_log, wait};
use serde_json::Value;
use std::fs;

const NODES: usize = 8;

/// A service of one task that writes down every tenth of a second that it lives.
fn service(cell: &Cell, name: &str, on_disconnect: &str) -> String {
    let write = entry(&format!("{}/${{OHM_JOB#*/}}", cell.path("diary").display()));
    format!(
        "apiVersion: ohm/v1
kind: Job
metadata: {{name: {name}}}
spec:
  class: service
  onDisconnect: {on_disconnect}
  terminationGracePeriodSeconds: 1
  requests: {{cpu: 10m, memory: 8Mi}}
  command:
  - sh
  - -c
  - |
    while :; do
      {write}
      sleep 0.1
    done
"
    )
}

fn attempts(cell: &Cell, job: &str) -> Vec<u32> {
    lives(&cell.path("diary").join(job)).keys().copied().collect()
}

fn process(task: &Value) -> Process {
    Process::find(task["pid"].as_u64().unwrap() as u32).expect("a live task")
}

#[test]
fn of_a_kept_task_and_its_replacement_one_is_left_when_the_node_is_back() {
    let mut cell = Cell::start(&["--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    cell.wait_for_nodes(NODES);
    fs::create_dir(cell.path("diary")).unwrap();
    let jobs = [("first", "{policy: keep, reconcile: original}"), ("later", "keep")];
    jobs.iter().for_each(|(name, rule)| cell.submit(&service(&cell, name, rule)));
    let before = jobs.map(|(name, _)| cell.wait_for_tasks(name)[0].clone());
    let kept = [process(&before[0]), process(&before[1])];
    wait("both write", || jobs.iter().all(|(name, _)| attempts(&cell, name) == [1]));
    let nodes = [&before[0], &before[1]].map(|task| task["node"].as_str().unwrap().to_string());
    let names: std::collections::BTreeSet<&String> = nodes.iter().collect();
    let agents: Vec<Process> = names.iter().map(|name| cell.child(&format!("agent --name {name}")).unwrap()).collect();
    agents.iter().for_each(Process::freeze);
    wait("replacements write", || jobs.iter().all(|(name, _)| attempts(&cell, name) == [1, 2]));
    assert!(kept.iter().all(Process::is_alive), "they outlive the lease");
    let lost = cell.json(&["node", "show", &nodes[0]]);
    let is_first = |run: &&Value| run["job"] == "first" && run["state"] == "kept" && run["pid"] == before[0]["pid"];
    assert_eq!(
        (&lost["health"], lost["runList"].as_array().unwrap().iter().filter(is_first).count()),
        (&"lost".into(), 1)
    );
    agents.iter().for_each(Process::go_on);
    let attempt = |name: &str| cell.json(&["job", name])["groups"][0]["tasks"][0]["incarnation"].as_u64();
    wait("the first run is the one", || attempt("first") == Some(1) && attempt("later") == Some(2));
    wait("the other first run is stopped", || !kept[1].is_alive());
    assert!(kept[0].is_alive());
    let task = cell.wait_for_tasks("first")[0].clone();
    assert_eq!((&task["node"], &task["pid"]), (&before[0]["node"], &before[0]["pid"]), "where it was");
    assert_eq!(task["failures"], 0);
    let told = cell.json(&["events", "--job", "first", "--limit", "1000"]);
    assert!(told["events"].as_array().unwrap().iter().any(|event| event["kind"] == "reconciled"), "{told}");
    // Both are at rest: nothing is started beside them any more.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(jobs.map(|(name, _)| attempts(&cell, name)), [[1, 2], [1, 2]]);
    assert!(kept[0].is_alive() && !kept[1].is_alive());
    verify_log(&cell.stop());
}
