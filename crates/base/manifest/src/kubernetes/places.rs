//! Where an object of Kubernetes has what a job is found to be wrong in.

use crate::path::{FieldPath, Step};
use crate::tree::{Node, Value};

/// Fields of a group that stand in the container.
const OF_CONTAINER: [&str; 7] =
    ["args", "env", "livenessProbe", "ports", "readinessProbe", "startupProbe", "workingDir"];
/// Fields of a group that stand in the `spec` of the pod.
const OF_POD: [&str; 5] =
    ["affinity", "nodeSelector", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints"];

/// The field of the object at `root` that says what a job has at `path`.
pub(crate) fn place(root: &Node<'_>, path: &FieldPath) -> FieldPath {
    let is_set = root.get("kind").and_then(Node::as_text) == Some("JobSet");
    let spec = || FieldPath::root().field("spec");
    let template = |group: usize| match is_set {
        true => spec().field("replicatedJobs").item(group).field("template").field("spec").field("template"),
        false => spec().field("template"),
    };
    let named = |step: &Step| match step {
        Step::Field(name) => name.clone(),
        Step::Item(_) => String::new(),
    };
    let steps: Vec<String> = path.0.iter().map(named).collect();
    let words: Vec<&str> = steps.iter().map(String::as_str).collect();
    let (of, rest) = match (words.as_slice(), path.0.as_slice()) {
        (["spec", "queue"], _) => {
            return FieldPath::root().field("metadata").field("labels").field(super::QUEUE_LABEL);
        }
        (["spec", "priorityClassName"], _) => return template(0).field("spec").field("priorityClassName"),
        (["spec", "groups", "", of, ..], [_, _, Step::Item(group), _, rest @ ..]) => ((*group, *of), rest),
        _ => return path.clone(),
    };
    let (group, name) = of;
    let pod = || template(group).field("spec");
    let container = || pod().field("containers").item(0);
    let mut found = match name {
        "command" => return word(root, &container(), rest),
        "limits" | "requests" => container().field("resources").field(name),
        "labels" => template(group).field("metadata").field("labels"),
        "topology" => template(group).field("metadata").field("annotations"),
        name if OF_CONTAINER.contains(&name) => container().field(name),
        name if OF_POD.contains(&name) => pod().field(name),
        _ => return path.clone(),
    };
    found.0.extend(rest.iter().cloned());
    found
}

/// A word of the program, which stands in `command` or behind it in `args`.
fn word(root: &Node<'_>, container: &FieldPath, rest: &[Step]) -> FieldPath {
    let command = container.field("command");
    let Some(Step::Item(index)) = rest.first() else { return command };
    let at = command.0.iter().try_fold(root, |node, step| match (step, &node.value) {
        (Step::Field(name), _) => node.get(name),
        (Step::Item(index), Value::List(items)) => items.get(*index),
        (Step::Item(_), _) => None,
    });
    let words = match at.map(|node| &node.value) {
        Some(Value::List(items)) => items.len(),
        _ => 0,
    };
    match index.checked_sub(words) {
        Some(index) => container.field("args").item(index),
        None => command.item(*index),
    }
}
