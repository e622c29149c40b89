//! Schedulers race: two replicas for batch and one for each other class wake up to the same full backlog and the same few
//! small nodes. What collides must be refused, counted, shown, and tried again until everything is placed.

use crate::cell;

use cell::http::Http;
use cell::{Cell, verify_log, wait};
use std::collections::BTreeMap;
use std::time::Duration;

const NODES: usize = 4;
/// Waves until there must have been a conflict: each one is some hundred chances.
const WAVES: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

fn job(class: &str, name: &str, tasks: usize) -> String {
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{class: {class}, count: {tasks}, \
         requests: {{cpu: 1, memory: 256Mi}}, command: [\"true\"], sim: {{duration: 400ms}}}}\n"
    )
}

/// More than the nodes take at once, of both classes that end.
fn backlog(wave: usize) -> String {
    let batch = (0..80).map(|number| job("batch", &format!("batch-{wave}-{number}"), 1 + number % 3));
    let tas = (0..30).map(|number| job("tas", &format!("tas-{wave}-{number}"), 1 + number % 2));
    batch.chain(tas).collect()
}

/// Refused rows by reason, as `ohm events` tells them.
fn conflicts_in_events(cell: &Cell) -> BTreeMap<String, u64> {
    let answer = cell.json(&["events", "--limit", "1000000"]);
    assert!(answer["dropped"].as_u64().unwrap_or(0) == 0, "the server still has all events");
    let mut counts = BTreeMap::new();
    for event in answer["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "conflicted") {
        assert!(!event["session"].as_str().unwrap().is_empty(), "{event}");
        for (reason, rows) in event["conflicts"].as_object().unwrap() {
            *counts.entry(reason.clone()).or_insert(0) += rows.as_u64().unwrap();
        }
    }
    counts
}

/// The same from `/metrics`.
fn conflicts_in_metrics(cell: &Cell) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let page = Http::connect(cell).get("/metrics");
    for line in page.lines().filter(|line| line.starts_with("ohm_conflicts_total{")) {
        let reason = line.split_once("reason=\"").unwrap().1.split_once('"').unwrap().0;
        let count: u64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        *counts.entry(reason.to_string()).or_insert(0) += count;
    }
    counts
}

/// The same from the report of `ohm log verify`.
fn conflicts_in_log(report: &str) -> BTreeMap<String, u64> {
    let line = report.lines().find_map(|line| line.strip_prefix("conflicts: ")).unwrap();
    let pair = |part: &str| part.split_once(' ').map(|(reason, count)| (reason.to_string(), count.parse().unwrap()));
    line.split(", ").filter_map(pair).collect()
}

#[test]
fn schedulers_that_race_for_the_same_nodes_collide_and_place_everything() {
    let mut cell = Cell::start(&["--nodes", "0", "--schedulers", "batch=2"]);
    wait("all schedulers have their shards", || {
        let status = cell.try_json(&["status"]).unwrap_or_default();
        let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
        let holds = |session: &&serde_json::Value| {
            session["role"].as_str().is_some_and(|role| role.starts_with("scheduler"))
                && session["leases"].as_array().is_some_and(|leases| !leases.is_empty())
        };
        sessions.iter().filter(holds).count() == 4
    });
    let services: String = (0..4).map(|number| job("service", &format!("service-{number}"), 1)).collect();
    let services = cell.submit_until_taken(&services.replace(", sim: {duration: 400ms}", ""));
    let mut names = cell.submit_until_taken(&backlog(0));
    let file = cell.put("nodes.yaml", cell::small_nodes(NODES, 4));
    let _agent = cell.sim_agent(file);
    cell.wait_for_nodes(NODES);
    cell.wait_until_all_succeeded(&names, PATIENCE);
    for wave in 1..WAVES {
        if !conflicts_in_events(&cell).is_empty() {
            break;
        }
        let nodes: Vec<String> = (0..NODES).map(|number| format!("small-{number}")).collect();
        nodes.iter().for_each(|node| drop(cell.ask(&["node", "cordon", node]).good()));
        names = cell.submit_until_taken(&backlog(wave));
        nodes.iter().for_each(|node| drop(cell.ask(&["node", "uncordon", node]).good()));
        cell.wait_until_all_succeeded(&names, PATIENCE);
    }
    wait("the services run", || {
        let states = cell.states();
        services.iter().all(|name| states.contains(&(name.clone(), "running".to_string())))
    });
    let told = conflicts_in_events(&cell);
    println!("conflicts: {told:?}");
    assert!(told.values().sum::<u64>() > 0, "{WAVES} waves without one conflict");
    assert_eq!(conflicts_in_metrics(&cell), told);
    let data_dir = cell.stop();
    assert_eq!(conflicts_in_log(&verify_log(&data_dir)), told);
}
