//! Queues, cohorts, what holds for all of them, resource flavors, priority classes and topologies.

use super::words;
use ohm_cell::{Cell, NO_FLAVOR, QuotaNode, Topology};
use ohm_model::queue::{PREEMPTION_POLICIES, SHARE_RULES};
use ohm_model::resources::display;
use ohm_model::{
    FlavorQuota, Namespace, PreemptionPolicy, QueuePreemption, QueueStopEvent, ResourceFlavor, ResourceQuota,
    split_job_name,
};
use ohm_wire::api::{
    BorrowWithinCohortView, DomainView, EventView, FairSharingView, NamespaceList, NamespaceView, PriorityClassList,
    PriorityClassView, QueueFlavorView, QueueList, QueuePreemptionView, QueueResourceView, QueueView,
    ResourceFlavorList, ResourceFlavorView, SchedulingView, TopologyList, TopologyView,
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
        queue.subqueues = super::subqueues::subqueues(cell, &queue.name);
        [queue.pending, queue.running, queue.suspended] = jobs.get(queue.name.as_str()).copied().unwrap_or_default();
    }
    QueueList { queues }
}

/// A queue or cohort, without the numbers of its jobs.
pub(crate) fn queue(cell: &Cell, node: &QuotaNode) -> QueueView {
    let spec = &node.spec;
    let short_form = spec.nominal.iter().map(|(name, &nominal)| {
        let [borrowing_limit, lending_limit] =
            [&spec.borrowing_limit, &spec.lending_limit].map(|limits| limits.get(name).copied());
        let quota = ResourceQuota { nominal, borrowing_limit, lending_limit };
        (name.clone(), resource(cell, node, (NO_FLAVOR, name), &quota))
    });
    let flavors = spec.resource_groups.iter().flat_map(|group| &group.flavors);
    let on_flavors = spec.admission_checks.iter().filter(|check| !check.on_flavors.is_empty());
    let share = cell.quota().share(&spec.name, cell.resources());
    QueueView {
        name: spec.name.clone(),
        kind: if spec.is_cohort { "Cohort" } else { "Queue" }.to_string(),
        parent: spec.parent.clone(),
        weight_milli: spec.weight_milli,
        weighted_share: share.weighted(),
        dominant_resource: share.dominant().map(|name| cell.resources().name(name).to_string()).unwrap_or_default(),
        preemption: (!spec.is_cohort).then(|| preemption(&spec.preemption)),
        stop_policy: if spec.is_cohort { String::new() } else { spec.stop_policy.name().to_string() },
        max_waiting_jobs: spec.max_waiting_jobs,
        namespaces: spec.namespaces.as_ref().map(|namespaces| namespaces.iter().cloned().collect()),
        min_runtime_seconds: spec.min_runtime_seconds,
        usage_based_order: spec.usage_based_order.as_deref().map(super::subqueues::usage_based_order),
        ready_timeout: spec.ready_timeout.as_deref().map(super::ready::ready_timeout),
        admission_checks: spec.admission_checks.iter().map(|check| check.name.clone()).collect(),
        on_flavors: on_flavors.map(|check| (check.name.clone(), check.on_flavors.clone())).collect(),
        resources: short_form.collect(),
        flavors: flavors.map(|flavor| flavor_of_queue(cell, node, flavor)).collect(),
        ..QueueView::default()
    }
}

fn preemption(preemption: &QueuePreemption) -> QueuePreemptionView {
    let borrow = &preemption.borrow_within_cohort;
    let policy = if borrow.lower_priority { PreemptionPolicy::LowerPriority } else { PreemptionPolicy::Never };
    QueuePreemptionView {
        within_cluster_queue: words::of(&PREEMPTION_POLICIES, preemption.within_cluster_queue),
        reclaim_within_cohort: words::of(&PREEMPTION_POLICIES, preemption.reclaim_within_cohort),
        borrow_within_cohort: BorrowWithinCohortView {
            policy: words::of(&PREEMPTION_POLICIES, policy),
            max_priority_threshold: borrow.max_priority_threshold,
        },
        outside_root: words::of(&PREEMPTION_POLICIES, preemption.outside_root),
    }
}

/// An event about what a queue that is held takes from a job.
pub(super) fn of_stop(stop: &QueueStopEvent, view: EventView) -> EventView {
    let (name, reason) = (&stop.name, stop.policy.reason(&stop.queue));
    let (kind, what) = match stop.stopped {
        true => ("queueStopped", "is stopped, and waits"),
        false => ("quotaTakenBack", "has no quota reserved any more"),
    };
    let message = format!("job {name} {what}: {reason}");
    EventView { kind: kind.into(), message, job: name.clone(), reason, ..view }
}

/// What holds for all queues.
pub(crate) fn scheduling(cell: &Cell) -> SchedulingView {
    let sharing = cell.quota().scheduling().fair_sharing.as_ref();
    let rules = sharing.into_iter().flat_map(|sharing| &sharing.preemption_strategies);
    let preemption_strategies = rules.map(|rule| words::of(&SHARE_RULES, *rule)).collect();
    SchedulingView { fair_sharing: FairSharingView { enable: sharing.is_some(), preemption_strategies } }
}

fn flavor_of_queue(cell: &Cell, node: &QuotaNode, flavor: &FlavorQuota) -> QueueFlavorView {
    let resources = flavor.resources.iter();
    let resources = resources.map(|(name, quota)| (name.clone(), resource(cell, node, (&flavor.name, name), quota)));
    QueueFlavorView { name: flavor.name.clone(), resources: resources.collect() }
}

fn resource(cell: &Cell, node: &QuotaNode, (flavor, name): (&str, &str), quota: &ResourceQuota) -> QueueResourceView {
    let amount = |amount| display(name, amount);
    let limit = |limit: Option<i64>| limit.map(amount).unwrap_or_default();
    let column = cell.resources().find(name).and_then(|name| cell.quota().columns().find(flavor, name));
    QueueResourceView {
        nominal: amount(quota.nominal),
        borrowing_limit: limit(quota.borrowing_limit),
        lending_limit: limit(quota.lending_limit),
        used: amount(column.map_or(0, |column| node.used(column))),
        borrowed: amount(column.map_or(0, |column| cell.quota().borrowed(&node.spec.name, column))),
        available: limit(column.and_then(|column| cell.quota().available(&node.spec.name, column))),
    }
}

/// All resource flavors.
pub(crate) fn resource_flavors(cell: &Cell) -> ResourceFlavorList {
    ResourceFlavorList { resource_flavors: cell.quota().flavors().iter().map(resource_flavor).collect() }
}

fn resource_flavor(flavor: &ResourceFlavor) -> ResourceFlavorView {
    ResourceFlavorView {
        name: flavor.name.clone(),
        node_labels: flavor.node_labels.clone(),
        node_taints: flavor.node_taints.iter().map(ToString::to_string).collect(),
        tolerations: flavor.tolerations.iter().map(words::toleration).collect(),
    }
}

/// All namespaces, each with the number of its jobs.
pub(crate) fn namespaces(cell: &Cell) -> NamespaceList {
    let mut jobs: BTreeMap<&str, u64> = BTreeMap::new();
    cell.jobs().iter().for_each(|job| *jobs.entry(split_job_name(&job.spec.name).0).or_default() += 1);
    let view = |namespace: &Namespace| NamespaceView {
        name: namespace.name.clone(),
        labels: namespace.labels.clone(),
        jobs: jobs.get(namespace.name.as_str()).copied().unwrap_or(0),
    };
    NamespaceList { namespaces: ohm_cell::namespaces(cell).iter().map(view).collect() }
}

/// All priority classes.
pub(crate) fn priority_classes(cell: &Cell) -> PriorityClassList {
    let classes = cell.priority_classes().iter().map(|class| PriorityClassView {
        name: class.name.clone(),
        value: class.value,
        preemption_policy: if class.preempts { "PreemptLowerPriority" } else { "Never" }.to_string(),
        description: class.description.clone(),
        global_default: class.global_default,
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
