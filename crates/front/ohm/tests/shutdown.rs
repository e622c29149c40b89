//! The ends of `ohm up`: a port that is taken, ctrl-C while tasks run, and what the next `ohm up` makes of it.

use crate::cell;

use cell::processes::{Process, signal};
use cell::{Cell, verify_log, wait};
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NODES: usize = 8;

/// A job with one task that does not listen when it is asked to stop, and may take an hour for it.
const STUBBORN: &str = "apiVersion: ohm/v1
kind: Job
metadata: {name: stubborn}
spec:
  retries: 0
  terminationGracePeriodSeconds: 3600
  requests: {cpu: 10m, memory: 8Mi}
  command: [sh, -c, \"trap '' TERM; echo ready; while true; do sleep 0.1; done\"]
";

/// A job that needs some time to stop, and says that it had it.
const SLOW: &str = "apiVersion: ohm/v1
kind: Job
metadata: {name: slow}
spec:
  retries: 0
  terminationGracePeriodSeconds: 60
  requests: {cpu: 10m, memory: 8Mi}
  command: [sh, -c, \"trap 'sleep 1; echo stopped; exit 0' TERM; echo ready; while true; do sleep 0.1; done\"]
";

/// Waits until the task of `job` has set its trap: before, a signal would simply end it.
fn wait_until_ready(cell: &Cell, job: &str) {
    wait("its trap is set", || cell.ask(&["logs", job]).out.contains("ready"));
}

fn start() -> Cell {
    let cell = Cell::start(&[]);
    cell.wait_for_nodes(NODES);
    cell
}

fn past_ends(cell: &Cell, job: &str) -> Vec<String> {
    let past = cell.json(&["job", job])["pastRuns"].as_array().cloned().unwrap_or_default();
    past.iter().map(|run| run["exit"].as_str().unwrap_or_default().to_string()).collect()
}

#[test]
fn a_port_that_is_taken_is_told_at_once_whoever_has_it() {
    let cell = start();
    let refused = |listen: &str| {
        let mut command = Command::new(cell.path("ohm"));
        command.args(["up", "--listen", listen, "--data-dir"]).arg(cell.path("other"));
        let started = Instant::now();
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(started.elapsed() < Duration::from_secs(10), "nothing is waited for");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(cell.listen());
    assert!(said.contains("is in use: an Ohm server answers there") && said.contains("--listen"), "{said}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let said = refused(&other.local_addr().unwrap().to_string());
    assert!(said.contains("another program listens there"), "{said}");
}

#[test]
fn tasks_are_stopped_with_their_grace_and_go_on_with_the_next_up() {
    let mut cell = start();
    cell.submit(SLOW);
    cell.wait_for_tasks("slow");
    wait_until_ready(&cell, "slow");
    let data_dir = cell.stop();
    verify_log(&data_dir);
    cell.start_again();
    cell.wait_for_nodes(NODES);
    let tasks = cell.wait_for_tasks("slow");
    assert_eq!(past_ends(&cell, "slow"), ["node shut down"], "one run, placed nowhere else while the cell stopped");
    assert_eq!(tasks[0]["incarnation"], 2);
    assert_eq!(tasks[0]["failures"], 0, "not charged, so that `retries: 0` does not end it");
    cell.ask(&["cancel", "slow"]).good();
}

#[test]
fn a_second_signal_leaves_no_grace() {
    let mut cell = start();
    cell.submit(STUBBORN);
    let task = Process::find(cell.wait_for_tasks("stubborn")[0]["pid"].as_u64().unwrap() as u32).unwrap();
    wait_until_ready(&cell, "stubborn");
    signal(cell.up_pid(), "INT");
    wait("the task is waited for", || cell.up_log().contains("still waiting for the tasks on b"));
    assert!(task.is_alive());
    let data_dir = cell.stop();
    assert!(!task.is_alive());
    verify_log(&data_dir);
    cell.start_again();
    cell.wait_for_nodes(NODES);
    cell.wait_for_tasks("stubborn");
    assert_eq!(past_ends(&cell, "stubborn"), ["node shut down"]);
    signal(cell.up_pid(), "INT");
    wait("it stops", || cell.up_log().matches("stopping").count() == 2);
}

#[test]
fn an_agent_by_hand_needs_nothing_but_the_folder_of_the_cell() {
    let cell = Cell::start(&["--nodes", "0"]);
    let agent = |name: &str| {
        let mut command = Command::new(cell.path("ohm"));
        command.args(["agent", "--stop-tasks-on-exit", "--name", name, "--capacity", "cpu=1"]);
        command.args(["--server", &format!("http://{}", cell.listen()), "--data-dir", &cell.data_dir()]);
        command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut agents = [agent("one"), agent("two")];
    cell.wait_for_nodes(2);
    let said = cell.ask_with(&["run", "--count", "2", "--cpu", "1"], &["sh", "-c", "echo on $OHM_NODE"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("on one") && said.out.contains("on two"), "{said:?}");
    let nodes = cell.json(&["nodes"]);
    assert_eq!(nodes["nodes"][0]["capacity"]["pods"], Value::from("110"), "{nodes}");
    agents.iter().for_each(|agent| signal(agent.id(), "TERM"));
    agents.iter_mut().for_each(|agent| assert!(agent.wait().unwrap().success()));
}

#[test]
fn a_finished_job_is_told_about_replaced_and_forgotten() {
    let cell = start();
    let hello = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: hello}\nspec:\n  requests: {cpu: 10m, memory: 8Mi}\n  \
                 command: [sh, -c, \"seq 1000; echo run $OHM_INCARNATION\"]\n";
    let file = cell.put("hello.yaml", hello);
    assert!(cell.ask(&["submit", &file, "--wait"]).good().contains("hello is succeeded (1 succeeded)"));
    let said = cell.ask(&["submit", &file, "--wait"]).good();
    assert!(said.contains("unchanged (succeeded ") && said.contains("was not run again"), "{said}");
    assert!(said.contains("--replace") && said.contains("ohm remove"), "{said}");
    let before = cell.json(&["job", "hello"]);
    let said = cell.ask(&["submit", &file, "--wait", "--replace"]).good();
    assert!(said.contains("accepted") && said.contains("hello is succeeded (1 succeeded)"), "{said}");
    assert!(cell.json(&["job", "hello"])["submittedMs"].as_u64() > before["submittedMs"].as_u64(), "it ran again");
    assert_eq!(cell.ask(&["logs", "hello", "--tail", "2"]).good(), "1000\nrun 1\n");
    assert_eq!(cell.ask(&["logs", "hello", "-f", "--tail", "1"]).good(), "run 1\n");
    assert_eq!(cell.ask(&["logs", "hello", "-f", "--tail", "0"]).good(), "");
    let endless = cell.put("endless.yaml", hello.replace("hello", "endless").replace("seq 1000", "sleep 1000"));
    cell.ask(&["submit", &endless]).good();
    let said = cell.ask(&["remove", "hello", "endless"]);
    assert_eq!((said.code, said.out.as_str()), (1, "hello is forgotten\n"));
    assert!(said.err.contains("not finished") && said.err.contains("ohm cancel"), "{said:?}");
    assert_eq!(cell.ask(&["job", "hello"]).code, 1);
    // Several jobs are waited for at once: one that is forgotten meanwhile is no failure.
    let both = [("short", "true", 1), ("long", "sleep 6", 600)].map(|(name, command, ttl)| {
        let job = hello.replace("hello", name).replace("seq 1000", command);
        job.replace("spec:\n", &format!("spec:\n  ttlSecondsAfterFinished: {ttl}\n"))
    });
    let file = cell.put("both.yaml", [both[1].as_str(), both[0].as_str()].join("---\n"));
    let said = cell.ask(&["submit", &file, "--wait"]).good();
    assert!(said.contains("long is succeeded"), "{said}");
    let said = cell.ask_with(&["run", "--count", "3"], &["sh", "-c", "[ $OHM_RANK = 2 ] && exit 7; sleep 1000"]);
    assert_eq!(said.code, 7, "the code of the one that failed, not of those stopped because of it: {said:?}");
    cell.ask(&["cancel", "endless"]).good();
}
