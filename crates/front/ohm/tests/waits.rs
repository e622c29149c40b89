//! Commands that wait: what they wait for is said, and no longer than they were told.

use crate::cell;

use cell::Cell;
use std::time::{Duration, Instant};

/// Two nodes; the job `full` holds more of both than the other one has free.
fn full() -> Cell {
    let cell = Cell::start(&["--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    let node = cell.json(&["node", "show", "b1-r1-h1"]);
    let cpu = node["capacity"]["cpu"].as_str().unwrap();
    let spec = format!("class: service, count: 2, requests: {{cpu: {cpu}}}, command: [sleep, '1000']");
    cell.submit(&document("full", &spec));
    cell.wait_for_tasks("full");
    cell
}

fn document(name: &str, spec: &str) -> String {
    format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

#[test]
fn a_wait_without_an_end_in_sight_says_why_and_ends_in_time() {
    let cell = full();
    let started = Instant::now();
    let said = cell.ask(&["node", "drain", "b1-r1-h1", "--wait", "--timeout", "8s"]);
    assert!((7..15).contains(&started.elapsed().as_secs()), "{said:?}");
    assert_eq!(said.code, 1, "{said:?}");
    let told: Vec<&str> = said.err.lines().filter(|line| line.starts_with("draining b1-r1-h1: 1 task left.")).collect();
    assert!(!told.is_empty() && told[0].contains("full: "), "what waits, and why: {said:?}");
    assert!(said.err.contains("node b1-r1-h1 is not drained after 8 s: 1 task left. full: "), "{said:?}");
    let waiting = cell.put("waiting.yaml", document("waiting", "requests: {cpu: 1m}, command: ['true']"));
    let more = cell.put("more.yaml", document("more", "requests: {cpu: 1m}, command: ['true']"));
    for (words, told) in [
        (&["submit", &waiting, &more, "--wait", "--timeout", "1s"][..], "2 jobs are not there yet after 1 s"),
        (&["wait", "waiting", "--timeout", "1s"], "waiting is not finished after that time"),
        (&["logs", "waiting", "--follow", "--timeout", "1s"], "waiting has not started after that time"),
    ] {
        let said = cell.ask(words);
        assert!(said.code == 1 && said.err.contains(told), "{words:?}: {said:?}");
    }
    let said = cell.ask_with(&["run", "--name", "late", "--cpu", "1m", "--timeout", "1s"], &["true"]);
    assert!(said.code == 1 && said.err.contains("late was not over after 1 s and is cancelled"), "{said:?}");
    assert_eq!(cell.json(&["job", "late"])["state"], "cancelled");
    let started = Instant::now();
    let said = cell.ask(&["events", "--follow", "--job", "waiting", "--timeout", "2s"]);
    assert!(said.code == 0 && said.out.contains("waiting"), "{said:?}");
    assert!((2..10).contains(&started.elapsed().as_secs()), "{said:?}");
    let said = cell.ask(&["node", "drain", "b1-r1-h1", "--timeout", "1s"]);
    assert_eq!(said.code, 2, "a time-out of no wait: {said:?}");
}

#[test]
fn a_limit_of_events_counts_the_lines_that_are_shown() {
    let cell = Cell::start(&["--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    // Twelve tasks start together: one line of the story for each node.
    cell.submit(&document("many", "count: 12, requests: {cpu: 1m}, command: ['true']"));
    cell.wait_until_all_succeeded(&["many".to_string()], Duration::from_secs(60));
    let lines = |limit: &str| cell.ask(&["events", "--limit", limit]).good().lines().count();
    let all = lines("1000");
    for limit in [1, 5, 12, 15] {
        assert_eq!(lines(&limit.to_string()), limit.min(all), "of {all}");
    }
}
