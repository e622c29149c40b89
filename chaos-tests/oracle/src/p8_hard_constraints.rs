//! P8: every hard constraint holds for what was placed, whatever the planner thought: the node is there and open,
//! labels and taints (those of its conditions and of a hold-down too) let the group stand, no more than its limit per
//! node. (Room and ports: P1. Minimums: P4. Domains: P5. Quota: the file next door.) What Kubernetes' words mean is
//! spelled out here once more, on purpose.

use crate::books::{Books, NodeBook};
use crate::facts::Fact;
use crate::history::Broken;
use crate::p6_admission::Admissions;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::selector::{Operator, Requirement, SelectorTerm, Toleration, TolerationOperator};
use ohm_model::{EventKind, GroupSpec, Index, NodeHealth, TaintEffect};

/// Judges one fact; `books` knows of it already.
pub(crate) fn watch(
    index: Index,
    fact: &Fact<'_>,
    (books, admissions): (&Books, &Admissions),
    broken: &mut Vec<Broken>,
) {
    let Fact::Happened { at_ms, kind: EventKind::Placed { job, group, first, node, .. } } = *fact else { return };
    // What stood there all the time is no new work.
    if books.has_returned(*job, *group, *first) {
        return;
    }
    let Some(spec) = books.jobs.get(job) else {
        return broken.push(Broken::new("P8", format!("entry {index} places job {job}, which was never submitted")));
    };
    let Some(wish) = spec.groups.get(usize::from(*group)) else {
        let what = format!("entry {index} places group {group} of {}, which it does not have", spec.name);
        return broken.push(Broken::new("P8", what));
    };
    let Some(book) = books.nodes.get(node) else {
        let what = format!("entry {index} places {}/{} on node {node}, which is not there", spec.name, wish.name);
        return broken.push(Broken::new("P8", what));
    };
    let standing = books.live(*job, *group).filter(|(_, standing)| standing.node == *node).count();
    let wish = admissions.filtered(*job, wish);
    if let Some(why) = objection(&wish, book, standing, at_ms) {
        let what = format!("entry {index} places {}/{} on {}, but {why}", spec.name, wish.name, book.spec.name);
        broken.push(Broken::new("P8", what));
    }
}

/// Why a node does not take one more task of a group, `standing` of which are there then.
pub(crate) fn objection(wish: &GroupSpec, node: &NodeBook, standing: usize, at_ms: u64) -> Option<String> {
    if let Some(why) = is_closed(node).or_else(|| misfit(wish, node, at_ms)) {
        return Some(why);
    }
    if wish.max_per_node > 0 && standing > wish.max_per_node as usize {
        return Some(format!("{standing} tasks of it stand there, at most {} may", wish.max_per_node));
    }
    None
}

/// Why a node takes no new work at all.
pub(crate) fn is_closed(node: &NodeBook) -> Option<String> {
    if node.health != NodeHealth::Ready {
        return Some(format!("the node is {:?}", node.health));
    }
    if node.cordoned {
        return Some("the node is cordoned".into());
    }
    node.draining.then(|| "the node is being drained".into())
}

/// Why labels or taints of a node keep a group away.
pub(crate) fn misfit(wish: &GroupSpec, node: &NodeBook, at_ms: u64) -> Option<String> {
    if let Some((key, value)) = wish.node_selector.iter().find(|(key, value)| label(node, key) != Some(value)) {
        return Some(format!("the node has no label {key}={value}"));
    }
    if !wish.affinity.is_empty() && !wish.affinity.iter().any(|term| meets(node, term)) {
        return Some("no term of its affinity holds".into());
    }
    let bars = |effect: TaintEffect| effect != TaintEffect::PreferNoSchedule;
    let covered = |taint: &ohm_model::Taint| wish.tolerations.iter().any(|toleration| covers(toleration, taint));
    let caused = node.ailments.taints(at_ms);
    if let Some(taint) = node.own_taints().chain(&caused).find(|taint| bars(taint.effect) && !covered(taint)) {
        return Some(format!("it does not tolerate {taint}"));
    }
    None
}

fn label<'a>(node: &'a NodeBook, key: &str) -> Option<&'a String> {
    match node.spec.labels.get(key) {
        None if key == HOSTNAME_LABEL => Some(&node.spec.name),
        value => value,
    }
}

pub(crate) fn meets(node: &NodeBook, term: &SelectorTerm) -> bool {
    let is_named = |field: &Requirement| field.values.contains(&node.spec.name);
    let says_something = !term.requirements.is_empty() || !term.fields.is_empty();
    let of_name = term.fields.iter().all(|field| is_named(field) != (field.operator == Operator::NotIn));
    says_something && of_name && term.requirements.iter().all(|requirement| holds(node, requirement))
}

fn holds(node: &NodeBook, requirement: &Requirement) -> bool {
    let value = label(node, &requirement.key);
    let number = value.and_then(|value| value.parse::<i64>().ok());
    let bound = requirement.values.first().and_then(|bound| bound.parse::<i64>().ok());
    match requirement.operator {
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::In => value.is_some_and(|value| requirement.values.iter().any(|allowed| allowed == value)),
        Operator::NotIn => !value.is_some_and(|value| requirement.values.iter().any(|banned| banned == value)),
        Operator::Gt => number.zip(bound).is_some_and(|(number, bound)| number > bound),
        Operator::Lt => number.zip(bound).is_some_and(|(number, bound)| number < bound),
    }
}

/// Whether a toleration lets a task stand beside this taint, if only for a while.
pub(crate) fn covers(toleration: &Toleration, taint: &ohm_model::Taint) -> bool {
    let at_all = taint.effect != TaintEffect::NoExecute || toleration.toleration_seconds != Some(0);
    at_all && speaks_of(toleration, taint)
}

/// Whether a toleration is about this taint.
pub(crate) fn speaks_of(toleration: &Toleration, taint: &ohm_model::Taint) -> bool {
    let any_value = toleration.operator == TolerationOperator::Exists;
    let by_key = toleration.key == taint.key || (toleration.key.is_empty() && any_value);
    // As Kubernetes reads numbers: nothing in them but digits and a minus, and no zeros before.
    let is_plain = |text: &&str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number && (!digits.starts_with('0') || *text == "0")
    };
    let number = |text: &str| Some(text).filter(is_plain)?.parse::<i64>().ok();
    let by_value = match (toleration.operator, number(&taint.value), number(&toleration.value)) {
        (TolerationOperator::Exists, ..) => true,
        (TolerationOperator::Equal, ..) => toleration.value == taint.value,
        (TolerationOperator::Gt, Some(value), Some(bound)) => bound < value,
        (TolerationOperator::Lt, Some(value), Some(bound)) => bound > value,
        (TolerationOperator::Gt | TolerationOperator::Lt, ..) => false,
    };
    by_key && by_value && toleration.effect.unwrap_or(taint.effect) == taint.effect
}
