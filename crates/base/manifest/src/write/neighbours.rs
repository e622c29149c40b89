//! What a group asks of the tasks around it, written.

use super::expression::{Expression, is_default};
use ohm_model::{GroupSpec, NeighbourTerm, Requirement, SpreadConstraint};
use serde::Serialize;
use std::collections::BTreeSet;

/// `podAffinity` or `podAntiAffinity`.
#[derive(Serialize)]
pub(super) struct PodAffinity<'j> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "Vec::is_empty")]
    required: Vec<PodTerm<'j>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "Vec::is_empty")]
    preferred: Vec<WeightedTerm<'j>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WeightedTerm<'j> {
    weight: u32,
    pod_affinity_term: PodTerm<'j>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodTerm<'j> {
    topology_key: &'j str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<LabelSelector<'j>>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    namespaces: &'j BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace_selector: Option<LabelSelector<'j>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LabelSelector<'j> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Expression<'j>>,
}

/// One of `topologySpreadConstraints`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpreadDocument<'j> {
    topology_key: &'j str,
    max_skew: u32,
    when_unsatisfiable: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<LabelSelector<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_domains: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    node_affinity_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "is_default")]
    node_taints_policy: Option<&'static str>,
}

/// What is to be near, and what is not.
pub(super) fn affinity(group: &GroupSpec) -> (Option<PodAffinity<'_>>, Option<PodAffinity<'_>>) {
    let Some(asked) = &group.neighbours else { return (None, None) };
    (pod_affinity(&asked.affinity, &asked.preferred, 1), pod_affinity(&asked.anti_affinity, &asked.preferred, -1))
}

/// The required terms, and of those that are preferred the ones whose weight has this sign.
fn pod_affinity<'j>(
    required: &'j [NeighbourTerm],
    preferred: &'j [(i32, NeighbourTerm)],
    sign: i32,
) -> Option<PodAffinity<'j>> {
    let preferred = preferred.iter().filter(|(weight, _)| weight.signum() == sign);
    let weighted =
        |(weight, term): &'j (i32, _)| WeightedTerm { weight: weight.unsigned_abs(), pod_affinity_term: written(term) };
    let written =
        PodAffinity { required: required.iter().map(written).collect(), preferred: preferred.map(weighted).collect() };
    (!written.required.is_empty() || !written.preferred.is_empty()).then_some(written)
}

fn written(term: &NeighbourTerm) -> PodTerm<'_> {
    PodTerm {
        topology_key: &term.topology_key,
        label_selector: term.selector.as_deref().map(selector),
        namespaces: &term.namespaces,
        namespace_selector: term.namespace_selector.as_deref().map(selector),
    }
}

fn selector(requirements: &[Requirement]) -> LabelSelector<'_> {
    LabelSelector { match_expressions: requirements.iter().map(Expression::from).collect() }
}

/// How the group is spread over domains.
pub(super) fn spread(group: &GroupSpec) -> Vec<SpreadDocument<'_>> {
    let constraints = group.neighbours.iter().flat_map(|asked| &asked.spread);
    constraints.map(constraint).collect()
}

fn constraint(constraint: &SpreadConstraint) -> SpreadDocument<'_> {
    SpreadDocument {
        topology_key: &constraint.topology_key,
        max_skew: constraint.max_skew,
        when_unsatisfiable: if constraint.is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        label_selector: constraint.selector.as_deref().map(selector),
        min_domains: (constraint.min_domains != 1).then_some(constraint.min_domains),
        node_affinity_policy: (!constraint.honours_affinity).then_some("Ignore"),
        node_taints_policy: constraint.honours_taints.then_some("Honor"),
    }
}
