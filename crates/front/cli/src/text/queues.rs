//! Queues, cohorts, priority classes and topologies.

use super::amounts::short;
use super::table::Grid;
use super::{Style, counted};
use ohm_wire::api::{PriorityClassList, QueueList, TopologyList};

/// Queues and cohorts, one line per resource that is limited.
pub(crate) fn queues_table(list: &QueueList, style: &Style) -> String {
    if list.queues.is_empty() {
        return "no queues; a job without a queue is not limited\n".to_string();
    }
    let header = ["NAME", "KIND", "COHORT", "RESOURCE", "USED", "NOMINAL", "AVAILABLE", "PENDING", "RUNNING"];
    let mut grid = Grid::new(style, &header);
    for queue in &list.queues {
        let jobs = [queue.pending.to_string(), queue.running.to_string()];
        let first = [queue.name.clone(), queue.kind.clone(), queue.parent.clone()];
        let resources = queue.resources.iter().map(|(name, resource)| {
            let amounts = [&resource.used, &resource.nominal, &resource.available].map(|amount| short(name, amount));
            std::iter::once(name.clone()).chain(amounts).collect::<Vec<String>>()
        });
        let mut rows: Vec<Vec<String>> = resources.collect();
        if rows.is_empty() {
            rows.push(vec![String::new(); 4]);
        }
        for row in rows {
            grid.row(first.iter().cloned().chain(row).chain(jobs.iter().cloned()));
        }
    }
    grid.text()
}

/// Priority classes, one line each.
pub(crate) fn priority_classes_table(list: &PriorityClassList, style: &Style) -> String {
    if list.priority_classes.is_empty() {
        return "no priority classes; a job may name its priority by itself\n".to_string();
    }
    let mut grid = Grid::new(style, &["NAME", "VALUE", "DESCRIPTION"]);
    for class in &list.priority_classes {
        grid.row([class.name.clone(), class.value.to_string(), class.description.clone()]);
    }
    grid.text()
}

/// Topologies as trees.
pub(crate) fn topologies_text(list: &TopologyList) -> String {
    if list.topologies.is_empty() {
        return "no topologies\n".to_string();
    }
    let mut text = String::new();
    for topology in &list.topologies {
        text.push_str(&format!("{}: {}\n", topology.name, topology.levels.join(" > ")));
        for domain in &topology.domains {
            let indent = "  ".repeat(domain.values.len());
            let value = domain.values.last().map_or("", String::as_str);
            text.push_str(&format!("{indent}{value} ({})\n", counted(domain.nodes, "node")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;
    use ohm_wire::api::{DomainView, PriorityClassView, QueueResourceView, QueueView, TopologyView};

    #[test]
    fn queues_have_a_line_per_resource() {
        let resource = QueueResourceView {
            nominal: "4".into(),
            used: "1500m".into(),
            available: "2500m".into(),
            ..QueueResourceView::default()
        };
        let queue = QueueView {
            name: "research".into(),
            kind: "Queue".into(),
            parent: "all".into(),
            resources: [("cpu".to_string(), resource)].into(),
            pending: 3,
            running: 1,
            ..QueueView::default()
        };
        let cohort = QueueView { name: "all".into(), kind: "Cohort".into(), ..QueueView::default() };
        assert_eq!(
            queues_table(&QueueList { queues: vec![cohort, queue] }, &PLAIN),
            "\
NAME      KIND    COHORT  RESOURCE  USED  NOMINAL  AVAILABLE  PENDING  RUNNING
all       Cohort  -       -         -     -        -          0        0
research  Queue   all     cpu       1.5   4        2.5        3        1
"
        );
    }

    #[test]
    fn priority_classes_have_a_line_each() {
        let class = |name: &str, value, description: &str| PriorityClassView {
            name: name.into(),
            value,
            description: description.into(),
        };
        let list = PriorityClassList { priority_classes: vec![class("high", 70, "first"), class("low", -5, "")] };
        let table = priority_classes_table(&list, &PLAIN);
        assert_eq!(table, "NAME  VALUE  DESCRIPTION\nhigh  70     first\nlow   -5     -\n");
    }

    #[test]
    fn topologies_are_trees() {
        let domain = |values: &[&str], nodes| DomainView {
            level: String::new(),
            values: values.iter().map(|value| value.to_string()).collect(),
            nodes,
        };
        let topology = TopologyView {
            name: "default".into(),
            levels: vec!["block".into(), "rack".into()],
            domains: vec![domain(&["b1"], 3), domain(&["b1", "r1"], 2), domain(&["b1", "r2"], 1)],
        };
        assert_eq!(
            topologies_text(&TopologyList { topologies: vec![topology] }),
            "default: block > rack\n  b1 (3 nodes)\n    r1 (2 nodes)\n    r2 (1 node)\n"
        );
    }
}
