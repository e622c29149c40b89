//! Rules about other tasks hold whoever races: several schedulers of two classes place tasks that keep each other away
//! on the same few nodes.

use crate::cell;

use cell::{Cell, verify_log};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const NODES: usize = 5;
const JOBS: usize = 60;
/// Of each of these there is never more than one task on a node.
const APPS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);

fn job(class: &str, number: usize) -> String {
    let app = number % APPS;
    let term = format!("{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: a{app}}}}}}}");
    // Half of them ask for nothing: the others keep them away all the same.
    let rule = match number / APPS % 2 {
        0 => format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}, elastic: true, "
        ),
        _ => String::new(),
    };
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {class}-{number}}}\nspec: {{class: {class}, count: 1, {rule}\
         labels: {{app: a{app}}}, requests: {{cpu: 100m}}, command: [\"true\"], sim: {{duration: 300ms}}}}\n"
    )
}

fn number_of(job: &str) -> usize {
    job.rsplit_once('-').unwrap().1.parse().unwrap()
}

fn app_of(job: &str) -> usize {
    number_of(job) % APPS
}

fn asks(job: &str) -> bool {
    (number_of(job) / APPS).is_multiple_of(2)
}

/// The jobs that stood on a node together with one that asks for nobody of its app there.
fn broken(events: &[Value]) -> Vec<String> {
    let (mut standing, mut broken): (BTreeMap<String, BTreeSet<String>>, _) = (BTreeMap::new(), Vec::new());
    for event in events {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_string();
        let (job, node) = (text("job"), text("node"));
        match event["kind"].as_str().unwrap() {
            "placed" => {
                let there = standing.entry(node.clone()).or_default();
                let same = there.iter().filter(|other| app_of(other) == app_of(&job));
                let met = same.filter(|other| asks(other) || asks(&job));
                broken.extend(met.map(|other| format!("{job} was placed beside {other} on {node}")));
                there.insert(job);
            }
            "ended" => _ = standing.entry(node).or_default().remove(&job),
            _ => {}
        }
    }
    broken
}

#[test]
fn tasks_that_keep_each_other_away_never_meet_whoever_places_them() {
    let mut cell = Cell::start(&["--nodes", "0", "--schedulers", "batch=2"]);
    let file = cell.put("nodes.yaml", cell::small_nodes(NODES, 4));
    let _agent = cell.sim_agent(file);
    cell.wait_for_nodes(NODES);
    let jobs = (0..JOBS).flat_map(|number| [job("batch", number), job("tas", number)]);
    cell.submit(&jobs.collect::<String>());
    let names = (0..JOBS).flat_map(|number| [format!("batch-{number}"), format!("tas-{number}")]);
    cell.wait_until_all_succeeded(&names.collect::<Vec<_>>(), PATIENCE);
    let answer = cell.json(&["events", "--limit", "1000000"]);
    let events = answer["events"].as_array().unwrap();
    assert_eq!(broken(events), Vec::<String>::new());
    let refused: u64 = events.iter().filter_map(|event| event["conflicts"]["PodAntiAffinity"].as_u64()).sum();
    println!("the log refused {refused} rows by PodAntiAffinity");
    verify_log(&cell.stop());
}
