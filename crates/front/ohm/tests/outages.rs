//! The control plane is away for longer than a lease; the holder of the health duty stands still. Tasks keep diaries.

use crate::cell;

use cell::diary::{self, assert_one_at_a_time, lives_of};
use cell::processes::Process;
use cell::tasks::{attempt, identity, node, process, told};
use cell::{Cell, Killed, verify_log, wait};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

const LEASE_S: f64 = 7.0;

/// The time since boot, as tasks write it into their diaries.
fn uptime() -> f64 {
    std::fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_control_plane_away_for_longer_than_a_lease_stops_only_what_says_stop() {
    let mut cell = Cell::start(&["--shape", "1x1x2", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    cell.wait_for_nodes(2);
    cell.submit(&diary::job(&cell, "stops", "retries: 0, count: 2, onDisconnect: stop"));
    cell.submit(&diary::job(&cell, "stays", "retries: 0, count: 2, onDisconnect: keep"));
    let jobs = ["stops", "stays"];
    let before = jobs.map(|job| cell.wait_for_tasks(job));
    let processes = before.each_ref().map(|tasks| tasks.iter().map(process).collect::<Vec<_>>());
    let roles = [
        "server",
        "health",
        "scheduler --class batch",
        "scheduler --class service",
        "scheduler --class tas",
        "provisioner",
    ];
    let all: Vec<Process> = roles.iter().map(|role| cell.child(role).unwrap()).collect();
    all.iter().for_each(Process::freeze);
    // Whatever beat was answered, it was sent before this moment.
    let away = uptime();
    wait("the lease has run out", || uptime() > away + LEASE_S + 1.0);
    assert!(!processes[0].iter().any(Process::is_alive), "they ended with the lease");
    let lives = |job: &str, task: usize| lives_of(&cell, job, task);
    for task in 0..2 {
        let stopped = &lives("stops", task)[&1];
        assert!(stopped.last <= away + LEASE_S, "dead by the deadline: {stopped:?}, away since {away}");
        assert!(lives("stays", task)[&1].last > away + LEASE_S, "it lives on");
    }
    all.iter().for_each(Process::go_on);
    wait("what was stopped runs again", || (0..2).all(|task| lives("stops", task).len() == 2));
    cell.wait_for_nodes(2);
    let after = jobs.map(|job| cell.wait_for_tasks(job));
    assert_eq!(after[1].iter().map(identity).collect::<Vec<_>>(), before[1].iter().map(identity).collect::<Vec<_>>());
    assert!(processes[1].iter().all(Process::is_alive), "never touched");
    assert!(after[0].iter().all(|task| attempt(task) == 2), "{after:?}");
    assert!(after.iter().flatten().all(|task| task["failures"] == 0), "not charged: {after:?}");
    (0..2).for_each(|task| assert_one_at_a_time(&lives("stops", task)));
    diary::let_end(&cell);
    cell.wait_until_all_succeeded(&jobs.map(String::from), cell::SOON);
    verify_log(&cell.stop());
}

/// A second candidate for the health duty.
fn second_health(cell: &Cell) -> Killed {
    let mut command = Command::new(cell.path("ohm"));
    command.args(["health", "--name", "second", "--node-lease-ms", "10000", "--server", &cell.urls()]);
    command.args(["--data-dir", &cell.data_dir()]).stderr(Stdio::null());
    Killed::of(command.spawn().unwrap())
}

/// Who holds the health duty.
fn holder(cell: &Cell) -> String {
    let status = cell.try_json(&["status"]).unwrap_or_default();
    let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
    let holds =
        |session: &&Value| session["leases"].as_array().is_some_and(|leases| leases.iter().any(|one| one == "health"));
    sessions.iter().find(holds).map_or_else(String::new, |session| session["name"].as_str().unwrap().to_string())
}

#[test]
fn a_duty_holder_that_stands_still_is_followed_and_does_no_harm_when_it_goes_on() {
    let mut cell = Cell::start(&["--shape", "1x1x3"]);
    cell.wait_for_nodes(3);
    wait("the first one holds the duty", || holder(&cell) == "health");
    let _second = second_health(&cell);
    cell.submit(&diary::job(&cell, "work", "retries: 0, count: 3, minCount: 1, maxPerNode: 1"));
    let before = cell.wait_for_tasks("work");
    let first = cell.child("health").unwrap();
    first.freeze();
    wait("the second one holds the duty", || holder(&cell) == "second");
    let victim = node(&before[0]);
    cell.ask(&["chaos", "node-down", &victim]).good();
    let lost = |cell: &Cell| {
        let mut events = told(cell, "", &["nodeHealth"]);
        events.retain(|event| event["state"] == "lost");
        events.iter().map(|event| event["node"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    wait("it is declared lost", || lost(&cell) == [victim.clone()]);
    // The first one still believes what it knew when it stopped.
    first.go_on();
    cell.ask(&["chaos", "node-up", &victim]).good();
    cell.wait_for_nodes(3);
    let after = cell.wait_for_tasks("work");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((lost(&cell), holder(&cell).as_str()), (vec![victim], "second"));
    assert_eq!(cell.child("health"), Some(first));
    let ours = |tasks: &[Value]| tasks[1..].iter().map(identity).collect::<Vec<_>>();
    assert_eq!(ours(&cell.wait_for_tasks("work")), ours(&before), "untouched");
    assert!(attempt(&after[0]) == 2 && after[0]["failures"] == 0, "{after:?}");
    for task in 0..3 {
        assert_one_at_a_time(&lives_of(&cell, "work", task));
    }
    diary::let_end(&cell);
    cell.wait_until_all_succeeded(&["work".to_string()], cell::SOON);
    verify_log(&cell.stop());
}

#[test]
fn a_node_lease_that_ends_while_the_duty_changes_hands_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    for (role, leases, least) in [
        ("up", &["--node-lease-ms", "4000"][..], "9400 ms are the least"),
        ("health", &["--node-lease-ms", "9399"], "9400 ms are the least"),
        ("up", &["--node-lease-ms", "6649", "--duty-lease-ms", "1500"], "6650 ms are the least"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ohm"));
        let output = command.arg(role).args(leases).arg("--data-dir").arg(scratch.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{role} {leases:?}: {said}");
        assert!(said.contains(least) && said.contains("--duty-lease-ms"), "{said}");
    }
}
