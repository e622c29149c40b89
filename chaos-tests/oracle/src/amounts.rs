//! Sums of resources.

use ohm_model::resources::PODS;
use ohm_model::{Amounts, GroupSpec};

/// What `count` tasks of a group ask for.
pub(crate) fn asks(group: &GroupSpec, count: u32) -> Amounts {
    let mut asked: Amounts =
        group.requests.iter().map(|(name, amount)| (name.clone(), amount * i64::from(count))).collect();
    *asked.entry(PODS.to_string()).or_insert(0) += i64::from(count);
    asked
}

/// Takes amounts from a sum.
pub(crate) fn take(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        *sum.entry(name.clone()).or_insert(0) -= amount;
    }
}

/// Adds amounts to a sum.
pub(crate) fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        *sum.entry(name.clone()).or_insert(0) += amount;
    }
}
