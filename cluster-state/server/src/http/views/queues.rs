//! Queues, cohorts, priority classes and topologies.

use ohm_cell::{Cell, QuotaNode, Topology};
use ohm_model::Amounts;
use ohm_model::resources::display;
use ohm_wire::api::{
    DomainView, PriorityClassList, PriorityClassView, QueueList, QueueResourceView, QueueView, TopologyList,
    TopologyView,
};
use std::collections::BTreeMap;

/// All queues and cohorts.
pub(crate) fn queues(cell: &Cell) -> QueueList {
    let mut queues: Vec<QueueView> = cell.quota().iter().map(|node| queue(cell, node)).collect();
    let mut jobs: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for job in cell.jobs().iter().filter(|job| !job.spec.queue.is_empty()) {
        let counts = jobs.entry(job.spec.queue.as_str()).or_default();
        match job.phase() {
            "pending" => counts[0] += 1,
            "running" => counts[1] += 1,
            "suspended" => counts[2] += 1,
            _ => {}
        }
    }
    for queue in &mut queues {
        [queue.pending, queue.running, queue.suspended] = jobs.get(queue.name.as_str()).copied().unwrap_or_default();
    }
    QueueList { queues }
}

fn queue(cell: &Cell, node: &QuotaNode) -> QueueView {
    let spec = &node.spec;
    QueueView {
        name: spec.name.clone(),
        kind: if spec.is_cohort { "Cohort" } else { "Queue" }.to_string(),
        parent: spec.parent.clone(),
        weight_milli: spec.weight_milli,
        admission_checks: spec.admission_checks.clone(),
        resources: spec.nominal.keys().map(|name| (name.clone(), resource(cell, node, name))).collect(),
        ..QueueView::default()
    }
}

fn resource(cell: &Cell, node: &QuotaNode, name: &str) -> QueueResourceView {
    let amount = |amounts: &Amounts| amounts.get(name).map(|&amount| display(name, amount));
    let column = cell.resources().find(name);
    let available = column.and_then(|column| cell.quota().available(&node.spec.name, column));
    QueueResourceView {
        nominal: amount(&node.spec.nominal).unwrap_or_default(),
        borrowing_limit: amount(&node.spec.borrowing_limit).unwrap_or_default(),
        lending_limit: amount(&node.spec.lending_limit).unwrap_or_default(),
        used: display(name, column.map_or(0, |column| node.used(column))),
        available: available.map_or_else(String::new, |available| display(name, available)),
    }
}

/// All priority classes.
pub(crate) fn priority_classes(cell: &Cell) -> PriorityClassList {
    let classes = cell.priority_classes().iter().map(|class| PriorityClassView {
        name: class.name.clone(),
        value: class.value,
        description: class.description.clone(),
    });
    PriorityClassList { priority_classes: classes.collect() }
}

/// All topologies.
pub(crate) fn topologies(cell: &Cell) -> TopologyList {
    TopologyList { topologies: cell.topologies().iter().map(|topology| topology_view(topology)).collect() }
}

fn topology_view(topology: &Topology) -> TopologyView {
    let spec = &topology.spec;
    let filled = topology.domains.iter().enumerate().filter(|(_, domain)| domain.nodes > 0);
    let mut domains: Vec<DomainView> = filled
        .map(|(number, domain)| DomainView {
            level: spec.levels.get(usize::from(domain.level)).cloned().unwrap_or_default(),
            values: topology.path(ohm_model::DomainId(number as u32)).into_iter().map(String::from).collect(),
            nodes: domain.nodes.into(),
        })
        .collect();
    // By path, so that each domain comes right after what it is in, whatever order the nodes came in.
    domains.sort_by(|a, b| a.values.cmp(&b.values));
    TopologyView { name: spec.name.clone(), levels: spec.levels.clone(), domains }
}
