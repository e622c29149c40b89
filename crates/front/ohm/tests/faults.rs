//! Faults under real tasks: processes killed and frozen. Tasks keep diaries.

use crate::cell;

use cell::diary::{Life, assert_one_at_a_time, entry, lives};
use cell::processes::Process;
use cell::{Cell, verify_log, wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const NODES: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two lines of a task, at most, unless it is dead; generous, since the machine may be busy.
const STEP: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(10);
const SHORT_LEASE_MS: &str = "7000";

fn start(words: &[&str]) -> Cell {
    let cell = Cell::start(words);
    cell.wait_for_nodes(NODES);
    cell
}

/// A job whose tasks do not end before the file `end` is there, and write down every tenth of a second that they live.
/// They don't listen when they are asked to stop.
fn diary(cell: &Cell, count: usize) -> String {
    let folder = cell.path("diary");
    fs::create_dir(&folder).unwrap();
    let folder = folder.display();
    let write = entry(&format!("{folder}/$OHM_RANK"));
    format!(
        "apiVersion: ohm/v1
kind: Job
metadata: {{name: diary}}
spec:
  count: {count}
  terminationGracePeriodSeconds: 1
  requests: {{cpu: 10m, memory: 8Mi}}
  command:
  - sh
  - -c
  - |
    trap '' TERM
    while [ ! -e {folder}/end ]; do
      {write}
      sleep 0.1
    done
"
    )
}

/// Starts the job and waits until every task has written something.
fn start_diary(cell: &Cell, count: usize) -> Vec<Value> {
    cell.submit(&diary(cell, count));
    let tasks = cell.wait_for_tasks("diary");
    wait("all write", || tasks.iter().all(|task| life_of(cell, task).len() == 1));
    tasks
}

/// Lets its tasks end.
fn let_end(cell: &Cell) {
    fs::write(cell.path("diary").join("end"), "").unwrap();
    cell.wait_until_all_succeeded(&["diary".to_string()], PATIENCE);
}

/// The lives of one task, by incarnation.
fn life_of(cell: &Cell, task: &Value) -> BTreeMap<u32, Life> {
    lives(&cell.path("diary").join(task["task"].to_string()))
}

/// The processes of tasks.
fn processes(tasks: &[Value]) -> Vec<Process> {
    tasks.iter().map(|task| Process::find(task["pid"].as_u64().unwrap() as u32).expect("a live task")).collect()
}

fn node(task: &Value) -> String {
    task["node"].as_str().unwrap().to_string()
}

/// The places, attempts and pids of tasks.
fn identities(tasks: &[Value]) -> Vec<(String, u64, u64)> {
    tasks
        .iter()
        .map(|task| (node(task), task["incarnation"].as_u64().unwrap(), task["pid"].as_u64().unwrap()))
        .collect()
}

#[test]
fn tasks_of_a_killed_agent_are_adopted() {
    let mut cell = start(&[]);
    let before = start_diary(&cell, 3);
    let tasks = processes(&before);
    let role = format!("agent --name {}", node(&before[0]));
    let agent = cell.child(&role).unwrap();
    agent.kill();
    wait("the agent runs again", || cell.child(&role).is_some_and(|again| again != agent));
    cell.wait_for_nodes(NODES);
    // Long enough that whatever would be done about the tasks has been done.
    std::thread::sleep(Duration::from_secs(3));
    assert!(tasks.iter().all(Process::is_alive));
    assert_eq!(identities(&cell.wait_for_tasks("diary")), identities(&before));
    // What ends now was started by another agent than the one that tells of it.
    let_end(&cell);
    assert_eq!(cell.json(&["job", "diary"])["pastRuns"].as_array().unwrap().len(), 0);
    verify_log(&cell.stop());
}

#[test]
fn tasks_die_with_their_shim_and_are_started_again() {
    let mut cell = start(&[]);
    let before = start_diary(&cell, 3);
    let victim = node(&before[0]);
    let (lost, kept): (Vec<Value>, Vec<Value>) = before.iter().cloned().partition(|task| node(task) == victim);
    let lost_processes = processes(&lost);
    cell.shim(&victim).unwrap().kill();
    wait("the tasks are dead", || !lost_processes.iter().any(Process::is_alive));
    let mut after = Vec::new();
    wait("they are started again", || {
        after = cell.wait_for_tasks("diary");
        lost.iter().all(|task| after[task["task"].as_u64().unwrap() as usize]["incarnation"].as_u64() > Some(1))
    });
    let untouched: Vec<Value> = after.iter().filter(|task| task["incarnation"] == 1).cloned().collect();
    assert_eq!(identities(&untouched), identities(&kept), "the others run on");
    assert!(after.iter().all(|task| task["failures"] == 0), "not charged: {after:?}");
    wait("the new ones write", || lost.iter().all(|task| life_of(&cell, task).len() > 1));
    let_end(&cell);
    before.iter().for_each(|task| assert_one_at_a_time(&life_of(&cell, task)));
    verify_log(&cell.stop());
}

#[test]
fn a_server_frozen_for_half_a_lease_touches_no_task() {
    let mut cell = start(&["--node-lease-ms", &LEASE.as_millis().to_string()]);
    let before = start_diary(&cell, 8);
    let tasks = processes(&before);
    let server = cell.child("server").unwrap();
    server.freeze();
    std::thread::sleep(LEASE / 2);
    server.go_on();
    cell.wait_for_nodes(NODES);
    std::thread::sleep(LEASE / 2);
    assert_eq!(cell.child("server"), Some(server));
    assert!(tasks.iter().all(Process::is_alive));
    assert_eq!(identities(&cell.wait_for_tasks("diary")), identities(&before));
    let events = cell.json(&["events", "--limit", "100000"]);
    let lost = |event: &&Value| event["kind"] == "nodeHealth" && event["state"] == "lost";
    assert_eq!(events["events"].as_array().unwrap().iter().find(lost), None);
    let_end(&cell);
    verify_log(&cell.stop());
}

#[test]
fn tasks_of_an_agent_frozen_beyond_its_lease_are_dead_before_others_start() {
    let mut cell = start(&["--node-lease-ms", SHORT_LEASE_MS, "--duty-lease-ms", "1500"]);
    let before = start_diary(&cell, 3);
    let victim = node(&before[0]);
    let lost: Vec<Value> = before.iter().filter(|task| node(task) == victim).cloned().collect();
    let lost_processes = processes(&lost);
    let agent = cell.child(&format!("agent --name {victim}")).unwrap();
    agent.freeze();
    wait("the tasks are started elsewhere", || lost.iter().all(|task| life_of(&cell, task).len() == 2));
    assert!(!lost_processes.iter().any(Process::is_alive), "they ended by themselves");
    // The old node may come back now: nothing of it may.
    agent.go_on();
    cell.wait_for_nodes(NODES);
    std::thread::sleep(4 * STEP);
    let after = cell.wait_for_tasks("diary");
    for task in &lost {
        let lives = life_of(&cell, task);
        assert_one_at_a_time(&lives);
        assert_eq!(lives.keys().copied().collect::<Vec<_>>(), [1, 2], "{lives:?}");
        assert_ne!(lives[&2].node, victim);
        println!("silent for {:.2} s", lives[&2].first - lives[&1].last);
    }
    assert!(after.iter().all(|task| task["failures"] == 0), "not charged: {after:?}");
    let_end(&cell);
    verify_log(&cell.stop());
}
