//! What a group asks of the tasks around it, in the words of Kubernetes: `podAffinity` and `podAntiAffinity` of its
//! `affinity`, and `topologySpreadConstraints`.
//!
//! `matchLabelKeys` and `mismatchLabelKeys` say of a key: the same value as the group itself has, or another one. They
//! are read as the requirement that they come to (KEP-3243, KEP-3633).

use super::selectors::{AFFINITY_FIELDS, PREFERRED, REQUIRED, requirement};
use super::{At, Context, Fields};
use ohm_model::selector::Labels;
use ohm_model::{NeighbourTerm, Neighbours, Operator, Requirement, SpreadConstraint};

const TERM_FIELDS: &[&str] =
    &["labelSelector", "topologyKey", "namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"];
const SPREAD_FIELDS: &[&str] = &[
    "topologyKey",
    "maxSkew",
    "whenUnsatisfiable",
    "labelSelector",
    "matchLabelKeys",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
];
const WHEN_UNSATISFIABLE: [(&str, bool); 2] = [("DoNotSchedule", true), ("ScheduleAnyway", false)];
const POLICIES: [(&str, bool); 2] = [("Honor", true), ("Ignore", false)];

/// What the fields of a group with these labels ask of the tasks around it.
pub(crate) fn neighbours(cx: &mut Context, fields: &Fields<'_>, labels: &Labels) -> Option<Box<Neighbours>> {
    let spread = fields.list(cx, "topologySpreadConstraints", |cx, at| constraint(cx, at, labels));
    let mut asked = Neighbours { spread, ..Neighbours::default() };
    let affinity = fields.get("affinity").and_then(|at| Fields::open(cx, at, &[AFFINITY_FIELDS]));
    for (field, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
        let at = affinity.as_ref().and_then(|affinity| affinity.get(field));
        let Some(fields) = at.and_then(|at| Fields::open(cx, at, &[&[REQUIRED, PREFERRED]])) else { continue };
        let required = fields.list(cx, REQUIRED, |cx, at| term(cx, at, labels));
        let preferred = fields.list(cx, PREFERRED, |cx, at| weighted(cx, at, labels));
        if sign > 0 {
            asked.affinity = required
        } else {
            asked.anti_affinity = required
        }
        asked.preferred.extend(preferred.into_iter().map(|(weight, term)| (sign * weight, term)));
    }
    (!asked.is_empty()).then(|| Box::new(asked))
}

fn weighted(cx: &mut Context, at: At<'_>, labels: &Labels) -> Option<(i32, NeighbourTerm)> {
    let fields = Fields::open(cx, at, &[&["weight", "podAffinityTerm"]])?;
    let weight = fields.require(cx, "weight", "1 to 100")?.whole(cx, 1..=100)?;
    let at = fields.require(cx, "podAffinityTerm", "a term with `topologyKey`")?;
    Some((weight, term(cx, at, labels)?))
}

fn term(cx: &mut Context, at: At<'_>, labels: &Labels) -> Option<NeighbourTerm> {
    let fields = Fields::open(cx, at, &[TERM_FIELDS])?;
    let topology_key = fields.require(cx, "topologyKey", "a node label")?.text(cx)?;
    let mut selector = fields.get("labelSelector").and_then(|at| label_selector(cx, at));
    if let Some(selector) = &mut selector {
        selector.extend(of_keys(cx, &fields, ("matchLabelKeys", Operator::In), labels));
        selector.extend(of_keys(cx, &fields, ("mismatchLabelKeys", Operator::NotIn), labels));
    }
    Some(NeighbourTerm {
        selector,
        namespaces: fields.list(cx, "namespaces", |cx, at| at.text(cx)).into_iter().collect(),
        namespace_selector: fields.get("namespaceSelector").and_then(|at| label_selector(cx, at)),
        topology_key,
    })
}

fn constraint(cx: &mut Context, at: At<'_>, labels: &Labels) -> Option<SpreadConstraint> {
    let fields = Fields::open(cx, at, &[SPREAD_FIELDS])?;
    let topology_key = fields.require(cx, "topologyKey", "a node label")?.text(cx)?;
    let selector = fields.get("labelSelector").and_then(|at| label_selector(cx, at));
    let own = of_keys(cx, &fields, ("matchLabelKeys", Operator::In), labels);
    let selector = match selector {
        None if own.is_empty() => None,
        selector => Some(selector.unwrap_or_default().into_iter().chain(own).collect()),
    };
    let of =
        |cx: &mut Context, name, words: &[(&'static str, bool)]| fields.get(name).and_then(|at| at.choice(cx, words));
    Some(SpreadConstraint {
        topology_key,
        selector,
        max_skew: fields.whole(cx, "maxSkew", 1..=i64::from(u32::MAX)).unwrap_or(1),
        min_domains: fields.whole(cx, "minDomains", 1..=i64::from(u32::MAX)).unwrap_or(1),
        is_hard: of(cx, "whenUnsatisfiable", &WHEN_UNSATISFIABLE).unwrap_or(true),
        honours_affinity: of(cx, "nodeAffinityPolicy", &POLICIES).unwrap_or(true),
        honours_taints: of(cx, "nodeTaintsPolicy", &POLICIES).unwrap_or(false),
    })
}

/// Each of the keys in this field that the group has as a label, compared with its own value.
fn of_keys(
    cx: &mut Context,
    fields: &Fields<'_>,
    (field, operator): (&'static str, Operator),
    labels: &Labels,
) -> Vec<Requirement> {
    let keys = fields.list(cx, field, |cx, at| at.text(cx));
    let own = |key: String| Some(Requirement { operator, values: vec![labels.get(&key)?.clone()], key });
    keys.into_iter().filter_map(own).collect()
}

/// A `LabelSelector`: every label of `matchLabels`, and every one of `matchExpressions`.
pub(crate) fn label_selector(cx: &mut Context, at: At<'_>) -> Option<Vec<Requirement>> {
    let fields = Fields::open(cx, at, &[&["matchLabels", "matchExpressions"]])?;
    let labels = fields.labels(cx, "matchLabels");
    let is = |(key, value)| Requirement { key, operator: Operator::In, values: vec![value] };
    let mut requirements: Vec<Requirement> = labels.into_iter().map(is).collect();
    requirements.extend(fields.list(cx, "matchExpressions", requirement));
    Some(requirements)
}
