//! What agents find wrong with their nodes, and nodes that flap: real agents, real checks.

use crate::cell;

use cell::processes::Process;
use cell::{Cell, Killed, wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

const UP: &[&str] = &["--shape", "1x1x2"];

/// An agent called `ill` beside those of `ohm up`, whose health check fails as long as the file `ill` is there.
fn agent_with_a_check(cell: &Cell, more: &[&str]) -> Killed {
    let check = format!("test ! -e {0} || {{ echo first; cat {0}; exit 1; }}", cell.path("ill").display());
    let mut command = Command::new(cell.path("ohm"));
    command.args([
        "agent",
        "--name",
        "ill",
        "--capacity",
        "cpu=2",
        "--capacity",
        "memory=1Gi",
        "--stop-tasks-on-exit",
        "--address",
        "127.0.2.1",
    ]);
    command.args(["--server", &cell.urls(), "--data-dir", &cell.data_dir(), "--health-check", &check]);
    command.args(["--health-check-interval", "200ms", "--health-check-threshold", "2"]).args(more);
    let agent = Killed::of(command.spawn().unwrap());
    cell.wait_for_nodes(3);
    agent
}

/// A job of one task on the node `ill`.
fn pinned(name: &str, node: &str) -> String {
    format!(
        "apiVersion: ohm/v1
kind: Job
metadata: {{name: {name}}}
spec:
  requests: {{cpu: 10m, memory: 8Mi}}
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  command: [sleep, '600']
"
    )
}

fn node(cell: &Cell, name: &str) -> Value {
    cell.json(&["node", "show", name])
}

fn state(cell: &Cell, job: &str) -> String {
    cell.json(&["job", job])["state"].as_str().unwrap().to_string()
}

#[test]
fn a_node_whose_health_check_fails_takes_no_new_work_until_it_is_well() {
    let mut cell = Cell::start(UP);
    let _agent = agent_with_a_check(&cell, &["--on-condition", "health-check=no-new-work"]);
    cell.submit(&pinned("before", "ill"));
    wait("a well node takes work", || state(&cell, "before") == "running");
    fs::write(cell.path("ill"), "fan 2 stands\n").unwrap();
    wait("the check has failed", || node(&cell, "ill")["conditions"][0]["kind"] == "health-check-failed");
    let ill = node(&cell, "ill");
    assert_eq!(ill["conditions"][0]["message"], "fan 2 stands");
    assert_eq!(ill["taints"][0], "node.ohm/health-check-failed:NoSchedule");
    assert!(cell.ask(&["nodes"]).good().contains("health-check-failed"));
    cell.submit(&pinned("after", "ill"));
    wait("it is explained", || {
        let explained = cell.ask(&["explain", "after"]).good();
        explained.contains("ill has health-check-failed: fan 2 stands")
    });
    assert_eq!((state(&cell, "before"), state(&cell, "after")), ("running".into(), "pending".into()));
    // An agent that starts anew does not know yet; the cell does.
    fs::remove_file(cell.path("ill")).unwrap();
    wait("it is well again and takes work", || state(&cell, "after") == "running");
    assert!(node(&cell, "ill")["conditions"].is_null());
    let events = cell.ask(&["events"]).good();
    for told in ["node ill has health-check-failed (fan 2 stands)", "node ill no longer has health-check-failed"] {
        assert!(events.contains(told), "{told} is not in {events}");
    }
    cell::verify_log(&cell.stop());
}

#[test]
fn a_node_that_flaps_is_held_down_until_a_person_releases_it() {
    let mut cell = Cell::start(&["--shape", "1x1x2", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    cell.wait_for_nodes(2);
    let name = cell.json(&["nodes"])["nodes"][0]["name"].as_str().unwrap().to_string();
    let agent: Process = cell.child(&format!("agent --name {name}")).unwrap();
    for _ in 0..3 {
        agent.freeze();
        wait("it is lost", || node(&cell, &name)["health"] == "lost");
        agent.go_on();
        wait("it is back", || node(&cell, &name)["health"] == "ready");
    }
    let held = node(&cell, &name);
    assert!(held["heldUntilMs"].as_u64() > Some(0) && held["flaps"] == 3, "{held}");
    assert_eq!(held["taints"][0], "node.ohm/flapping:NoSchedule");
    cell.submit(&pinned("late", &name));
    wait("it is explained", || {
        let explained = cell.ask(&["explain", "late"]).good();
        explained.contains(&format!("{name} is held down for another"))
            && explained.contains("it fell silent 3 times in 10 min")
    });
    assert_eq!(state(&cell, "late"), "pending");
    assert!(cell.ask(&["nodes"]).good().contains("held down"));
    cell.ask(&["node", "release", &name]).good();
    wait("a released node takes work", || state(&cell, "late") == "running");
    assert!(node(&cell, &name)["heldUntilMs"].is_null());
    cell::verify_log(&cell.stop());
}

/// A gang of two tasks on two nodes.
const PAIR: &str = "apiVersion: ohm/v1
kind: Job
metadata: {name: pair}
spec:
  groups:
  - name: main
    count: 2
    minCount: 2
    maxPerNode: 1
    requests: {cpu: 10m, memory: 8Mi}
    terminationGracePeriodSeconds: 1
    command: [sleep, '600']
";

/// Node and process of each task of `job`, by node.
fn places(cell: &Cell, job: &str) -> BTreeMap<String, u64> {
    let place = |task: &Value| (task["node"].as_str().unwrap().to_string(), task["pid"].as_u64().unwrap());
    cell.wait_for_tasks(job).iter().map(place).collect()
}

#[test]
fn what_runs_leaves_a_node_whose_health_check_fails_once_there_is_a_place() {
    let mut cell = Cell::start(UP);
    let _agent = agent_with_a_check(&cell, &["--on-condition", "health-check=drain"]);
    let nodes = cell.json(&["nodes"]);
    let names = nodes["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap());
    let others: Vec<String> = names.filter(|name| *name != "ill").map(str::to_string).collect();
    cell.ask(&["node", "cordon", &others[1]]).good();
    cell.submit(PAIR);
    let before = places(&cell, "pair");
    assert_eq!(before.keys().map(String::as_str).collect::<Vec<_>>(), [others[0].as_str(), "ill"]);
    // No place to go to: it stays, everybody says why, and once the node is well nothing has happened to it.
    fs::write(cell.path("ill"), "fan 2 stands\n").unwrap();
    let unhealthy = || cell.json(&["job", "pair"])["repair"]["unhealthyNodes"][0]["cause"].clone();
    wait("the job has to leave", || unhealthy() == "health-check-failed");
    assert!(cell.ask(&["job", "pair"]).good().contains("ill has health-check-failed"));
    let shown = cell.ask(&["node", "show", "ill"]).good();
    assert!(shown.contains("Leaving because of health-check-failed:\n  pair: 1 to leave\n"), "{shown}");
    fs::remove_file(cell.path("ill")).unwrap();
    wait("it may stay", || unhealthy().is_null());
    assert_eq!(places(&cell, "pair"), before);
    // A place is there: that task moves, the other one is left alone.
    fs::write(cell.path("ill"), "fan 2 stands\n").unwrap();
    wait("the job has to leave again", || unhealthy() == "health-check-failed");
    cell.ask(&["node", "uncordon", &others[1]]).good();
    wait("it has left", || node(&cell, "ill")["runs"] == 0);
    wait("it runs elsewhere", || places(&cell, "pair").contains_key(&others[1]));
    let after = places(&cell, "pair");
    assert_eq!(after.get(&others[0]), before.get(&others[0]), "the same process");
    let events = cell.ask(&["events", "--job", "pair"]).good();
    assert!(events.contains(&format!("job pair: room on {} for 1 task to leave ill", others[1])), "{events}");
    // Well again, the node takes work again, and nothing moves back.
    fs::remove_file(cell.path("ill")).unwrap();
    cell.submit(&pinned("later", "ill"));
    wait("it takes work", || state(&cell, "later") == "running");
    assert_eq!(places(&cell, "pair"), after);
    cell::verify_log(&cell.stop());
}
