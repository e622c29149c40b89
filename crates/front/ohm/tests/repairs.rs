//! The example of a job that outlives the loss of a node, taken through what its file tells people to do.

use crate::cell;

use cell::tasks::{attempt, identity, node, process, rack};
use cell::{Cell, verify_log, wait};
use serde_json::Value;

const JOB: &str = "training-repair";

/// What `ohm events` says of the job since it lost something, without times and indexes.
fn story(cell: &Cell) -> Vec<String> {
    let text = cell.ask(&["events", "--job", JOB, "--limit", "1000"]).good();
    let words = |line: &str| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ");
    text.lines().map(words).skip_while(|line| !line.contains(" lost ")).collect()
}

#[test]
fn the_example_keeps_its_place_when_a_node_dies() {
    let example = format!("{}/../../../examples/{JOB}.yaml", env!("CARGO_MANIFEST_DIR"));
    let mut cell = Cell::start(&["--shape", "1x2x5"]);
    cell.wait_for_nodes(10);
    cell.ask(&["submit", &example]).good();
    let before = cell.wait_for_tasks(JOB);
    let processes: Vec<_> = before.iter().map(process).collect();
    let dead = node(&before[2]);
    cell.ask(&["chaos", "node-down", &dead]).good();
    wait("the job is whole again", || story(&cell).iter().any(|line| line.contains("is whole again")));

    let after = cell.wait_for_tasks(JOB);
    let lost: Vec<usize> = (0..before.len()).filter(|at| node(&before[*at]) == dead).collect();
    assert_eq!((before.len(), lost.len()), (8, 2), "two on a node: {before:?}");
    for at in 0..before.len() {
        if lost.contains(&at) {
            assert!(node(&after[at]) != dead && attempt(&after[at]) == 2, "placed anew: {after:?}");
            assert!(!processes[at].is_alive(), "nothing runs on a node that is down");
        } else {
            assert!(identity(&after[at]) == identity(&before[at]) && processes[at].is_alive(), "untouched: {after:?}");
        }
        assert_eq!(rack(&node(&after[at])), rack(&dead), "in the same rack");
        assert_eq!(after[at]["failures"], 0, "not charged");
    }
    let refuge = node(&after[lost[0]]);
    let moved = format!("tasks {} to {}", lost[0], lost[1]);
    let told = story(&cell);
    assert_eq!(told[0], format!("job {JOB} lost 2 tasks on {dead}; 6 are left"));
    assert_eq!(told[1], format!("job {JOB} is repaired: {moved} {dead} → {refuge}"));
    assert!(told.len() <= 5 && told.last().unwrap().ends_with(": 2 tasks placed anew"), "in a few lines: {told:?}");

    // Both attempts are shown.
    let job = cell.json(&["job", JOB]);
    let of = |run: &Value| (run["task"].as_u64().unwrap() as usize, node(run), attempt(run));
    let mut past: Vec<_> = job["pastRuns"].as_array().unwrap().iter().map(of).collect();
    past.sort();
    assert_eq!(past, [(lost[0], dead.clone(), 1), (lost[1], dead.clone(), 1)]);
    assert!(cell.ask(&["job", JOB]).good().contains("node lost"));
    verify_log(&cell.stop());
}
