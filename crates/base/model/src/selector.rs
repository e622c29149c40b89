//! Which nodes a group may stand on, in Kubernetes' words: label requirements and tolerations.

use crate::names::plain_integer;
use crate::taint::{Taint, TaintEffect};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// How a requirement compares a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The label is one of the values.
    In,
    /// The label is absent or none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is an integer above the one value.
    Gt,
    /// The label is an integer below the one value.
    Lt,
}

/// One label requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// The label key.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// What it compares with; exactly one integer for `Gt` and `Lt`.
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether a node with `labels` meets this requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        let label = labels.get(&self.key);
        match self.operator {
            Operator::In => label.is_some_and(|label| self.values.contains(label)),
            Operator::NotIn => label.is_none_or(|label| !self.values.contains(label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt => self.compare(label).is_some_and(|(label, bound)| label > bound),
            Operator::Lt => self.compare(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, label: Option<&String>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

/// The one field of nodes that terms may speak of (`matchFields`): the name.
pub const NAME_FIELD: &str = "metadata.name";

/// Requirements that all must hold. Terms of an affinity are alternatives; a term without requirements matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SelectorTerm {
    /// What it says of labels (`matchExpressions`).
    pub requirements: Vec<Requirement>,
    /// What it says of the node's name (`matchFields`): `In` and `NotIn` of [`NAME_FIELD`].
    pub fields: Vec<Requirement>,
}

impl SelectorTerm {
    /// Requirements of labels.
    pub fn of_labels(requirements: Vec<Requirement>) -> Self {
        SelectorTerm { requirements, fields: Vec::new() }
    }

    /// The node with this name, and no other.
    pub fn named(node: impl Into<String>) -> Self {
        let named = Requirement { key: NAME_FIELD.into(), operator: Operator::In, values: vec![node.into()] };
        SelectorTerm { requirements: Vec::new(), fields: vec![named] }
    }

    /// Whether it says nothing: then no node meets it.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && self.fields.is_empty()
    }

    /// Whether the node with this name and these labels meets every requirement.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let is_meant = |field: &Requirement| {
            let is_named = field.values.iter().any(|value| value == name);
            let holds = match field.operator {
                Operator::In => is_named,
                Operator::NotIn => !is_named,
                Operator::Exists | Operator::DoesNotExist | Operator::Gt | Operator::Lt => false,
            };
            field.key == NAME_FIELD && holds
        };
        !self.is_empty()
            && self.requirements.iter().all(|requirement| requirement.matches(labels))
            && self.fields.iter().all(is_meant)
    }
}

/// How a toleration compares a taint's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// The values are equal.
    Equal,
    /// Any value will do.
    Exists,
    /// The taint's value is an integer above this one's.
    Gt,
    /// The taint's value is an integer below this one's.
    Lt,
}

/// Lets a group stand on nodes with a matching taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint key; empty with `Exists` tolerates every taint.
    pub key: String,
    /// The comparison.
    pub operator: TolerationOperator,
    /// The value for `Equal`.
    pub value: String,
    /// The effect tolerated; all when absent.
    pub effect: Option<TaintEffect>,
    /// For how long a `NoExecute` taint is tolerated by what runs there; for ever when absent. Other effects are
    /// tolerated for ever.
    pub toleration_seconds: Option<u64>,
}

impl Toleration {
    /// Whether this toleration covers `taint`, for however long.
    pub fn covers(&self, taint: &Taint) -> bool {
        let never = self.toleration_seconds == Some(0) && taint.effect == TaintEffect::NoExecute;
        !never && self.is_about(taint)
    }

    fn is_about(&self, taint: &Taint) -> bool {
        let key_fits =
            if self.key.is_empty() { self.operator == TolerationOperator::Exists } else { self.key == taint.key };
        let numbers = || plain_integer(&taint.value).zip(plain_integer(&self.value));
        let value_fits = match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Gt => numbers().is_some_and(|(taint, bound)| taint > bound),
            TolerationOperator::Lt => numbers().is_some_and(|(taint, bound)| taint < bound),
        };
        key_fits && value_fits && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// For how long `tolerations` let a task stay beside `taint`, in milliseconds: `u64::MAX` is for ever, nothing is not
/// at all. The first one that is about the taint decides, as in Kubernetes.
pub fn tolerated_ms(tolerations: &[Toleration], taint: &Taint) -> Option<u64> {
    let first = tolerations.iter().find(|toleration| toleration.is_about(taint))?;
    match first.toleration_seconds.filter(|_| taint.effect == TaintEffect::NoExecute) {
        None => Some(u64::MAX),
        Some(0) => None,
        Some(seconds) => Some(seconds.saturating_mul(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operator: Operator, values: &[&str], label: Option<&str>, expected: bool) {
        let labels: Labels = label.map(|value| ("zone".to_string(), value.to_string())).into_iter().collect();
        let values = values.iter().map(|value| value.to_string()).collect();
        let requirement = Requirement { key: "zone".into(), operator, values };
        assert_eq!(requirement.matches(&labels), expected, "{requirement:?} on {label:?}");
    }

    #[test]
    fn requirements_compare_as_in_kubernetes() {
        check(Operator::In, &["a", "b"], Some("b"), true);
        check(Operator::In, &["a"], None, false);
        check(Operator::NotIn, &["a"], None, true);
        check(Operator::NotIn, &["a"], Some("a"), false);
        check(Operator::Exists, &[], Some(""), true);
        check(Operator::DoesNotExist, &[], Some(""), false);
        check(Operator::Gt, &["5"], Some("6"), true);
        check(Operator::Gt, &["5"], Some("six"), false);
        check(Operator::Lt, &["5"], Some("4"), true);
        check(Operator::Lt, &[], Some("4"), false);
    }

    #[test]
    fn an_empty_key_with_exists_tolerates_everything() {
        let taint = Taint { key: "gpu".into(), value: "yes".into(), effect: TaintEffect::NoSchedule };
        let mut toleration = Toleration { operator: TolerationOperator::Exists, ..equal("", "") };
        assert!(toleration.covers(&taint));
        toleration.effect = Some(TaintEffect::NoExecute);
        assert!(!toleration.covers(&taint));
        toleration = equal("gpu", "no");
        assert!(!toleration.covers(&taint));
    }

    fn equal(key: &str, value: &str) -> Toleration {
        let (operator, effect, toleration_seconds) = (TolerationOperator::Equal, None, None);
        Toleration { key: key.into(), operator, value: value.into(), effect, toleration_seconds }
    }

    #[test]
    fn a_toleration_with_seconds_ends_beside_a_no_execute_taint_only() {
        let taint = |effect| Taint { key: "gpu".into(), value: "yes".into(), effect };
        let brief = |seconds| Toleration { toleration_seconds: Some(seconds), ..equal("gpu", "yes") };
        assert_eq!(tolerated_ms(&[brief(5)], &taint(TaintEffect::NoExecute)), Some(5_000));
        assert_eq!(tolerated_ms(&[brief(5)], &taint(TaintEffect::NoSchedule)), Some(u64::MAX));
        assert_eq!(tolerated_ms(&[brief(0)], &taint(TaintEffect::NoExecute)), None);
        assert!(!brief(0).covers(&taint(TaintEffect::NoExecute)) && brief(0).covers(&taint(TaintEffect::NoSchedule)));
        let both = [brief(5), equal("gpu", "yes")];
        assert_eq!(tolerated_ms(&both, &taint(TaintEffect::NoExecute)), Some(5_000), "the first one decides");
        assert_eq!(tolerated_ms(&[equal("cpu", "yes")], &taint(TaintEffect::NoExecute)), None);
    }

    #[test]
    fn tolerations_compare_numbers_as_they_are_written() {
        let check = |operator: TolerationOperator, value: &str, taint: &str, expected: bool| {
            let toleration = Toleration {
                key: "tier".into(),
                operator,
                value: value.into(),
                effect: None,
                toleration_seconds: None,
            };
            let taint = Taint { key: "tier".into(), value: taint.into(), effect: TaintEffect::NoSchedule };
            assert_eq!(toleration.covers(&taint), expected, "{operator:?} {value} of {}", taint.value);
        };
        use TolerationOperator::{Gt, Lt};
        for (operator, value, taint, expected) in [
            (Gt, "5", "6", true),
            (Gt, "5", "5", false),
            (Gt, "-5", "-4", true),
            (Lt, "5", "4", true),
            (Lt, "5", "05", false),
            (Lt, "5", "+4", false),
            (Gt, "5", "many", false),
            (Lt, "9223372036854775807", "-9223372036854775808", true),
        ] {
            check(operator, value, taint, expected);
        }
    }
}
