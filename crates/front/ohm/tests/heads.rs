//! The head of a line: a large gang among a stream of small jobs starts once it has waited long enough.

use crate::cell;

use cell::tasks::told;
use cell::{Cell, verify_log, wait};
use std::fmt::Write;
use std::time::{Duration, Instant};

const NODES: usize = 4;
const CPU: usize = 4;
const GANG: usize = 12;
const SINGLES: usize = 400;
const HEAD_PATIENCE_S: u64 = 4;
const LONGEST_S: u64 = 6;
/// What planning, reporting and looking may take.
const SLACK_S: u64 = 2;

fn job(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{{spec}, requests: {{cpu: 1}}, command: \
         [\"true\"]}}\n"
    )
}

/// Jobs of 1.5 to 6 s, more than there is room for, all the time.
fn singles() -> String {
    let mut text = String::new();
    for number in 0..SINGLES {
        let duration_ms = 1500 + number * 1103 % 4501;
        let spec = format!("count: 1, sim: {{duration: {duration_ms}ms}}");
        write!(text, "{}", job(&format!("single-{number}"), &spec)).unwrap();
    }
    text
}

fn starts_in_time(words: &[&str]) {
    let mut cell = Cell::start(&[&["--nodes", "0"], words].concat());
    let file = cell.put("nodes.yaml", cell::small_nodes(NODES, CPU));
    let agent = cell.sim_agent(file);
    cell.wait_for_nodes(NODES);
    let head = "apiVersion: ohm/v1\nkind: SchedulingProfile\nmetadata: {name: batch}\n";
    let profile = cell.put("profile.yaml", format!("{head}spec: {{headPatienceSeconds: {HEAD_PATIENCE_S}}}\n"));
    cell.ask(&["submit", &profile]).good();
    cell.submit(&singles());
    wait("the cell is full", || cell.states().iter().filter(|(_, state)| state == "running").count() >= NODES * CPU);
    cell.submit(&job(
        "gang",
        &format!("priority: 1000, preemptionPolicy: Never, count: {GANG}, sim: {{duration: 1s}}"),
    ));
    let submitted = Instant::now();
    let most = Duration::from_secs(HEAD_PATIENCE_S + LONGEST_S + SLACK_S);
    let stands = || cell.json(&["job", "gang"])["state"] != "pending";
    while !stands() && submitted.elapsed() < 3 * most {
        std::thread::sleep(Duration::from_millis(100));
    }
    let (took, kinds) = (submitted.elapsed(), told(&cell, "gang", &["headWaits", "headOver"]).len());
    assert!(took <= most, "the gang started after {took:?}, and not within {most:?}");
    assert_eq!(kinds, 2, "it was the head of its line, and is no more");
    drop(agent);
    verify_log(&cell.stop());
}

#[test]
fn a_large_gang_starts_among_small_jobs() {
    starts_in_time(&[]);
}

#[test]
fn a_large_gang_starts_among_small_jobs_of_three_replicas() {
    starts_in_time(&["--schedulers", "batch=3"]);
}
