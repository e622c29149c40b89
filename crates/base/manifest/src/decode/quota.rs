//! Queues, cohorts and resource flavors, in the words of Kueue.

use super::cell::taint;
use super::preemption::preemption;
use super::selectors::toleration;
use super::{At, Context, Fields};
use ohm_model::queue::{FLAVOR_PREFERENCES, QUEUEING_STRATEGIES, STOP_POLICIES, WHEN_CAN};
use ohm_model::resources::Amounts;
use ohm_model::{
    AdmissionCheck, FlavorFungibility, FlavorQuota, QueueSpec, ReadyTimeout, ResourceFlavor, ResourceGroup,
    ResourceQuota, Subqueue, UsageBasedOrder, WhenCan,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Reads the `spec` of a queue.
pub(crate) fn queue(cx: &mut Context, name: String, spec: Option<At<'_>>) -> Option<QueueSpec> {
    let mut queue = QueueSpec { name, ..QueueSpec::default() };
    let Some(spec) = spec else { return Some(queue) };
    let besides = &[
        "admissionChecks",
        "admissionChecksStrategy",
        "flavorFungibility",
        "preemption",
        "queueingStrategy",
        "stopPolicy",
        "maxWaitingJobs",
        "minRuntimeSeconds",
        "readyTimeout",
        "usageBasedOrder",
        "namespaces",
    ];
    let fields = quota(cx, &mut queue, spec, "cohort", besides)?;
    queue.admission_checks = admission_checks(cx, &fields);
    let fungibility = fields.get("flavorFungibility").and_then(|at| flavor_fungibility(cx, at));
    queue.flavor_fungibility = fungibility.unwrap_or_default();
    queue.preemption = fields.get("preemption").and_then(|at| preemption(cx, at)).unwrap_or_default();
    queue.stop_policy = fields.get("stopPolicy").and_then(|at| at.choice(cx, &STOP_POLICIES)).unwrap_or_default();
    let most = fields.whole(cx, "maxWaitingJobs", 1..=i64::from(u32::MAX));
    queue.max_waiting_jobs = most.unwrap_or(0);
    queue.min_runtime_seconds = fields.whole(cx, "minRuntimeSeconds", 0..=i64::MAX).unwrap_or(0);
    queue.ready_timeout = fields.get("readyTimeout").and_then(|at| ready_timeout(cx, at)).map(Box::new);
    queue.usage_based_order = fields.get("usageBasedOrder").and_then(|at| usage_based_order(cx, at)).map(Box::new);
    let namespaces = fields.get("namespaces").map(|at| at.list(cx, |cx, at| at.text(cx)));
    queue.namespaces = namespaces.map(|names| Box::new(names.into_iter().collect()));
    let strategy = fields.get("queueingStrategy").and_then(|at| at.choice(cx, &QUEUEING_STRATEGIES));
    queue.queueing_strategy = strategy.unwrap_or_default();
    Some(queue)
}

fn ready_timeout(cx: &mut Context, at: At<'_>) -> Option<ReadyTimeout> {
    let known =
        &["timeoutSeconds", "recoveryTimeoutSeconds", "backoffBaseSeconds", "backoffMaxSeconds", "backoffLimit"];
    let fields = Fields::open(cx, at, &[known])?;
    fields.require(cx, "timeoutSeconds", "the time in which what is placed of a job must run, such as `300`")?;
    let timeout_seconds = fields.whole(cx, "timeoutSeconds", 1..=i64::MAX)?;
    let former = ReadyTimeout::of(timeout_seconds);
    let seconds = |cx: &mut Context, field, former| fields.whole(cx, field, 1..=i64::MAX).unwrap_or(former);
    Some(ReadyTimeout {
        recovery_timeout_seconds: seconds(cx, "recoveryTimeoutSeconds", former.recovery_timeout_seconds),
        backoff_base_seconds: seconds(cx, "backoffBaseSeconds", former.backoff_base_seconds),
        backoff_max_seconds: seconds(cx, "backoffMaxSeconds", former.backoff_max_seconds),
        backoff_limit: fields.whole(cx, "backoffLimit", 0..=i64::from(u32::MAX)),
        ..former
    })
}

/// The checks, also where they stand as in a ClusterQueue.
fn admission_checks(cx: &mut Context, fields: &Fields<'_>) -> Vec<AdmissionCheck> {
    let checks = fields.list(cx, "admissionChecks", admission_check);
    let Some(at) = fields.get("admissionChecksStrategy") else { return checks };
    if fields.get("admissionChecks").is_some() {
        at.rule(cx, "is given beside `admissionChecks`; name all checks in one of the two");
    }
    let Some(strategy) = Fields::open(cx, at, &[&["admissionChecks"]]) else { return checks };
    strategy.list(cx, "admissionChecks", admission_check)
}

/// A name alone, or with the flavors that it is for.
fn admission_check(cx: &mut Context, at: At<'_>) -> Option<AdmissionCheck> {
    if at.node.as_text().is_some() {
        return Some(AdmissionCheck::of(at.text(cx)?));
    }
    let fields = Fields::open(cx, at, &[&["name", "onFlavors"]])?;
    let name = fields.require(cx, "name", "the name of a ProvisioningClass").and_then(|at| at.text(cx));
    let on_flavors = fields.list(cx, "onFlavors", |cx, at| at.text(cx));
    Some(AdmissionCheck { name: name?, on_flavors })
}

fn flavor_fungibility(cx: &mut Context, at: At<'_>) -> Option<FlavorFungibility> {
    let fields = Fields::open(cx, at, &[&["whenCanBorrow", "whenCanPreempt", "preference"]])?;
    let former = FlavorFungibility::default();
    let when = |cx: &mut Context, field, former| fields.get(field).and_then(|at| when_can(cx, at)).unwrap_or(former);
    let preference = fields.get("preference").and_then(|at| at.choice(cx, &FLAVOR_PREFERENCES));
    Some(FlavorFungibility {
        when_can_borrow: when(cx, "whenCanBorrow", former.when_can_borrow),
        when_can_preempt: when(cx, "whenCanPreempt", former.when_can_preempt),
        preference: preference.unwrap_or(former.preference),
    })
}

/// Reads the `spec` of a cohort.
pub(crate) fn cohort(cx: &mut Context, name: String, spec: Option<At<'_>>) -> Option<QueueSpec> {
    let mut cohort = QueueSpec { name, is_cohort: true, ..QueueSpec::default() };
    let Some(spec) = spec else { return Some(cohort) };
    quota(cx, &mut cohort, spec, "parent", &[])?;
    Some(cohort)
}

/// Reads what queues and cohorts have in common; gives back the fields for the rest.
fn quota<'s>(
    cx: &mut Context,
    queue: &mut QueueSpec,
    spec: At<'s>,
    parent: &'static str,
    besides: &[&'static str],
) -> Option<Fields<'s>> {
    let known: &[&str] = &["nominalQuota", "borrowingLimit", "lendingLimit", "resourceGroups", "fairSharing"];
    let fields = Fields::open(cx, spec, &[&[parent], known, besides])?;
    let quotas = |cx: &mut Context, name| fields.get(name).map_or_else(Amounts::new, |at| at.quotas(cx));
    queue.nominal = quotas(cx, "nominalQuota");
    queue.borrowing_limit = quotas(cx, "borrowingLimit");
    queue.lending_limit = quotas(cx, "lendingLimit");
    if let Some(at) = fields.get("resourceGroups") {
        if at.is_empty_list() {
            at.rule(cx, "holds no group; add one, or leave the field out");
        }
        queue.resource_groups = at.list(cx, resource_group);
    }
    queue.parent = fields.text(cx, parent).unwrap_or_default();
    queue.weight_milli = weight(cx, &fields).unwrap_or(queue.weight_milli);
    Some(fields)
}

/// The weight among siblings, in thousandths.
fn weight(cx: &mut Context, fields: &Fields<'_>) -> Option<u64> {
    let sharing = Fields::open(cx, fields.get("fairSharing")?, &[&["weight"]])?;
    let at = sharing.get("weight")?;
    at.thousandths(cx).and_then(|weight| u64::try_from(weight).ok())
}

/// Reads the `spec` of a subqueue: its `queue`, and its weight, also as `weight` alone.
pub(crate) fn subqueue(cx: &mut Context, name: String, spec: At<'_>) -> Option<Subqueue> {
    let fields = Fields::open(cx, spec, &[&["queue", "weight", "fairSharing"]])?;
    let queue = fields.require(cx, "queue", "the name of the queue whose part it is").and_then(|at| at.text(cx));
    if let Some(at) = fields.get("weight").filter(|_| fields.get("fairSharing").is_some()) {
        at.rule(cx, "is given beside `fairSharing`; give the weight in one of the two");
    }
    let short = fields.get("weight").and_then(|at| at.thousandths(cx)).and_then(|weight| u64::try_from(weight).ok());
    let weight = short.or_else(|| weight(cx, &fields));
    Some(Subqueue { name, queue: queue?, weight_milli: weight.unwrap_or(1000) })
}

/// Reads the `spec` of a LocalQueue of Kueue.
pub(crate) fn local_queue(cx: &mut Context, name: String, spec: At<'_>) -> Option<Subqueue> {
    let fields = Fields::open(cx, spec, &[])?;
    let queue = fields.require(cx, "clusterQueue", "the name of its queue").and_then(|at| at.text(cx));
    let weight_milli = weight(cx, &fields).unwrap_or(1000);
    Some(Subqueue { name, queue: queue?, weight_milli })
}

fn usage_based_order(cx: &mut Context, at: At<'_>) -> Option<UsageBasedOrder> {
    let fields = Fields::open(cx, at, &[&["halfLifeSeconds", "resourceWeights"]])?;
    let wanted = "the time after which what was used counts half, such as `604800`; 0: only what is used now counts";
    fields.require(cx, "halfLifeSeconds", wanted)?;
    let half_life_seconds = fields.whole(cx, "halfLifeSeconds", 0..=i64::MAX)?;
    let weights = fields.get("resourceWeights");
    let wanted = "a map of resources to weights, such as `{cpu: 1, memory: 0}`";
    let weight = |cx: &mut Context, _: &str, at: At<'_>| at.thousandths(cx)?.try_into().ok();
    let resource_weights = weights.map(|at| at.map(cx, wanted, weight).into_iter().collect()).unwrap_or_default();
    Some(UsageBasedOrder { half_life_seconds, resource_weights })
}

fn when_can(cx: &mut Context, at: At<'_>) -> Option<WhenCan> {
    // Kueue's older words.
    if matches!(at.node.as_text(), Some("Borrow" | "Preempt")) {
        return Some(WhenCan::MayStopSearch);
    }
    at.choice(cx, &WHEN_CAN)
}

fn resource_group(cx: &mut Context, at: At<'_>) -> Option<ResourceGroup> {
    let fields = Fields::open(cx, at, &[&["coveredResources", "flavors"]])?;
    let covered = fields.require(cx, "coveredResources", "a list of resources, such as `[cpu, memory]`");
    let covered_resources = covered.map(|at| at.list(cx, |cx, at| at.text(cx)));
    let flavors = fields.require(cx, "flavors", "a list of `{name, resources}`, the one to be tried first first");
    let flavors = flavors.map(|at| at.list(cx, flavor_quota));
    Some(ResourceGroup { covered_resources: covered_resources?, flavors: flavors? })
}

fn flavor_quota(cx: &mut Context, at: At<'_>) -> Option<FlavorQuota> {
    let fields = Fields::open(cx, at, &[&["name", "resources"]])?;
    let name = fields.require(cx, "name", "the name of a ResourceFlavor").and_then(|at| at.text(cx));
    let list = fields.require(cx, "resources", "a list of `{name, nominalQuota}`, one for each covered resource")?;
    let mut resources = BTreeMap::new();
    list.list(cx, |cx, at| {
        let (resource, quota) = resource_quota(cx, at)?;
        match resources.entry(resource) {
            Entry::Vacant(free) => Some(*free.insert(quota)),
            Entry::Occupied(taken) => {
                at.rule(cx, format!("gives quota for `{}` again; keep one", taken.key()));
                None
            }
        }
    });
    Some(FlavorQuota { name: name?, resources })
}

fn resource_quota(cx: &mut Context, at: At<'_>) -> Option<(String, ResourceQuota)> {
    let fields = Fields::open(cx, at, &[&["name", "nominalQuota", "borrowingLimit", "lendingLimit"]])?;
    let name = fields.require(cx, "name", "the name of a covered resource").and_then(|at| at.text(cx));
    let nominal = fields.require(cx, "nominalQuota", "the own room, such as `8`; 0 where all is borrowed");
    let name = name?;
    // What cannot be read has been reported; the rules need to hear of it no more.
    let nominal = nominal?.quota(cx, &name).unwrap_or(i64::MAX);
    let limit = |cx: &mut Context, field| fields.get(field).and_then(|at| at.quota(cx, &name));
    let (borrowing_limit, lending_limit) = (limit(cx, "borrowingLimit"), limit(cx, "lendingLimit"));
    Some((name, ResourceQuota { nominal, borrowing_limit, lending_limit }))
}

/// Reads the `spec` of a resource flavor; one without a spec is of any machine.
pub(crate) fn resource_flavor(cx: &mut Context, name: String, spec: Option<At<'_>>) -> Option<ResourceFlavor> {
    let mut flavor = ResourceFlavor { name, ..ResourceFlavor::default() };
    let Some(spec) = spec else { return Some(flavor) };
    let fields = Fields::open(cx, spec, &[&["nodeLabels", "nodeTaints", "tolerations"]])?;
    flavor.node_labels = fields.labels(cx, "nodeLabels");
    flavor.node_taints = fields.list(cx, "nodeTaints", taint);
    flavor.tolerations = fields.list(cx, "tolerations", toleration);
    Some(flavor)
}
