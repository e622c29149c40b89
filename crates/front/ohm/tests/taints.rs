//! Taints that people put on nodes under real tasks: what one drives away is one loss, and what tolerates it for a while
//! stays so long.

use crate::cell;

use cell::tasks::{attempt, node, told};
use cell::{Cell, verify_log, wait};
use serde_json::Value;

const HOSTS: [&str; 3] = ["b1-r1-h1", "b1-r1-h2", "b1-r1-h3"];

/// Somewhat less than half of the cpu of a node, in thousandths: two tasks fit, a third does not.
fn nearly_half(cell: &Cell) -> u64 {
    let cpu = cell.json(&["node", "show", HOSTS[0]])["capacity"]["cpu"].as_str().unwrap().to_string();
    let milli =
        cpu.strip_suffix('m').map_or_else(|| cpu.parse::<u64>().unwrap() * 1000, |milli| milli.parse().unwrap());
    milli * 45 / 100
}

fn job(name: &str, spec: &str, cpu_milli: u64, script: &str) -> String {
    let head = format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\n");
    format!("{head}spec: {{{spec}, requests: {{cpu: {cpu_milli}m}}, command: [sh, -c, '{script}']}}\n")
}

fn kinds(story: &[Value]) -> Vec<&str> {
    story.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[test]
fn what_a_taint_drives_away_is_one_loss_although_one_task_takes_its_grace() {
    let mut cell = Cell::start(&["--shape", "1x1x3"]);
    cell.wait_for_nodes(3);
    let cpu = nearly_half(&cell);
    let filler = format!("nodeSelector: {{kubernetes.io/hostname: {}}}", HOSTS[2]);
    cell.submit(&job("filler", &filler, cpu, "exec sleep 1000"));
    cell.wait_for_tasks("filler");
    // Odd ranks ignore the polite signal.
    let script = "[ $((OHM_RANK % 2)) = 0 ] || trap : TERM; while :; do sleep 0.1; done";
    let spec = "class: tas, count: 4, retries: 0, terminationGracePeriodSeconds: 4, \
                affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
                [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}}";
    cell.submit(&job("gang", spec, cpu, script));
    let before = cell.wait_for_tasks("gang");
    let victims = |name: &str| before.iter().filter(|task| node(task) == name).count();
    let tainted = HOSTS.into_iter().find(|name| victims(name) == 2).expect("two stand together");
    cell.ask(&["node", "taint", tainted, "work=disk:NoExecute"]).good();
    assert!(cell.ask(&["node", "show", tainted]).good().contains("work=disk:NoExecute (put there"));
    wait("the gang is given up", || !told(&cell, "gang", &["repairFailed"]).is_empty());
    let story = told(&cell, "gang", &["stopping", "ended", "tasksLost", "repairCommitted", "repaired", "repairFailed"]);
    let until = kinds(&story).iter().position(|kind| *kind == "repairFailed").unwrap();
    let first = &kinds(&story)[..until];
    assert_eq!(first.iter().filter(|kind| **kind == "ended").count(), 2, "all of the loss was there: {story:?}");
    assert!(!first.contains(&"repaired") && !first.contains(&"repairCommitted"), "no half of it: {story:?}");
    cell.ask(&["node", "untaint", tainted, "work"]).good();
    wait("it runs again, whole", || {
        let tasks = cell.tasks("gang");
        tasks.iter().all(|task| task["state"] == "running" && attempt(task) == 2)
    });
    verify_log(&cell.stop());
}

#[test]
fn what_tolerates_a_taint_for_a_while_leaves_when_that_is_over() {
    let mut cell = Cell::start(&["--shape", "1x1x2"]);
    cell.wait_for_nodes(2);
    let brief = "class: service, count: 2, maxPerNode: 1, \
                 tolerations: [{key: work, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]";
    cell.submit(&job("brief", brief, 10, "exec sleep 1000"));
    cell.wait_for_tasks("brief");
    let stopped = |cell: &Cell| told(cell, "brief", &["stopping"]).len();
    cell.ask(&["node", "taint", HOSTS[0], "work:NoExecute"]).good();
    std::thread::sleep(std::time::Duration::from_secs(3));
    cell.ask(&["node", "untaint", HOSTS[0], "work:NoExecute"]).good();
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(stopped(&cell), 0, "the taint went before");
    cell.ask(&["node", "taint", HOSTS[1], "work:NoExecute"]).good();
    wait("its time is over", || stopped(&cell) == 1);
    let put = told(&cell, "", &["nodeTainted"]).last().unwrap()["atMs"].as_u64().unwrap();
    let left = told(&cell, "brief", &["stopping"])[0]["atMs"].as_u64().unwrap();
    assert!((5_000..8_000).contains(&(left - put)), "after {} ms", left - put);
    verify_log(&cell.stop());
}
