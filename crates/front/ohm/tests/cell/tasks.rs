//! Tasks as `ohm job -o json` shows them, and what was told of them.

use super::Cell;
use super::processes::Process;
use serde_json::Value;

/// Where a task stands.
pub fn node(task: &Value) -> String {
    task["node"].as_str().unwrap().to_string()
}

/// The rack of a node of `ohm up`.
pub fn rack(node: &str) -> &str {
    node.rsplit_once('-').unwrap().0
}

/// The attempt at a task.
pub fn attempt(task: &Value) -> u32 {
    task["incarnation"].as_u64().unwrap() as u32
}

/// The place, attempt and pid of a task: equal while nobody touches it.
pub fn identity(task: &Value) -> (String, u32, u64) {
    (node(task), attempt(task), task["pid"].as_u64().unwrap())
}

/// The process of a task.
pub fn process(task: &Value) -> Process {
    Process::find(task["pid"].as_u64().unwrap() as u32).expect("a live task")
}

/// The address of a node.
pub fn address(cell: &Cell, node: &str) -> String {
    cell.json(&["node", "show", node])["address"].as_str().unwrap().to_string()
}

/// Everything that was told of one kind, oldest first; only of `job` unless that is empty.
pub fn told(cell: &Cell, job: &str, kinds: &[&str]) -> Vec<Value> {
    let mut words = vec!["events", "--limit", "100000"];
    if !job.is_empty() {
        words.extend(["--job", job]);
    }
    let mut events = cell.json(&words)["events"].as_array().unwrap().clone();
    events.retain(|event| kinds.iter().any(|kind| event["kind"] == **kind));
    events
}
