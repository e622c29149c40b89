//! What a requirement of labels is written as.

use ohm_model::Requirement;
use serde::Serialize;

/// One of `matchExpressions` or `matchFields`.
#[derive(Serialize)]
pub(super) struct Expression<'j> {
    key: &'j str,
    operator: String,
    #[serde(skip_serializing_if = "is_default")]
    values: &'j [String],
}

impl<'j> From<&'j Requirement> for Expression<'j> {
    fn from(requirement: &'j Requirement) -> Self {
        let operator = format!("{:?}", requirement.operator);
        Expression { key: &requirement.key, operator, values: &requirement.values }
    }
}

/// Whether it is what is taken where nothing is said.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `value`, unless it is what would be taken anyway.
pub(super) fn other<T: PartialEq>(value: T, default: T) -> Option<T> {
    (value != default).then_some(value)
}
