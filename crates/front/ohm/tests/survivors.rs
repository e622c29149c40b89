//! What the tasks of a gang that stayed hear of a repair: a file of peers and a signal, or a new start in place. Real
//! processes; a node dies under both kinds of jobs.

use crate::cell;

use cell::diary::{self, assert_one_at_a_time, lives_of, peers_of};
use cell::tasks::{address, attempt, identity, node, process, rack, told};
use cell::{Cell, verify_log, wait};
use serde_json::Value;

const RANKS: usize = 4;

/// A gang of two nodes of one rack.
fn gang(cell: &Cell, name: &str, repair: &str) -> String {
    let spec = format!(
        "class: tas, retries: 0, count: {RANKS}, maxPerNode: 2, topology: {{required: topology.ohm/rack}}, repair: \
         {{policy: wait, {repair}}}"
    );
    diary::job(cell, name, &spec)
}

/// The addresses of tasks by rank.
fn addresses(cell: &Cell, tasks: &[Value]) -> Vec<String> {
    tasks.iter().map(|task| address(cell, &node(task))).collect()
}

#[test]
fn survivors_of_a_repair_are_told_of_their_peers_or_start_again_in_place() {
    let mut cell = Cell::start(&["--shape", "1x2x3", "--node-lease-ms", "7000", "--duty-lease-ms", "1500"]);
    cell.wait_for_nodes(6);
    cell.submit(&gang(&cell, "told", "survivors: notify, signal: SIGUSR1"));
    cell.submit(&gang(&cell, "anew", "survivors: restartAll"));
    let jobs = ["told", "anew"];
    let before = jobs.map(|job| cell.wait_for_tasks(job));
    wait("all write", || jobs.iter().all(|job| (0..RANKS).all(|rank| lives_of(&cell, job, rank).len() == 1)));
    for (job, tasks) in jobs.iter().zip(&before) {
        let expected = addresses(&cell, tasks);
        for rank in 0..RANKS {
            assert_eq!(peers_of(&cell, job, rank, 1, "peers"), Some((1, expected.clone())), "{job}, rank {rank}");
        }
    }
    // A rack has one node to spare: gangs of the same rack lose the same node.
    let first = node(&before[0][0]);
    let shares = before[1].iter().any(|task| rack(&node(task)) == rack(&first));
    let victims = if shares { vec![first] } else { vec![first, node(&before[1][0])] };
    assert!(before.iter().all(|tasks| tasks.iter().any(|task| victims.contains(&node(task)))), "both are hurt");
    let processes = before.each_ref().map(|tasks| tasks.iter().map(process).collect::<Vec<_>>());
    victims.iter().for_each(|victim| drop(cell.ask(&["chaos", "node-down", victim]).good()));
    let mut after = [Vec::new(), Vec::new()];
    wait("both gangs are whole again", || {
        after = jobs.map(|job| cell.wait_for_tasks(job));
        let is_over = |job: &str| told(&cell, job, &["repaired"]).len() == 1;
        jobs.iter().all(|job| is_over(job)) && after.iter().flatten().all(|task| !victims.contains(&node(task)))
    });
    after = jobs.map(|job| cell.wait_for_tasks(job));
    let now = after.each_ref().map(|tasks| addresses(&cell, tasks));
    for (job, (tasks, before)) in jobs.iter().zip(after.iter().zip(&before)) {
        assert!(tasks.iter().all(|task| rack(&node(task)) == rack(&node(&before[0]))), "{job} in its rack: {tasks:?}");
        assert!(tasks.iter().all(|task| task["failures"] == 0), "not charged: {tasks:?}");
    }
    let was_lost = |task: &Value| victims.contains(&node(task));

    // The one gang runs on, knows the new addresses by rank, and was told.
    for rank in 0..RANKS {
        let (old, new) = (&before[0][rank], &after[0][rank]);
        let (attempts, when) = if was_lost(old) { (2, "peers") } else { (1, "told") };
        assert_eq!(attempt(new), attempts, "{new}");
        if !was_lost(old) {
            assert_eq!(identity(new), identity(old), "untouched");
            assert!(processes[0][rank].is_alive());
        }
        wait("it knows its peers", || peers_of(&cell, "told", rank, attempts, when).is_some());
        let generation = if was_lost(old) { 1 } else { 2 };
        assert_eq!(peers_of(&cell, "told", rank, attempts, when), Some((generation, now[0].clone())), "rank {rank}");
    }
    assert_eq!(told(&cell, "told", &["survivorsRestart"]), Vec::<Value>::new());

    // The other one has started again whole, those that stayed where they were.
    for rank in 0..RANKS {
        let (old, new) = (&before[1][rank], &after[1][rank]);
        assert_eq!(attempt(new), 2, "{new}");
        assert_eq!(node(new) == node(old), !was_lost(old), "in place: {new}");
        assert!(!processes[1][rank].is_alive());
        wait("it knows its peers", || peers_of(&cell, "anew", rank, 2, "peers").is_some());
        assert_eq!(peers_of(&cell, "anew", rank, 2, "peers"), Some((1, now[1].clone())), "rank {rank}");
    }
    let stayed = before[1].iter().filter(|task| !was_lost(task)).count();
    let restarts = told(&cell, "anew", &["survivorsRestart"]);
    assert_eq!(restarts.iter().map(|event| event["count"].as_u64().unwrap()).collect::<Vec<_>>(), [stayed as u64]);
    for (job, rank) in jobs.iter().flat_map(|job| (0..RANKS).map(move |rank| (job, rank))) {
        assert_one_at_a_time(&lives_of(&cell, job, rank));
    }
    diary::let_end(&cell);
    cell.wait_until_all_succeeded(&jobs.map(String::from), cell::SOON);
    verify_log(&cell.stop());
}
