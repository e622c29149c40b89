//! The answer for people.

use crate::answer::{
    Answer, ClassRoom, Copies, DomainCount, GroupAnswer, IgnoredField, JobAnswer, JobOutcome, NodeVerdict, StartAnswer,
    Totals,
};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Spaces between two columns.
const GAP: usize = 2;

/// The answer as text: each job with where it stands or why not, then the cell before and after, then copies.
pub fn to_text(answer: &Answer) -> String {
    let mut text = String::new();
    for job in &answer.jobs {
        write_job(&mut text, job);
    }
    write_comparison(&mut text, answer);
    for copies in answer.count_fit.iter().flatten() {
        write_copies(&mut text, copies);
    }
    write_ignored(&mut text, &answer.ignored);
    text
}

fn write_job(text: &mut String, job: &JobAnswer) {
    let tasks = job.tasks;
    let _ = write!(text, "{}: {}, {} of {} tasks are placed", job.name, job.outcome.name(), tasks.after, tasks.asked);
    if tasks.before > 0 {
        let _ = write!(text, " ({} before", tasks.before);
        let _ = if tasks.lost > 0 { write!(text, ", {} of them displaced)", tasks.lost) } else { write!(text, ")") };
    }
    text.push('\n');
    let is_unmet =
        matches!(job.outcome, JobOutcome::Pending | JobOutcome::Parked | JobOutcome::Preempting | JobOutcome::Evicted);
    if let Some(reason) = job.reason.as_ref().filter(|reason| job.explanation.first() != Some(reason)) {
        let _ = writeln!(text, "  {reason}");
    }
    for line in job.explanation.iter().filter(|_| is_unmet) {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(start) = &job.expected_start {
        let StartAnswer { within_seconds, waits_for } = start;
        let _ = writeln!(text, "  It starts within {within_seconds} s if nothing else comes before it.");
        let _ = writeln!(text, "  By then {} over (activeDeadlineSeconds, counted from now).", are(waits_for));
    }
    for victim in &job.preempts {
        let breaks = if victim.violates_budget { ", which breaks a disruption budget" } else { "" };
        let _ = writeln!(text, "  it stops {} ({}){breaks}", victim.job, victim.reason);
    }
    for group in job.groups.iter().filter(|group| !group.placements.is_empty()) {
        write_group(text, group, job.groups.len() > 1);
    }
    for group in job.groups.iter().filter(|group| !group.nodes.is_empty()) {
        write_verdicts(text, group, job.groups.len() > 1);
    }
    text.push('\n');
}

fn write_verdicts(text: &mut String, group: &GroupAnswer, named: bool) {
    let mut table = Table::default();
    let of = if named { format!("NODE FOR {}", group.name) } else { "NODE".to_string() };
    table.row([of, "FITS".into(), "FILTER".into(), "REASON".into()]);
    for NodeVerdict { node, fits, reason, .. } in &group.nodes {
        let (filter, message) = reason.as_ref().map_or(("-", "-"), |miss| (miss.filter, miss.message.as_str()));
        table.row([node.as_str(), if *fits { "yes" } else { "no" }, filter, message].map(str::to_string));
    }
    table.write(text, 2);
}

/// The first of these names, and that they are.
fn are(names: &[String]) -> String {
    const NAMED: usize = 5;
    match names {
        [] => "they are".into(),
        [name] => format!("{name} is"),
        [first @ .., last] if names.len() <= NAMED => format!("{} and {last} are", first.join(", ")),
        _ => format!("{} and {} more are", names[..NAMED].join(", "), names.len() - NAMED),
    }
}

fn write_group(text: &mut String, group: &GroupAnswer, named: bool) {
    let indent = if named {
        let _ = writeln!(text, "  group {}", group.name);
        4
    } else {
        2
    };
    if let Some(spares) = &group.spares {
        let held: u32 = spares.held.iter().map(|place| place.count).sum();
        let nodes: Vec<&str> = spares.held.iter().map(|place| place.node.as_str()).collect();
        let place = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
        let _ = writeln!(text, "{:indent$}spares {held}/{}{place}", "", spares.asked);
    }
    if group.domains.is_empty() {
        let mut table = Table::default();
        group.placements.iter().for_each(|place| table.row([place.node.clone(), format!("× {}", place.count)]));
        table.write(text, indent);
        return;
    }
    let mut table = Table::default();
    write_tree(&mut table, &group.domains, 0);
    table.write(text, indent);
}

/// Domains as a tree: each level one step further in, with the tasks below it.
fn write_tree(table: &mut Table, domains: &[DomainCount], level: usize) {
    let value = |domain: &DomainCount| domain.values.get(level).cloned();
    for branch in domains.chunk_by(|a, b| value(a) == value(b)) {
        let Some(name) = branch.first().and_then(value) else { continue };
        let tasks: u32 = branch.iter().map(|domain| domain.count).sum();
        table.row([format!("{}{name}", "  ".repeat(level)), format!("× {tasks}")]);
        write_tree(table, branch, level + 1);
    }
}

/// The cell before and after, side by side.
fn write_comparison(text: &mut String, answer: &Answer) {
    let Answer { before, after, .. } = answer;
    let mut table = Table::default();
    table.row(["", "BEFORE", "AFTER"].map(str::to_string));
    table.row(["nodes used".to_string(), nodes(before), nodes(after)]);
    let names = before.resources.keys().chain(after.resources.keys());
    let mut names: Vec<&String> = names.collect();
    names.sort();
    names.dedup();
    for name in names {
        table.row([name.clone(), taken(before, name), taken(after, name)]);
    }
    for job in &answer.jobs {
        let tasks = |count: u32| format!("{count} of {} tasks", job.tasks.asked);
        table.row([job.name.clone(), tasks(job.tasks.before), tasks(job.tasks.after)]);
    }
    table.write(text, 0);
}

fn nodes(totals: &Totals) -> String {
    format!("{} of {}", totals.nodes_used, totals.nodes)
}

fn taken(totals: &Totals, name: &str) -> String {
    match totals.resources.get(name) {
        Some(taken) => format!("{} of {} ({} %)", taken.allocated, taken.allocatable, taken.percent),
        None => "-".to_string(),
    }
}

fn write_copies(text: &mut String, copies: &Copies) {
    let least = if copies.at_least { "at least " } else { "" };
    let noun = if copies.copies == 1 { "copy" } else { "copies" };
    let verb = if copies.copies == 1 { "fits" } else { "fit" };
    let _ = writeln!(text, "\n{least}{} more {noun} of {} {verb}", copies.copies, copies.job);
    if let Some(reason) = &copies.reason {
        let _ = writeln!(text, "  the next one: {reason}");
    }
    for group in &copies.groups {
        let mut table = Table::default();
        table.row([format!("LEFT FOR {}", group.name), "NODES".into(), "TASKS".into(), "LIMITED BY".into()]);
        for class in &group.classes {
            let cells = [class.nodes.to_string(), class.tasks.to_string(), limits(class)];
            let [nodes, tasks, limits] = cells;
            table.row([format!("like {}", class.like), nodes, tasks, limits]);
        }
        table.write(text, 2);
    }
}

/// What is not honoured: a line for each field of a kind of objects, with the first object that has it.
fn write_ignored(text: &mut String, ignored: &[IgnoredField]) {
    let mut lines: Vec<(&IgnoredField, usize)> = Vec::new();
    let mut known: BTreeMap<(&str, &str, Option<&str>), usize> = BTreeMap::new();
    for field in ignored {
        let line = *known.entry((field.kind, &field.field, field.reason.as_deref())).or_insert(lines.len());
        match lines.get_mut(line) {
            Some((_, count)) => *count += 1,
            None => lines.push((field, 1)),
        }
    }
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nnot honoured, though it bears on where pods go (--strict refuses it):");
    let mut table = Table::default();
    table.row(["OBJECT", "FIELD", "REASON"].map(str::to_string));
    for (field, count) in lines {
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        let reason = field.reason.clone().unwrap_or_else(|| "-".to_string());
        table.row([format!("{} {}{more}", field.kind, field.name), field.field.clone(), reason]);
    }
    table.write(text, 2);
}

/// What keeps nodes of one kind from taking a task.
fn limits(class: &ClassRoom) -> String {
    let excluded = &class.excluded;
    let mut parts: Vec<String> = Vec::new();
    let mut part = |what: &str, nodes: u32| {
        if nodes > 0 {
            parts.push(format!("{what} on {nodes}"));
        }
    };
    excluded.resource.iter().for_each(|(name, nodes)| part(name, *nodes));
    excluded.taint.iter().for_each(|(taint, nodes)| part(&format!("taint {taint}"), *nodes));
    part("nodeSelector", excluded.node_selector);
    part("node affinity", excluded.affinity);
    part("topology domain", excluded.topology_domain);
    excluded.port.iter().for_each(|(port, nodes)| part(&format!("port {port}"), *nodes));
    part("limit per node", excluded.limit_per_node);
    part("pod affinity", excluded.pod_affinity);
    part("pod anti-affinity", excluded.pod_anti_affinity);
    part("pod topology spread", excluded.pod_topology_spread);
    part("kept room", excluded.held);
    class.unavailable.iter().for_each(|(name, nodes)| part(name, *nodes));
    if parts.is_empty() { "-".to_string() } else { parts.join(", ") }
}

/// Columns that line up.
#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn write(&self, text: &mut String, indent: usize) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                let padding = width - cell.chars().count() + GAP;
                line.push_str(cell);
                line.push_str(&" ".repeat(padding));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}
