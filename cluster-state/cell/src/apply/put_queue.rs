//! Queues and cohorts are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::apply::steps::offers::offer_all;
use crate::cell::Cell;
use crate::policy::admission::recheck;
use crate::policy::ready::retime_jobs;
use crate::policy::stops::stop_jobs;
use crate::policy::subqueues::settle_order;
use crate::policy::waiting::recount;
use crate::state::flavors::{NO_FLAVOR, QUOTA_COLUMNS_MAX, flavored};
use crate::state::quota::DEPTH_MAX;
use crate::state::requests::direct_usage;
use crate::state::resources::RESOURCES_MAX;
use ohm_model::provisioning::ADMISSION_CHECKS_MAX;
use ohm_model::queue::{FLAVOR_CHOICES_MAX, FLAVORS_MAX, RESOURCE_GROUPS_MAX};
use ohm_model::subqueue::{RESOURCE_WEIGHTS_MAX, WEIGHT_MILLI_MAX};
use ohm_model::{
    Amounts, FlavorQuota, Outcome, PreemptionPolicy, QueuePreemption, QueueSpec, QueueingStrategy, Refusal,
    ResourceGroup, ResourceQuota, StopPolicy, UsageBasedOrder,
};
use std::collections::BTreeSet;

pub(crate) fn put_queue(tx: &mut Tx<'_>, spec: &QueueSpec) -> Result<Outcome, Refusal> {
    check_queue(tx, spec)?;
    let amounts = [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit];
    let short = amounts.into_iter().flat_map(Amounts::keys).map(|resource| (NO_FLAVOR, resource.as_str()));
    for (flavor, resource) in short.chain(flavored(spec).map(|(flavor, resource, _)| (flavor, resource))) {
        let resource = tx.resources.intern(resource).expect("check_queue found room for it");
        tx.quota.columns.intern(flavor, resource);
    }
    let former = tx.quota.get(&spec.name).map(|known| offered_by(&known.spec)).unwrap_or_default();
    let known = tx.quota.get(&spec.name).map(|known| (known.spec.stop_policy, known.spec.max_waiting_jobs > 0));
    let (stopped, bounds) = known.unwrap_or_default();
    let timeout = tx.quota.get(&spec.name).and_then(|known| known.spec.ready_timeout.clone());
    tx.quota.put(spec.clone());
    if bounds != (spec.max_waiting_jobs > 0) {
        recount(tx);
    }
    rebuild(tx);
    recheck(tx, &spec.name);
    stop_jobs(tx, spec, stopped);
    settle_order(tx, spec);
    if timeout != spec.ready_timeout {
        retime_jobs(tx, spec);
    }
    if former != offered_by(spec) {
        offer_all(tx, |queue| queue == spec.name);
    }
    // A smaller quota takes spares first.
    let spares = |job: &&std::sync::Arc<crate::state::jobs::Job>| job.groups.iter().any(|group| group.spares > 0);
    tx.applied.jobs.extend(tx.cell.jobs.iter().filter(spares).map(|job| job.id));
    Ok(Outcome::Done)
}

/// What of a queue decides which flavors it offers.
fn offered_by(spec: &QueueSpec) -> Vec<(Vec<String>, Vec<String>)> {
    let names = |group: &ResourceGroup| group.flavors.iter().map(|flavor| flavor.name.clone()).collect();
    spec.resource_groups.iter().map(|group| (group.covered_resources.clone(), names(group))).collect()
}

/// Counts everything anew, by the queues as they are from now on.
fn rebuild(tx: &mut Tx<'_>) {
    tx.preemptions.forget_turns();
    let direct = direct_usage(tx);
    let cell = &mut *tx.cell;
    cell.quota.rebuild(&cell.resources, &direct);
}

fn check_queue(cell: &Cell, spec: &QueueSpec) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(spec)?;
    let negative = [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit];
    if negative.iter().any(|amounts| amounts.values().any(|amount| *amount < 0)) {
        return invalid("spec", "amounts are never negative".into());
    }
    if negative.iter().any(|amounts| amounts.len() > RESOURCES_MAX) {
        return invalid("spec", format!("at most {RESOURCES_MAX} resources are possible"));
    }
    check_resource_groups(spec)?;
    let covered = spec.resource_groups.iter().flat_map(|group| &group.covered_resources);
    let named: BTreeSet<&String> = negative.iter().flat_map(|amounts| amounts.keys()).chain(covered).collect();
    if !cell.resources.has_room_for_jobs(named.into_iter()) {
        return invalid("spec", "the cell has no column left for resources that no node has".into());
    }
    if !cell.quota.columns.has_room_for(spec, &cell.resources) {
        return invalid(
            "spec.resourceGroups",
            format!("at most {QUOTA_COLUMNS_MAX} pairs of flavor and resource are possible"),
        );
    }
    check_admission_checks(spec)?;
    if spec.is_cohort && spec.queueing_strategy != QueueingStrategy::default() {
        return invalid("spec.queueingStrategy", "a cohort holds no jobs; say it of its queues".into());
    }
    check_preemption(spec)?;
    let of_queues = [
        ("spec.stopPolicy", spec.stop_policy != StopPolicy::None),
        ("spec.maxWaitingJobs", spec.max_waiting_jobs > 0),
        ("spec.minRuntimeSeconds", spec.min_runtime_seconds > 0),
        ("spec.readyTimeout", spec.ready_timeout.is_some()),
        ("spec.usageBasedOrder", spec.usage_based_order.is_some()),
        ("spec.namespaces", spec.namespaces.is_some()),
    ];
    if let Some((field, _)) = of_queues.into_iter().find(|(_, is_said)| spec.is_cohort && *is_said) {
        return invalid(field, "a cohort holds no jobs; say it of its queues".into());
    }
    if let Some(field) = spec.ready_timeout.as_ref().and_then(|timeout| timeout.zero_field()) {
        return invalid(&format!("spec.readyTimeout.{field}"), "must be at least 1".into());
    }
    if let Some(order) = &spec.usage_based_order {
        check_order(order)?;
    }
    check_name(cell, spec)?;
    check_parent(cell, spec)
}

fn check_order(order: &UsageBasedOrder) -> Result<(), Refusal> {
    let problem = match order.excessive() {
        _ if order.resource_weights.len() > RESOURCE_WEIGHTS_MAX => {
            format!("at most {RESOURCE_WEIGHTS_MAX} resources are possible")
        }
        Some(resource) => format!("the weight of {resource} must be at most {}", WEIGHT_MILLI_MAX / 1000),
        None => return Ok(()),
    };
    Err(Refusal::Invalid { field: "spec.usageBasedOrder.resourceWeights".into(), problem })
}

/// Queues, cohorts and subqueues share their names, and a cohort exists where it is named.
fn check_name(cell: &Cell, spec: &QueueSpec) -> Result<(), Refusal> {
    if cell.subqueues.get(&spec.name).is_some() {
        let hint = "it is a subqueue; queues, cohorts and subqueues share their names, so choose another".to_string();
        return Err(Refusal::NameTaken { kind: "queue".into(), name: spec.name.clone(), hint });
    }
    if cell.quota.get(&spec.name).is_some_and(|known| known.spec.is_cohort != spec.is_cohort) {
        let hint = "queues and cohorts share their names; choose another".to_string();
        return Err(Refusal::NameTaken { kind: "queue".into(), name: spec.name.clone(), hint });
    }
    Ok(())
}

/// A parent that is not there yet is a cohort without quota from then on.
fn check_parent(cell: &Cell, spec: &QueueSpec) -> Result<(), Refusal> {
    let field = if spec.is_cohort { "spec.parent" } else { "spec.cohort" };
    let invalid = |problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    if spec.parent.is_empty() {
        return Ok(());
    }
    if cell.subqueues.get(&spec.parent).is_some() {
        return invalid(format!("`{}` is a subqueue; name a cohort", spec.parent));
    }
    if spec.parent == spec.name || cell.quota.get(&spec.parent).is_some_and(|parent| !parent.spec.is_cohort) {
        return match spec.is_cohort && spec.parent == spec.name {
            true => invalid("a cohort can't be below itself, which is a cycle".into()),
            false => invalid(format!("`{}` is a queue; name a cohort", spec.parent)),
        };
    }
    let mut at = spec.parent.as_str();
    while let Some(node) = cell.quota.get(at) {
        if at == spec.name {
            return invalid(format!("a cohort can't be below itself: {} is a cycle", cycle(cell, spec)));
        }
        at = &node.spec.parent;
    }
    if cell.quota.depth_under(&spec.name, &spec.parent) > DEPTH_MAX {
        return invalid(format!("more than {DEPTH_MAX} levels of cohorts would be above a queue"));
    }
    Ok(())
}

/// The way from a cohort up to itself.
fn cycle(cell: &Cell, spec: &QueueSpec) -> String {
    let (mut names, mut at) = (vec![spec.name.as_str()], spec.parent.as_str());
    while let Some(node) = cell.quota.get(at).filter(|_| at != spec.name) {
        names.push(at);
        at = &node.spec.parent;
    }
    names.push(at);
    names.join(" < ")
}

/// What documents keep, too: whoever opens a round relies on it.
fn check_admission_checks(spec: &QueueSpec) -> Result<(), Refusal> {
    let invalid = |field: String, problem: String| Err(Refusal::Invalid { field, problem });
    let (field, checks) = ("spec.admissionChecks", &spec.admission_checks);
    let distinct: BTreeSet<&String> = checks.iter().map(|check| &check.name).collect();
    if distinct.len() != checks.len() || distinct.len() > ADMISSION_CHECKS_MAX {
        return invalid(field.into(), format!("up to {ADMISSION_CHECKS_MAX} different ones are possible"));
    }
    if spec.is_cohort && !distinct.is_empty() {
        return invalid(field.into(), "a cohort has none; name them in its queues".into());
    }
    for (index, check) in checks.iter().enumerate() {
        if let Err((at, problem)) = spec.judge_on_flavors(check) {
            return invalid(format!("{field}[{index}].onFlavors[{at}]"), problem);
        }
    }
    Ok(())
}

/// What documents keep, too: preemption relies on it.
fn check_preemption(spec: &QueueSpec) -> Result<(), Refusal> {
    let preemption = &spec.preemption;
    let borrows = preemption.borrow_within_cohort.lower_priority;
    let (field, problem) = if spec.is_cohort && *preemption != QueuePreemption::default() {
        ("spec.preemption", "a cohort preempts nobody; say it of its queues")
    } else if !preemption.within_cluster_queue.is_within_queue() {
        ("spec.preemption.withinClusterQueue", "all jobs of the own queue are never preempted")
    } else if !preemption.reclaim_within_cohort.is_within_cohort() {
        ("spec.preemption.reclaimWithinCohort", "who is newer counts within a queue only")
    } else if !preemption.outside_root.is_outside_root() {
        ("spec.preemption.outsideRoot", "from outside the root only what is more important may stop jobs of the queue")
    } else if borrows && preemption.reclaim_within_cohort == PreemptionPolicy::Never {
        ("spec.preemption.borrowWithinCohort", "who borrows preempts only where `reclaimWithinCohort` is not Never")
    } else {
        return Ok(());
    };
    Err(Refusal::Invalid { field: field.into(), problem: problem.into() })
}

/// What documents keep, too: whoever reads the tree relies on it.
fn check_resource_groups(spec: &QueueSpec) -> Result<(), Refusal> {
    let groups = &spec.resource_groups;
    let mut seen = BTreeSet::new();
    let mut once = |group: &ResourceGroup| group.covered_resources.iter().all(|name| seen.insert(name.clone()));
    let gives_all = |flavor: &FlavorQuota| {
        let own = |group: &&ResourceGroup| group.flavors.iter().any(|known| std::ptr::eq(known, flavor));
        let covered = groups.iter().filter(own).flat_map(|group| &group.covered_resources);
        covered.collect::<BTreeSet<_>>() == flavor.resources.keys().collect::<BTreeSet<_>>()
    };
    let are_named_once = |group: &ResourceGroup| {
        let names: BTreeSet<&String> = group.flavors.iter().map(|flavor| &flavor.name).collect();
        names.len() == group.flavors.len() && (1..=FLAVORS_MAX).contains(&names.len())
    };
    let is_sound = |quota: &ResourceQuota| {
        let limits = [Some(quota.nominal), quota.borrowing_limit, quota.lending_limit];
        limits.into_iter().flatten().all(|amount| amount >= 0)
    };
    let short =
        [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit].into_iter().any(|amounts| !amounts.is_empty());
    let choices = groups.iter().map(|group| group.flavors.len()).try_fold(1usize, usize::checked_mul);
    let problem = if groups.len() > RESOURCE_GROUPS_MAX {
        format!("at most {RESOURCE_GROUPS_MAX} are possible")
    } else if short && !groups.is_empty() {
        "quota is given by them or by `nominalQuota` and its limits, not by both".to_string()
    } else if !groups.iter().all(&mut once) || groups.iter().any(|group| group.covered_resources.is_empty()) {
        "each covers one resource or more, and no resource is covered twice".to_string()
    } else if !groups.iter().all(are_named_once) {
        format!("each has 1 to {FLAVORS_MAX} different flavors")
    } else if !groups.iter().flat_map(|group| &group.flavors).all(gives_all) {
        "each flavor gives quota for the resources that its group covers, and for no others".to_string()
    } else if !flavored(spec).all(|(_, _, quota)| is_sound(&quota)) {
        "amounts are never negative".to_string()
    } else if !spec.is_cohort && choices.is_none_or(|choices| choices > FLAVOR_CHOICES_MAX) {
        format!("at most {FLAVOR_CHOICES_MAX} ways to combine flavors of all groups are possible")
    } else {
        return Ok(());
    };
    Err(Refusal::Invalid { field: "spec.resourceGroups".into(), problem })
}

pub(crate) fn remove_queue(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let Some(known) = tx.quota.get(name).filter(|known| !known.is_implicit()) else {
        return Err(Refusal::NotFound { kind: "queue".into(), name: name.into() });
    };
    if !known.spec.is_cohort
        && let Some(job) = tx.jobs.iter().find(|job| job.spec.queue == name)
    {
        let (state, hint) = (format!("named by job {}", job.spec.name), "remove what uses it first".to_string());
        return Err(Refusal::WrongState { kind: "queue".into(), name: name.into(), state, hint });
    }
    if let Some(subqueue) = tx.subqueues.iter().find(|subqueue| subqueue.queue == name) {
        let (state, hint) = (format!("named by subqueue {}", subqueue.name), "remove what uses it first".to_string());
        return Err(Refusal::WrongState { kind: "queue".into(), name: name.into(), state, hint });
    }
    let now_ms = tx.now_ms;
    tx.subqueues.keep_book(name, None, now_ms);
    tx.quota.remove(name);
    rebuild(tx);
    Ok(Outcome::Done)
}
