//! A task that is told to stop leaves the endpoints first, and is asked to end when its delay is over.

use crate::cell;

use cell::{Cell, wait};

/// Says when it is asked to end, and ends.
const SERVICE: &str = "
apiVersion: ohm/v1
kind: Job
metadata: {name: web}
spec:
  class: service
  requests: {cpu: 10m, memory: 8Mi}
  ports: [47318]
  stopDelaySeconds: DELAY
  env: [{name: MODEL, value: \"1\"}]
  command: [sh, -c, \"trap 'echo asked; exit 0' TERM; echo ready $MODEL; while true; do sleep 0.1; done\"]
";

fn endpoints(cell: &Cell) -> usize {
    cell.try_json(&["endpoints", "web"]).map_or(0, |found| found["endpoints"].as_array().map_or(0, Vec::len))
}

fn said(cell: &Cell) -> String {
    cell.ask(&["logs", "web"]).out
}

#[test]
fn who_has_left_the_endpoints_runs_on() {
    let cell = Cell::start(&["--nodes", "2"]);
    cell.wait_for_nodes(2);
    cell.submit(&SERVICE.replace("DELAY", "3600"));
    wait("its trap is set", || said(&cell).contains("ready") && endpoints(&cell) == 1);
    let node = cell.tasks("web")[0]["node"].as_str().unwrap().to_string();
    cell.ask(&["node", "drain", &node]).good();
    wait("it has left the endpoints", || endpoints(&cell) == 0);
    assert!(!said(&cell).contains("asked"), "it has an hour");
    assert_eq!(cell.tasks("web").len(), 1);
    cell.ask(&["cancel", "web", "--grace", "60"]).good();
    wait("it is asked to end at once", || said(&cell).contains("asked"));
}

#[test]
fn a_rollout_waits_for_who_leaves() {
    let cell = Cell::start(&["--nodes", "2"]);
    cell.wait_for_nodes(2);
    let first = SERVICE.replace("DELAY", "1");
    cell.submit(&first);
    wait("its trap is set", || said(&cell).contains("ready 1"));
    let second = cell.put("web.yaml", first.replace("\"1\"", "\"2\""));
    cell.ask(&["submit", "--update", &second]).good();
    cell.ask(&["rollout", "status", "-w", "web"]).good();
    wait("only the second is there", || {
        let tasks = cell.tasks("web");
        tasks.len() == 1 && tasks[0]["revision"] == 2 && endpoints(&cell) == 1
    });
    wait("it runs", || said(&cell).contains("ready 2"));
}
