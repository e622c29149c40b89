//! Objects of Kubernetes that run: a Deployment is changed while it does, a Job ends, and what cannot be had is refused.

use crate::cell;

use cell::{Cell, SOON, verify_log, wait};
use serde_json::Value;
use std::collections::BTreeSet;

const NODES: usize = 8;
const JOB: &str = "apiVersion: batch/v1
kind: Job
metadata: {name: sums}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: sum
        command: [sh, -c, 'echo index $JOB_COMPLETION_INDEX']
        resources: {requests: {cpu: 10m}}
";

fn example() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/kubernetes-deployment.yaml");
    std::fs::read_to_string(path).unwrap()
}

fn output(cell: &Cell, job: &str, task: usize) -> String {
    let said = cell.ask(&["logs", job, "--task", &task.to_string()]);
    assert_eq!(said.code, 0, "{said:?}");
    said.out
}

fn pids(tasks: &[Value]) -> BTreeSet<u64> {
    tasks.iter().filter_map(|task| task["pid"].as_u64()).collect()
}

#[test]
fn a_deployment_runs_and_changes_and_a_job_ends() {
    let mut cell = Cell::start(&[]);
    cell.wait_for_nodes(NODES);
    let file = cell.put("deployment.yaml", example());
    let said = cell.ask(&["submit", &file, "--wait"]).good();
    assert!(said.contains("1 accepted"), "{said}");
    let before = cell.wait_for_tasks("greeter");
    assert_eq!(before.len(), 3);
    for (rank, task) in before.iter().enumerate() {
        let expected = format!("hello from {}\n", task["node"].as_str().unwrap());
        wait("it has said so", || output(&cell, "greeter", rank) == expected);
    }
    assert!(cell.ask(&["submit", &file]).good().contains("1 unchanged"), "the same again changes nothing");
    let changed = cell.put("deployment.yaml", example().replace("value: hello", "value: good day"));
    assert!(cell.ask(&["submit", "--update", &changed]).good().contains("1 updated"));
    cell.ask(&["rollout", "status", "-w", "greeter"]).good();
    let after = cell.wait_for_tasks("greeter");
    assert_eq!(after.len(), 3);
    assert!(pids(&before).is_disjoint(&pids(&after)), "each task was replaced");
    for rank in 0..3 {
        wait("it has said so", || output(&cell, "greeter", rank).starts_with("good day from "));
    }
    let job = cell.put("job.yaml", JOB);
    let said = cell.ask(&["submit", &job, "--wait"]).good();
    assert!(said.contains("sums is succeeded (3 succeeded)"), "{said}");
    cell.wait_until_all_succeeded(&["sums".to_string()], SOON);
    for rank in 0..3 {
        assert_eq!(output(&cell, "sums", rank), format!("index {rank}\n"));
    }
    cell.ask(&["rollout", "undo", "greeter", "-w"]).good();
    for rank in 0..3 {
        wait("it is as before", || output(&cell, "greeter", rank).starts_with("hello from "));
    }
    verify_log(&cell.stop());
}

#[test]
fn what_cannot_be_had_is_refused_by_its_field() {
    let cell = Cell::start(&["--nodes", "0"]);
    let classes = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n";
    let wrong = example().replace("        command: [sh, -c]\n", "        image: nginx\n");
    let wrong = wrong.replace("      containers:", "      volumes: [{name: data, emptyDir: {}}]\n      containers:");
    let file = cell.put("wrong.yaml", format!("{wrong}{classes}"));
    let said = cell.ask(&["submit", &file]);
    assert_eq!(said.code, 1, "{said:?}");
    for told in [
        "25:16: spec.template.spec.volumes: tasks have no volumes",
        "27:9: spec.template.spec.containers[0]: `command` is missing: ",
        "28:16: spec.template.spec.containers[0].image: tasks are programs of their node",
    ] {
        assert!(said.out.contains(&format!("{file}:{told}")), "no {told:?} in {}", said.out);
    }
    assert!(said.out.contains("1 accepted, 1 refused"), "the class stands: {said:?}");
    assert!(cell.ask(&["priority-classes"]).good().contains("high"));
    assert!(cell.states().is_empty());
}
