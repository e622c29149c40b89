//! Spares under real tasks: a gang in a required rack holds room for one more; when a node is killed its task comes back
//! where the spare was, and the spare is held anew where there is still room for it.

use crate::cell;

use cell::diary::{self, assert_one_at_a_time, lives_of};
use cell::tasks::{attempt, identity, node, process, rack, told};
use cell::{Cell, verify_log, wait};
use serde_json::Value;
use std::collections::BTreeSet;

/// The nodes where spares of the job's only group are held.
fn spares(cell: &Cell, job: &str) -> Vec<String> {
    let nodes = cell.json(&["job", job])["groups"][0]["spareNodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter_map(Value::as_str).map(String::from).collect()
}

#[test]
fn a_lost_task_comes_back_where_the_spare_was() {
    let mut cell = Cell::start(&["--shape", "1x2x5"]);
    cell.wait_for_nodes(10);
    let spec = "class: tas, retries: 0, count: 3, spares: 1, maxPerNode: 1, topology: {required: topology.ohm/rack}";
    cell.submit(&diary::job(&cell, "gang", spec));
    let before = cell.wait_for_tasks("gang");
    wait("all write", || (0..3).all(|task| lives_of(&cell, "gang", task).len() == 1));
    let first = spares(&cell, "gang");
    assert_eq!(first.len(), 1, "held from the start");
    let (left, processes) = (node(&before[1]), before.iter().map(process).collect::<Vec<_>>());
    assert_eq!(rack(&first[0]), rack(&left), "in the rack of the gang");
    cell.ask(&["chaos", "node-down", &left]).good();
    let mut after = Vec::new();
    wait("the gang is whole again", || {
        after = cell.wait_for_tasks("gang");
        attempt(&after[1]) == 2
    });
    assert_eq!(node(&after[1]), first[0], "where the spare was: {after:?}");
    for at in [0, 2] {
        assert!(identity(&after[at]) == identity(&before[at]) && processes[at].is_alive(), "untouched: {after:?}");
    }
    wait("another spare", || spares(&cell, "gang").len() == 1);
    let second = spares(&cell, "gang");
    let used: BTreeSet<String> = after.iter().map(node).chain([left.clone()]).collect();
    assert!(rack(&second[0]) == rack(&left) && !used.contains(&second[0]), "{second:?} beside {used:?}");
    let story = told(&cell, "gang", &["spareHeld", "spareGone"]);
    let kinds: Vec<&str> = story.iter().filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds, ["spareHeld", "spareGone", "spareHeld"], "{story:?}");
    wait("the new one writes", || lives_of(&cell, "gang", 1).len() == 2);
    (0..3).for_each(|task| assert_one_at_a_time(&lives_of(&cell, "gang", task)));
    diary::let_end(&cell);
    cell.wait_until_all_succeeded(&["gang".to_string()], cell::SOON);
    assert!(spares(&cell, "gang").is_empty(), "given back with the job");
    verify_log(&cell.stop());
}
