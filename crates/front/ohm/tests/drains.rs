//! Nodes that are drained under real tasks: each has its place before it is told to stop, in its domain, at its pace, and
//! stays where there is none. Tasks keep diaries.

use crate::cell;

use cell::diary::{self, assert_one_at_a_time, lives_of};
use cell::tasks::{attempt, identity, node, process, rack, told};
use cell::{Cell, verify_log, wait};
use serde_json::Value;
use std::collections::BTreeSet;

fn show(cell: &Cell, node: &str) -> Value {
    cell.json(&["node", "show", node])
}

fn drain(cell: &Cell, node: &str, more: &[&str]) -> String {
    cell.ask(&[&["node", "drain", node], more].concat()).good()
}

#[test]
fn a_gang_leaves_a_drained_node_for_room_that_was_reserved_in_its_rack() {
    let mut cell = Cell::start(&["--shape", "1x2x3"]);
    cell.wait_for_nodes(6);
    let spec = "class: tas, retries: 0, count: 4, maxPerNode: 2, topology: {required: topology.ohm/rack}";
    cell.submit(&diary::job(&cell, "gang", spec));
    let before = cell.wait_for_tasks("gang");
    wait("all write", || (0..4).all(|task| lives_of(&cell, "gang", task).len() == 1));
    let left = node(&before[0]);
    let processes: Vec<_> = before.iter().map(process).collect();
    assert!(drain(&cell, &left, &["--wait"]).contains("nothing runs on it"));
    let mut after = Vec::new();
    wait("the gang is whole again", || {
        after = cell.wait_for_tasks("gang");
        after.iter().all(|task| node(task) != left)
    });
    for ((task, old), process) in after.iter().zip(&before).zip(&processes) {
        assert_eq!(rack(&node(task)), rack(&left), "in its rack: {after:?}");
        assert_eq!(task["failures"], 0, "not charged: {task}");
        match node(old) == left {
            true => assert!(attempt(task) == 2 && !process.is_alive(), "{task}"),
            false => assert!(identity(task) == identity(old) && process.is_alive(), "untouched: {task}"),
        }
    }
    // Room is reserved in the very entry that tells the first of them to stop.
    let story = told(&cell, "gang", &["moveReserved", "stopping", "ended"]);
    let entries = |kind: &str| -> Vec<u64> {
        story.iter().filter(|event| event["kind"] == kind).map(|event| event["index"].as_u64().unwrap()).collect()
    };
    let reserved = entries("moveReserved");
    assert_eq!(reserved.len(), 1, "{story:?}");
    assert_eq!(entries("stopping"), [reserved[0]; 2], "{story:?}");
    assert!(entries("ended").iter().all(|entry| *entry > reserved[0]), "{story:?}");
    wait("the moved ones write", || lives_of(&cell, "gang", 0).len() == 2);
    (0..4).for_each(|task| assert_one_at_a_time(&lives_of(&cell, "gang", task)));
    // A drained node takes nothing until somebody says so.
    assert_eq!(show(&cell, &left)["schedulable"], false);
    cell.ask(&["node", "undrain", &left]).good();
    assert_eq!(show(&cell, &left)["schedulable"], true);
    diary::let_end(&cell);
    cell.wait_until_all_succeeded(&["gang".to_string()], cell::SOON);
    verify_log(&cell.stop());
}

/// The most tasks of a job that were told to stop and did not run again at the same time, from an entry on.
fn most_missing(cell: &Cell, job: &str, since: u64) -> usize {
    let (mut missing, mut most) = (BTreeSet::new(), 0);
    for event in told(cell, job, &["stopping", "started"]) {
        let task = event["task"].as_u64().unwrap();
        if event["index"].as_u64().unwrap() <= since {
            continue;
        }
        if event["kind"] == "stopping" {
            missing.insert(task);
        } else {
            missing.remove(&task);
        }
        most = most.max(missing.len());
    }
    most
}

#[test]
fn a_service_leaves_no_more_tasks_at_a_time_than_it_may() {
    let mut cell = Cell::start(&["--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    cell.submit(&diary::job(&cell, "web", "class: service, count: 6"));
    let before = cell.wait_for_tasks("web");
    let names = ["b1-r1-h1", "b1-r1-h2"];
    let on = |tasks: &[Value], name: &str| tasks.iter().filter(|task| node(task) == name).count();
    assert_eq!(names.map(|name| on(&before, name)), [3, 3], "spread: {before:?}");
    let last = |cell: &Cell| cell.json(&["status"])["applied"].as_u64().unwrap_or_default();
    let began = last(&cell);
    drain(&cell, names[0], &["--wait"]);
    let moved = cell.wait_for_tasks("web");
    assert_eq!(names.map(|name| on(&moved, name)), [0, 6], "{moved:?}");
    let stayed = |old: &&Value| node(old) == names[1];
    for old in before.iter().filter(stayed) {
        assert!(moved.iter().any(|task| identity(task) == identity(old)), "untouched: {old}");
    }
    assert_eq!(most_missing(&cell, "web", began), 1, "one at a time by default");
    cell.ask(&["node", "undrain", names[0]]).good();
    let began = last(&cell);
    drain(&cell, names[1], &["--at-once", "2", "--wait"]);
    let back = cell.wait_for_tasks("web");
    assert_eq!(names.map(|name| on(&back, name)), [6, 0], "{back:?}");
    assert_eq!(most_missing(&cell, "web", began), 2, "two at a time");
    for (rank, task) in back.iter().enumerate() {
        wait("it writes", || lives_of(&cell, "web", rank).keys().last().copied() == Some(attempt(task)));
        assert_one_at_a_time(&lives_of(&cell, "web", rank));
    }
    verify_log(&cell.stop());
}

#[test]
fn what_finds_no_place_stays_until_the_drain_ends_or_its_deadline_comes() {
    let mut cell = Cell::start(&["--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    let (left, spec) = ("b1-r1-h1", "retries: 0, count: 2, nodeSelector: {kubernetes.io/hostname: b1-r1-h1}");
    cell.submit(&diary::job(&cell, "pinned", spec));
    let before = cell.wait_for_tasks("pinned");
    let processes: Vec<_> = before.iter().map(process).collect();
    let leaving = |cell: &Cell| show(cell, left)["leaving"][0].clone();
    drain(&cell, left, &[]);
    wait("somebody looked for a place in vain", || {
        let leaving = leaving(&cell);
        leaving["staying"] == 2 && leaving["reason"].as_str().is_some_and(|reason| !reason.is_empty())
    });
    cell.ask(&["node", "undrain", left]).good();
    assert!(leaving(&cell).is_null());
    // Long enough that whatever a drain would do has been done.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let identities = |tasks: &[Value]| tasks.iter().map(identity).collect::<Vec<_>>();
    assert_eq!(identities(&cell.wait_for_tasks("pinned")), identities(&before));
    assert_eq!(told(&cell, "pinned", &["stopping", "moveReserved"]), Vec::<Value>::new());

    drain(&cell, left, &["--deadline", "2s", "--wait"]);
    assert!(!processes.iter().any(|process| process.is_alive()));
    let story = told(&cell, "", &["nodeDraining", "drainDeadline", "stopping"]);
    let at_ms = |kind: &str| -> Vec<u64> {
        story.iter().filter(|event| event["kind"] == kind).map(|event| event["atMs"].as_u64().unwrap()).collect()
    };
    let began_ms = at_ms("nodeDraining")[1];
    assert_eq!((at_ms("drainDeadline").len(), at_ms("stopping").len()), (1, 2), "{story:?}");
    assert!(at_ms("stopping").iter().all(|stopped_ms| *stopped_ms >= began_ms + 2_000), "{story:?}");
    let explained = cell.ask(&["explain", "pinned"]).good();
    assert!(explained.contains("drained"), "{explained}");
    cell.ask(&["node", "undrain", left]).good();
    let after = cell.wait_for_tasks("pinned");
    assert!(after.iter().all(|task| attempt(task) == 2 && task["failures"] == 0), "not charged: {after:?}");
    for task in 0..2 {
        wait("it writes", || lives_of(&cell, "pinned", task).len() == 2);
        assert_one_at_a_time(&lives_of(&cell, "pinned", task));
    }
    verify_log(&cell.stop());
}
