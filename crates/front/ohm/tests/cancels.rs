//! Jobs that take their time to end are ended sooner by a word.

use crate::cell;

use cell::{Cell, wait};

/// Ends a day after it was asked to.
const STUBBORN: &str = "
apiVersion: ohm/v1
kind: Job
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 86400
  requests: {cpu: 10m, memory: 8Mi}
  command: [sh, -c, \"trap '' TERM; echo ready; while true; do sleep 0.1; done\"]
";

fn is_gone(cell: &Cell, job: &str) -> bool {
    cell.try_json(&["job", job]).is_some_and(|job| job["pastRuns"].as_array().is_some_and(|runs| !runs.is_empty()))
}

#[test]
fn a_stubborn_job_is_ended_by_a_shorter_grace() {
    let cell = Cell::start(&["--nodes", "1"]);
    cell.wait_for_nodes(1);
    for (name, words) in [("first", ["--now"].as_slice()), ("second", &["--grace", "1"])] {
        cell.submit(&STUBBORN.replace("NAME", name));
        wait("its trap is set", || cell.ask(&["logs", name]).out.contains("ready"));
        cell.ask(&["cancel", name]).good();
        assert!(!is_gone(&cell, name), "it has a day");
        cell.ask(&[&["cancel", name], words].concat()).good();
        wait("it is killed", || is_gone(&cell, name));
    }
    let said = cell.ask(&["cancel", "first", "--grace", "86401"]);
    assert_eq!(said.code, 2, "{said:?}");
    let endless = cell.put("endless.yaml", STUBBORN.replace("86400", "1000000000000"));
    let said = cell.ask(&["submit", &endless]);
    assert!(said.code == 1 && said.out.contains("at most 86400 (a day)"), "{said:?}");
}
