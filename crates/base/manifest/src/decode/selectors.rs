//! Node affinity and tolerations, in the words of Kubernetes.

use super::{At, Context, Fields};
use ohm_model::{Operator, Requirement, SelectorTerm, TaintEffect, Toleration, TolerationOperator};

/// What `affinity` may hold.
pub(super) const AFFINITY_FIELDS: &[&str] = &["nodeAffinity", "podAffinity", "podAntiAffinity"];

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const OPERATORS: [(&str, Operator); 6] = [
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
    ("Gt", Operator::Gt),
    ("Lt", Operator::Lt),
];

pub(super) const EFFECTS: [(&str, TaintEffect); 3] = [
    ("NoSchedule", TaintEffect::NoSchedule),
    ("PreferNoSchedule", TaintEffect::PreferNoSchedule),
    ("NoExecute", TaintEffect::NoExecute),
];

/// What a group's `affinity` asks of nodes.
#[derive(Default)]
pub(crate) struct NodeAffinity {
    pub(crate) required: Vec<SelectorTerm>,
    pub(crate) preferred: Vec<(u32, SelectorTerm)>,
}

pub(crate) fn node_affinity(cx: &mut Context, at: At<'_>) -> Option<NodeAffinity> {
    let fields = Fields::open(cx, at, &[AFFINITY_FIELDS])?;
    let at = fields.get("nodeAffinity")?;
    let fields = Fields::open(cx, at, &[&[REQUIRED, PREFERRED]])?;
    let required = fields.get(REQUIRED).and_then(|at| required_terms(cx, at)).unwrap_or_default();
    Some(NodeAffinity { required, preferred: fields.list(cx, PREFERRED, preferred_term) })
}

pub(super) fn required_terms(cx: &mut Context, at: At<'_>) -> Option<Vec<SelectorTerm>> {
    let fields = Fields::open(cx, at, &[&["nodeSelectorTerms"]])?;
    let terms = fields.require(cx, "nodeSelectorTerms", "a list of terms, of which one must match")?;
    match terms.is_empty_list() {
        true if cx.foreign => return Some(vec![SelectorTerm::default()]),
        true => terms.rule(cx, "has no term, so that no node would match; add one, or leave the field out"),
        false => {}
    }
    Some(terms.list(cx, |cx, at| term(cx, at, true)))
}

pub(super) fn preferred_term(cx: &mut Context, at: At<'_>) -> Option<(u32, SelectorTerm)> {
    let fields = Fields::open(cx, at, &[&["weight", "preference"]])?;
    let weight = fields.require(cx, "weight", "1 to 100")?.whole(cx, 1..=100)?;
    let preference = fields.require(cx, "preference", "a term with `matchExpressions`")?;
    let preference = term(cx, preference, false)?;
    Some((weight, preference))
}

/// Which nodes are preferred is asked by class: only what is required may speak of names.
fn term(cx: &mut Context, at: At<'_>, may_name: bool) -> Option<SelectorTerm> {
    let known: &[&str] = if may_name { &["matchExpressions", "matchFields"] } else { &["matchExpressions"] };
    let fields = Fields::open(cx, at, &[known])?;
    let requirements = fields.list(cx, "matchExpressions", requirement);
    let of_name = if may_name { fields.list(cx, "matchFields", requirement) } else { Vec::new() };
    Some(SelectorTerm { requirements, fields: of_name })
}

pub(super) fn requirement(cx: &mut Context, at: At<'_>) -> Option<Requirement> {
    let fields = Fields::open(cx, at, &[&["key", "operator", "values"]])?;
    let key = fields.require(cx, "key", "a label key")?.text(cx);
    let operator = fields.require(cx, "operator", "In, NotIn, Exists, DoesNotExist, Gt or Lt")?;
    let operator = operator.choice(cx, &OPERATORS);
    let values = fields.list(cx, "values", |cx, at| at.text(cx));
    Some(Requirement { key: key?, operator: operator?, values })
}

pub(crate) fn toleration(cx: &mut Context, at: At<'_>) -> Option<Toleration> {
    let fields = Fields::open(cx, at, &[&["key", "operator", "value", "effect", "tolerationSeconds"]])?;
    let operators = [
        ("Equal", TolerationOperator::Equal),
        ("Exists", TolerationOperator::Exists),
        ("Gt", TolerationOperator::Gt),
        ("Lt", TolerationOperator::Lt),
    ];
    let operator = match fields.get("operator") {
        Some(at) => at.choice(cx, &operators)?,
        None => TolerationOperator::Equal,
    };
    // Kubernetes writes the empty text for "every effect".
    let effect = fields.get("effect").filter(|at| at.node.as_text() != Some(""));
    let effect = match effect {
        Some(at) => Some(at.choice(cx, &EFFECTS)?),
        None => None,
    };
    let key = fields.text(cx, "key").unwrap_or_default();
    let value = fields.text(cx, "value").unwrap_or_default();
    // As in Kubernetes, less than no time is no time.
    let seconds = fields.whole::<i64>(cx, "tolerationSeconds", i64::MIN..=i64::MAX);
    let toleration_seconds = seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
    Some(Toleration { key, operator, value, effect, toleration_seconds })
}
