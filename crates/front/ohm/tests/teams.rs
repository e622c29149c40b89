//! Teams that lend each other quota take it back: work of the other team is stopped by the rules, and waits again.

use crate::cell;

use cell::Cell;
use serde_json::Value;
use std::collections::BTreeMap;

const NODES: usize = 4;
/// What each team has of its own, in cpus.
const OWN: usize = 8;

fn queues() -> String {
    let queue = |name: &str| {
        format!(
            "---\napiVersion: ohm/v1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{cohort: all, nominalQuota: \
             {{cpu: {OWN}}}, preemption: {{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}}}}\n"
        )
    };
    format!("apiVersion: ohm/v1\nkind: Cohort\nmetadata: {{name: all}}\n{}{}", queue("lender"), queue("borrower"))
}

fn job(name: &str, (queue, class, priority): (&str, &str, usize)) -> String {
    format!(
        "---\napiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{class: {class}, queue: {queue}, priority: \
         {priority}, requests: {{cpu: 1}}, command: [\"true\"], sim: {{duration: 24h}}}}\n"
    )
}

/// Jobs by state.
fn counts(cell: &Cell, prefix: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (name, state) in cell.states() {
        if name.starts_with(prefix) {
            *counts.entry(state).or_default() += 1;
        }
    }
    counts
}

fn events(cell: &Cell, kind: &str) -> Vec<Value> {
    let answer = cell.json(&["events", "--limit", "1000000"]);
    answer["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).cloned().collect()
}

/// One team has all 16 cpus, with work of two classes. The other team wants its 8 back, with batch jobs that two
/// replicas plan and services, all at the same time: 8 jobs are stopped, once each, the least important ones, and all
/// the rest runs on.
#[test]
fn a_team_takes_back_what_it_lent_whichever_schedulers_plan_it() {
    let mut cell = Cell::start(&["--nodes", "0", "--schedulers", "batch=2"]);
    let file = cell.put("nodes.yaml", cell::small_nodes(NODES, 2 * OWN / NODES));
    let _agent = cell.sim_agent(file);
    cell.wait_for_nodes(NODES);
    let file = cell.put("queues.yaml", queues());
    assert_eq!(cell.ask(&["submit", &file]).code, 0);
    let lent = (0..2 * OWN).map(|at| job(&format!("a{at:02}"), ("borrower", ["batch", "tas"][at % 2], 2 * OWN - at)));
    cell.submit(&lent.collect::<String>());
    cell::wait("the borrower has all", || counts(&cell, "a").get("running") == Some(&(2 * OWN)));

    let wanted = (0..OWN).map(|at| job(&format!("b{at}"), ("lender", ["batch", "service"][at % 2], 0)));
    cell.submit(&wanted.collect::<String>());
    cell::wait("the lender has its own", || counts(&cell, "b").get("running") == Some(&OWN));
    let (running, pending) = (OWN, OWN);
    cell::wait("what is left to the borrower", || {
        let counts = counts(&cell, "a");
        (counts.get("running"), counts.get("pending")) == (Some(&running), Some(&pending))
    });
    let mut stopped: Vec<String> =
        events(&cell, "preempted").iter().map(|event| event["job"].as_str().unwrap().to_string()).collect();
    stopped.sort();
    let least: Vec<String> = (OWN..2 * OWN).map(|at| format!("a{at:02}")).collect();
    assert_eq!(stopped, least, "each of the least important ones was stopped once");
    let over = events(&cell, "preemptionOver");
    assert!(over.iter().all(|event| event["reason"] == "it has its quota"), "{over:?}");

    let said = cell.ask(&["explain", &least[0]]).good();
    assert!(said.contains("Queue borrower may use 0 more of cpu"), "{said}");
    assert_eq!(cell.ask(&["cancel", "b0", "b1"]).code, 0);
    cell::wait("the borrower has what is left over", || counts(&cell, "a").get("running") == Some(&(OWN + 2)));
    cell::verify_log(&cell.stop());
}
