//! Rules for queues, cohorts and resource flavors.

use super::findings::{Findings, Violation, spec};
use super::group::toleration_rule;
use super::names;
use super::rest::{amount, check_amounts};
use crate::limits::{FLAVOR_PARTS_MAX, WEIGHT_MILLI_MAX};
use crate::path::FieldPath;
use ohm_model::queue::{FLAVOR_CHOICES_MAX, FLAVORS_MAX, RESOURCE_GROUPS_MAX, SHARE_RULES};
use ohm_model::resources::Amounts;
use ohm_model::subqueue::RESOURCE_WEIGHTS_MAX;
use ohm_model::{
    FlavorQuota, PreemptionPolicy, QueuePreemption, QueueSpec, ResourceFlavor, ResourceGroup, ResourceQuota,
    Scheduling, StopPolicy, Subqueue, UsageBasedOrder,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Makes the path of what is judged; called only where something is wrong.
type Place<'p> = &'p dyn Fn() -> FieldPath;

/// Everything that `queue`, or a cohort, breaks by itself.
pub fn queue(queue: &QueueSpec) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(queue);
    let parent = || spec().field(parent_field(queue));
    findings.expect(queue.parent != queue.name || queue.parent.is_empty(), parent, || {
        "names itself, which is a cycle; name the cohort above, or leave it out".to_string()
    });
    super::provisioning::admission_checks(&mut findings, queue);
    let weight = || spec().field("fairSharing").field("weight");
    findings.expect(queue.weight_milli <= WEIGHT_MILLI_MAX, weight, || {
        format!("must be at most {}", WEIGHT_MILLI_MAX / 1000)
    });
    short_form(&mut findings, queue);
    if !queue.resource_groups.is_empty() {
        resource_groups(&mut findings, queue);
    }
    preemption(&mut findings, queue);
    for (field, is_said) in [
        ("stopPolicy", queue.stop_policy != StopPolicy::None),
        ("maxWaitingJobs", queue.max_waiting_jobs > 0),
        ("minRuntimeSeconds", queue.min_runtime_seconds > 0),
        ("readyTimeout", queue.ready_timeout.is_some()),
        ("usageBasedOrder", queue.usage_based_order.is_some()),
        ("namespaces", queue.namespaces.is_some()),
    ] {
        let may = !queue.is_cohort || !is_said;
        findings.expect(may, || spec().field(field), || "a cohort holds no jobs; say it of its queues".to_string());
    }
    if let Some(field) = queue.ready_timeout.as_ref().and_then(|timeout| timeout.zero_field()) {
        let at = || spec().field("readyTimeout").field(field);
        findings.expect(false, at, || "must be at least 1".to_string());
    }
    if let Some(order) = &queue.usage_based_order {
        usage_based_order(&mut findings, order);
    }
    findings.violations
}

fn usage_based_order(findings: &mut Findings, order: &UsageBasedOrder) {
    let at = || spec().field("usageBasedOrder").field("resourceWeights");
    findings.expect(order.resource_weights.len() <= RESOURCE_WEIGHTS_MAX, at, || {
        format!("names {} resources; at most {RESOURCE_WEIGHTS_MAX} are possible", order.resource_weights.len())
    });
    if let Some(resource) = order.excessive() {
        let most = WEIGHT_MILLI_MAX / 1000;
        findings.expect(false, || at().field(resource), || format!("must be at most {most}"));
    }
}

/// Everything that a subqueue breaks by itself.
pub fn subqueue(subqueue: &Subqueue) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(subqueue);
    findings.expect(
        subqueue.queue != subqueue.name,
        || spec().field("queue"),
        || "names itself; queues and subqueues share their names, so one of the two needs another".to_string(),
    );
    let weight = || spec().field("fairSharing").field("weight");
    findings.expect(subqueue.weight_milli <= WEIGHT_MILLI_MAX, weight, || {
        format!("must be at most {}", WEIGHT_MILLI_MAX / 1000)
    });
    findings.violations
}

/// Words that no file can say are looked at, too.
fn preemption(findings: &mut Findings, queue: &QueueSpec) {
    let preemption = &queue.preemption;
    let at = || spec().field("preemption");
    findings.expect(!queue.is_cohort || *preemption == QueuePreemption::default(), at, || {
        "a cohort preempts nobody; say it of its queues".to_string()
    });
    let is_known = preemption.within_cluster_queue.is_within_queue();
    findings.expect(
        is_known,
        || at().field("withinClusterQueue"),
        || "must be `Never`, `LowerPriority` or `LowerOrNewerEqualPriority`".to_string(),
    );
    let is_known = preemption.reclaim_within_cohort.is_within_cohort();
    findings.expect(
        is_known,
        || at().field("reclaimWithinCohort"),
        || "must be `Never`, `LowerPriority` or `Any`".to_string(),
    );
    let is_known = preemption.outside_root.is_outside_root();
    findings.expect(is_known, || at().field("outsideRoot"), || "must be `Never` or `LowerPriority`".to_string());
    let borrows = preemption.borrow_within_cohort.lower_priority;
    let reclaims = preemption.reclaim_within_cohort != PreemptionPolicy::Never;
    findings.expect(
        !borrows || reclaims,
        || at().field("borrowWithinCohort").field("policy"),
        || {
            "is `LowerPriority` while `reclaimWithinCohort` is `Never`: let the queue reclaim, too, or say `Never`"
                .to_string()
        },
    );
}

/// Everything that `scheduling` breaks by itself.
pub fn scheduling(scheduling: &Scheduling) -> Vec<Violation> {
    let mut findings = Findings::new();
    if let Some(sharing) = &scheduling.fair_sharing {
        let strategies = || spec().field("fairSharing").field("preemptionStrategies");
        findings.expect(sharing.is_sound(), strategies, || {
            let words: Vec<String> = SHARE_RULES.iter().map(|(word, _)| format!("`{word}`")).collect();
            format!("must be one or both of {}, each once; leave the field out for both", words.join(" and "))
        });
    }
    findings.violations
}

fn parent_field(queue: &QueueSpec) -> &'static str {
    if queue.is_cohort { "parent" } else { "cohort" }
}

/// The fields of the short form.
fn short_fields(queue: &QueueSpec) -> [(&'static str, &Amounts); 3] {
    [
        ("nominalQuota", &queue.nominal),
        ("borrowingLimit", &queue.borrowing_limit),
        ("lendingLimit", &queue.lending_limit),
    ]
}

fn short_form(findings: &mut Findings, queue: &QueueSpec) {
    let parent = parent_field(queue);
    let [nominal, limits @ ..] = short_fields(queue);
    check_amounts(findings, nominal.1, &spec().field(nominal.0));
    for (field, limits) in limits {
        check_amounts(findings, limits, &spec().field(field));
        for name in limits.keys() {
            let place = || spec().field(field).field(name);
            findings.expect(!queue.parent.is_empty(), place, || format!("means nothing without a `{parent}`"));
            findings.expect(queue.nominal.contains_key(name), place, || {
                format!("`{name}` is not limited here: name it under `nominalQuota`, too")
            });
        }
    }
    for (name, &lent) in &queue.lending_limit {
        let own = queue.nominal.get(name).copied().unwrap_or(i64::MAX);
        findings.check(lendable(lent, own), || spec().field("lendingLimit").field(name));
    }
}

fn lendable(lent: i64, own: i64) -> Result<(), String> {
    if lent > own { Err("is more than there is to lend: at most the `nominalQuota`".to_string()) } else { Ok(()) }
}

fn resource_groups(findings: &mut Findings, queue: &QueueSpec) {
    for (field, amounts) in short_fields(queue) {
        findings.expect(
            amounts.is_empty(),
            || spec().field(field),
            || "is given beside `resourceGroups`; give quota in one of the two ways".to_string(),
        );
    }
    let groups = &queue.resource_groups;
    let at = || spec().field("resourceGroups");
    let number = groups.len();
    findings.expect(number <= RESOURCE_GROUPS_MAX, at, || {
        format!("holds {number} groups; at most {RESOURCE_GROUPS_MAX} may be")
    });
    let mut covered = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        let place = || at().item(index);
        covered_resources(findings, (index, group), &mut covered, &place);
        flavors(findings, group, &place);
    }
    // A cohort chooses nothing.
    let choices = groups.iter().fold(1, |choices: usize, group| choices.saturating_mul(group.flavors.len()));
    findings.expect(queue.is_cohort || choices <= FLAVOR_CHOICES_MAX, at, || {
        let most = FLAVOR_CHOICES_MAX;
        format!("the flavors of the groups can be combined in {choices} ways; at most {most} may be: name fewer")
    });
}

/// `covered` has the group of every resource of the groups before.
fn covered_resources<'g>(
    findings: &mut Findings,
    (index, group): (usize, &'g ResourceGroup),
    covered: &mut BTreeMap<&'g str, usize>,
    at: Place<'_>,
) {
    let resources = || at().field("coveredResources");
    let is_empty = group.covered_resources.is_empty();
    findings.expect(!is_empty, resources, || "must name at least one resource, such as `cpu`".to_string());
    for (item, resource) in group.covered_resources.iter().enumerate() {
        let field = || resources().item(item);
        findings.check(names::known_resource(resource), field);
        match covered.entry(resource) {
            Entry::Vacant(free) => {
                free.insert(index);
            }
            Entry::Occupied(group) => findings.expect(false, field, || match *group.get() == index {
                true => format!("names `{resource}` again; keep one"),
                false => format!("`{resource}` is in an earlier group, too; a resource is in one group only"),
            }),
        }
    }
}

fn flavors(findings: &mut Findings, group: &ResourceGroup, at: Place<'_>) {
    let flavors = || at().field("flavors");
    let number = group.flavors.len();
    findings.expect((1..=FLAVORS_MAX).contains(&number), flavors, || {
        format!("must hold 1 to {FLAVORS_MAX} flavors, holds {number}")
    });
    let covered: BTreeSet<&str> = group.covered_resources.iter().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    for (index, flavor) in group.flavors.iter().enumerate() {
        let place = || flavors().item(index);
        let name = &flavor.name;
        findings.expect(seen.insert(name), || place().field("name"), || format!("names `{name}` again; keep one"));
        flavor_quota(findings, flavor, &covered, &place);
    }
}

fn flavor_quota(findings: &mut Findings, flavor: &FlavorQuota, covered: &BTreeSet<&str>, at: Place<'_>) {
    let resources = || at().field("resources");
    let missing: Vec<String> = covered
        .iter()
        .filter(|resource| !flavor.resources.contains_key(**resource))
        .map(|resource| format!("`{resource}`"))
        .collect();
    findings.expect(missing.is_empty(), resources, || {
        format!("gives no quota for {}: each flavor gives it for all that its group covers", missing.join(", "))
    });
    for (resource, quota) in &flavor.resources {
        let place = || resources().field(resource);
        findings.expect(covered.contains(resource.as_str()), place, || {
            format!("`{resource}` is not covered by the group: name it under `coveredResources`, or leave it out")
        });
        resource_quota(findings, quota, &place);
    }
}

fn resource_quota(findings: &mut Findings, quota: &ResourceQuota, at: Place<'_>) {
    let limits = [("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)];
    findings.check(amount(quota.nominal), || at().field("nominalQuota"));
    for (field, limit) in limits {
        findings.check(limit.map_or(Ok(()), amount), || at().field(field));
    }
    let lent = quota.lending_limit.map_or(Ok(()), |lent| lendable(lent, quota.nominal));
    findings.check(lent, || at().field("lendingLimit"));
}

/// Everything that `flavor` breaks by itself.
pub fn resource_flavor(flavor: &ResourceFlavor) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(flavor);
    for (field, number) in [
        ("nodeLabels", flavor.node_labels.len()),
        ("nodeTaints", flavor.node_taints.len()),
        ("tolerations", flavor.tolerations.len()),
    ] {
        findings.expect(
            number <= FLAVOR_PARTS_MAX,
            || spec().field(field),
            || format!("holds {number}; at most {FLAVOR_PARTS_MAX} may be"),
        );
    }
    for (index, toleration) in flavor.tolerations.iter().enumerate() {
        findings.check(toleration_rule(toleration), || spec().field("tolerations").item(index));
    }
    findings.violations
}
