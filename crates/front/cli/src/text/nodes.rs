//! Nodes.

use super::amounts::of_total;
use super::table::Grid;
use super::times::{age, length, utc};
use super::{Style, counted};
use ohm_wire::api::{HeldView, NodeConditionView, NodeDetail, NodeList, NodeSummary};
use std::collections::BTreeSet;

/// All nodes, with what is free of the resources that any of them has.
pub(crate) fn nodes_table(list: &NodeList, style: &Style) -> String {
    if list.nodes.is_empty() {
        return "no nodes; `ohm agent` on a machine makes it one\n".to_string();
    }
    let first = ["cpu", "memory", "pods"];
    let others: BTreeSet<&str> = list.nodes.iter().flat_map(|node| node.capacity.keys()).map(String::as_str).collect();
    let others = others.into_iter().filter(|name| !first.contains(name));
    let resources: Vec<&str> = first.into_iter().chain(others).collect();
    let heads: Vec<String> = resources.iter().map(|name| format!("{} FREE", name.to_uppercase())).collect();
    let header: Vec<&str> = ["NAME", "STATE", "RUNS"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut grid = Grid::new(style, &header);
    for node in &list.nodes {
        let amounts = resources.iter().map(|name| amount(node, name));
        grid.row([node.name.clone(), state(node), node.runs.to_string()].into_iter().chain(amounts));
    }
    grid.text()
}

fn amount(node: &NodeSummary, name: &str) -> String {
    let amounts = node.free.get(name).zip(node.capacity.get(name));
    amounts.map_or_else(String::new, |(free, capacity)| of_total(name, free, capacity))
}

/// What is wrong with it, or that it is ready.
fn state(node: &NodeSummary) -> String {
    let mut words = vec![node.health.as_str()];
    words.extend(node.cordoned.then_some("cordoned"));
    words.extend((!node.put_taints.is_empty()).then_some("tainted"));
    let drain = node.drain.is_some().then_some(if node.runs > 0 { "draining" } else { "drained" });
    words.extend(drain);
    let brought = node.brought.as_ref().map(|brought| brought.state.as_str());
    words.extend(brought.filter(|state| ["releasing", "released"].contains(state)));
    words.extend((node.held_until_ms > 0).then_some("held down"));
    words.extend(node.conditions.iter().map(|condition| condition.kind.as_str()));
    if words.len() > 1 && words[0] == "ready" {
        words.remove(0);
    }
    words.join(", ")
}

/// For whom it was brought, and when it goes back.
fn brought(node: &NodeSummary, style: &Style) -> String {
    let Some(brought) = &node.brought else { return String::new() };
    let by = if brought.class.is_empty() { String::new() } else { format!("by {} ", brought.class) };
    let whom = match (brought.job.as_str(), brought.kept) {
        ("", true) => "for a job that is over; for no others".to_string(),
        ("", false) => "for a job that is over".to_string(),
        (job, true) => format!("for job {job}, and kept for it"),
        (job, false) => format!("for job {job}"),
    };
    let goes = match brought.state.as_str() {
        "idle" => {
            let left = length(brought.idle_until_ms.saturating_sub(style.now_ms));
            format!("; idle, goes back in {left}")
        }
        "releasing" => "; its class is asked to take it back".to_string(),
        "released" => "; taken back".to_string(),
        _ => String::new(),
    };
    format!("{by}{whom}{goes}")
}

fn held_down(node: &NodeSummary, style: &Style) -> String {
    match node.held_until_ms {
        0 => String::new(),
        until => {
            let left = length(until.saturating_sub(style.now_ms));
            format!("until {} ({left} more); it fell silent {} times in 10 min", utc(until), node.flaps)
        }
    }
}

fn conditions(node: &NodeSummary, style: &Style) -> String {
    let line = |condition: &NodeConditionView| {
        let since = age(style.now_ms, condition.since_ms);
        let why = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
        format!("{} ({}) for {since}{why}", condition.kind, condition.action)
    };
    node.conditions.iter().map(line).collect::<Vec<_>>().join("\n            ")
}

/// All taints; of those that people put there since when.
fn taints(node: &NodeSummary, style: &Style) -> String {
    let line = |taint: &String| match node.put_taints.iter().find(|put| put.taint == *taint) {
        Some(put) => format!("{taint} (put there {} ago)", age(style.now_ms, put.since_ms)),
        None => taint.clone(),
    };
    node.taints.iter().map(line).collect::<Vec<_>>().join("\n            ")
}

/// Why tasks have to leave the node, as the head of the list of those that have not yet.
fn why_leaving(node: &NodeSummary, style: &Style) -> String {
    let Some(drain) = &node.drain else {
        let driving = node.conditions.iter().filter(|condition| condition.action == "drain");
        let kinds: Vec<&str> = driving.map(|condition| condition.kind.as_str()).collect();
        return format!("Leaving because of {}", kinds.join(", "));
    };
    let since = age(style.now_ms, drain.since_ms);
    let within = match drain.deadline_ms.saturating_sub(style.now_ms) {
        _ if drain.deadline_ms == 0 => String::new(),
        0 => ", its deadline has passed".to_string(),
        left_ms => format!(", {} s are left", left_ms.div_ceil(1000)),
    };
    format!("Draining for {since}{within}")
}

/// What is left on a node that has to be left, job by job.
fn leaving(node: &NodeDetail, style: &Style) -> String {
    if node.leaving.is_empty() && (node.summary.drain.is_none() || node.summary.runs == 0) {
        return String::new();
    }
    let mut text = format!("\n{}:\n", why_leaving(&node.summary, style));
    for job in &node.leaving {
        let stopping = if job.stopping > 0 { format!(", {} moving", job.stopping) } else { String::new() };
        text.push_str(&format!("  {}: {} to leave{stopping}\n", job.job, job.staying));
        if !job.reason.is_empty() {
            text.push_str(&format!("    {}\n", job.reason));
        }
    }
    text
}

/// Room that is held for tasks which don't stand there, job by job.
fn held(node: &NodeDetail) -> String {
    let line = |held: &HeldView| {
        let what = match held.purpose.as_str() {
            "repair" => "lost with another node".to_string(),
            "move" => "on the move".to_string(),
            "spare" => "it may lose (spare)".to_string(),
            other => format!("to come ({other})"),
        };
        format!("  {}: {} of group {} {what}\n", held.job, counted(held.tasks, "task"), held.group)
    };
    let lines: String = node.held.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nRoom held for:\n{lines}") }
}

/// Everything about a node.
pub(crate) fn node_text(node: &NodeDetail, style: &Style) -> String {
    let summary = &node.summary;
    let labels =
        summary.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n            ");
    let free = |(name, capacity): (&String, &String)| {
        let free = summary.free.get(name).map_or("0", String::as_str);
        format!("{name} {} free", of_total(name, free, capacity))
    };
    let ports = node.ports.join(", ");
    let lines = [
        ("Node", summary.name.clone()),
        ("State", state(summary)),
        ("Held down", held_down(summary, style)),
        ("Conditions", conditions(summary, style)),
        ("Brought", brought(summary, style)),
        ("Address", summary.address.clone()),
        ("Room", summary.capacity.iter().map(free).collect::<Vec<_>>().join("\n            ")),
        ("Taints", taints(summary, style)),
        ("Labels", labels),
        ("Ports", ports),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    let mut text: String = lines.map(|(name, value)| format!("{:<12}{value}\n", format!("{name}:"))).collect();
    text.push_str(&leaving(node, style));
    text.push_str(&held(node));
    if node.run_list.is_empty() {
        return text + "\nno runs\n";
    }
    let mut grid = Grid::new(style, &["JOB", "GROUP", "TASK", "RUN", "STATE", "PID", "AGE"]);
    for run in &node.run_list {
        grid.row([
            run.job.clone(),
            run.group.clone(),
            run.task.to_string(),
            run.incarnation.to_string(),
            run.state.clone(),
            if run.pid == 0 { String::new() } else { run.pid.to_string() },
            age(style.now_ms, run.started_ms.max(run.placed_ms)),
        ]);
    }
    text.push_str(&format!("\n{}", grid.text()));
    if node.runs_omitted > 0 {
        text.push_str(&format!("and {}\n", counted(node.runs_omitted, "other run")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::{NodeRunView, PutTaintView};

    fn node(name: &str, health: &str, cordoned: bool) -> NodeSummary {
        let amounts = |cpu: &str, memory: &str| {
            [("cpu", cpu), ("memory", memory), ("pods", "110")]
                .map(|(name, amount)| (name.into(), amount.into()))
                .into()
        };
        NodeSummary {
            name: name.into(),
            health: health.into(),
            cordoned,
            runs: 2,
            labels: [("rack".to_string(), "r1".to_string())].into(),
            capacity: amounts("4", "8Gi"),
            free: amounts("3500m", "7Gi"),
            ..NodeSummary::default()
        }
    }

    #[test]
    fn nodes_are_listed_with_what_is_free() {
        let mut gpu = node("n2", "ready", true);
        gpu.capacity.insert("nvidia.com/gpu".into(), "8".into());
        gpu.free.insert("nvidia.com/gpu".into(), "7500m".into());
        let list = NodeList { nodes: vec![node("n1", "ready", false), gpu], total: 2, next: String::new() };
        assert_eq!(
            nodes_table(&list, &PLAIN),
            "\
NAME  STATE     RUNS  CPU FREE  MEMORY FREE  PODS FREE  NVIDIA.COM/GPU FREE
n1    ready     2     3.5/4     7Gi/8Gi      110/110    -
n2    cordoned  2     3.5/4     7Gi/8Gi      110/110    7.5/8
"
        );
    }

    #[test]
    fn a_node_is_told_with_its_runs() {
        let run = NodeRunView {
            job: "a".into(),
            group: "main".into(),
            task: 3,
            incarnation: 1,
            state: "running".into(),
            pid: 77,
            placed_ms: PLAIN.now_ms - 5000,
            started_ms: 0,
        };
        let ill = NodeConditionView {
            kind: "disk-pressure".into(),
            action: "no-new-work".into(),
            since_ms: PLAIN.now_ms - 90_000,
            message: "2.1 % of the space of /data is free".into(),
        };
        let summary = NodeSummary {
            conditions: vec![ill],
            held_until_ms: PLAIN.now_ms + 42_000,
            flaps: 3,
            taints: vec!["gpu:NoSchedule".into(), "work=disk:NoExecute".into()],
            put_taints: vec![PutTaintView { taint: "work=disk:NoExecute".into(), since_ms: PLAIN.now_ms - 90_000 }],
            ..node("n1", "suspect", true)
        };
        let detail = NodeDetail { summary, run_list: vec![run], ports: vec!["80".into()], ..NodeDetail::default() };
        assert_eq!(
            node_text(&detail, &PLAIN),
            "\
Node:       n1
State:      suspect, cordoned, tainted, held down, disk-pressure
Held down:  until 1970-01-12 13:47:22 (42s more); it fell silent 3 times in 10 min
Conditions: disk-pressure (no-new-work) for 90s: 2.1 % of the space of /data is free
Room:       cpu 3.5/4 free
            memory 7Gi/8Gi free
            pods 110/110 free
Taints:     gpu:NoSchedule
            work=disk:NoExecute (put there 90s ago)
Labels:     rack=r1
Ports:      80

JOB  GROUP  TASK  RUN  STATE    PID  AGE
a    main   3     1    running  77   5s
"
        );
    }
}
