//! When what runs on a node has to leave it because of a taint. The time of `tolerationSeconds` counts from the later
//! of two moments: the taint came, the run was placed.
//!
//! A taint of a condition drives away as a drain does; there the time counts from the taint alone, because a condition
//! is a matter of the node and not of single runs.

use crate::state::nodes::NodeRecord;
use crate::state::shapes::Shape;
use ohm_model::ConditionKind;
use ohm_model::selector::tolerated_ms;

/// When what has this shape and was placed at `placed_ms` has to leave the node because of its own taints, in stamped
/// time; nothing is never.
pub(crate) fn repelled_at(record: &NodeRecord, shape: &Shape, placed_ms: u64) -> Option<u64> {
    let due = record.driving_taints().filter_map(|taint| match tolerated_ms(&shape.tolerations, taint) {
        None => Some(0),
        Some(u64::MAX) => None,
        Some(ms) => Some(record.tainted_since(taint).unwrap_or(0).max(placed_ms).saturating_add(ms)),
    });
    due.min()
}

/// The conditions of the node that drive away what has this shape, each with when it begins to.
pub(crate) fn driven_at<'a>(
    record: &'a NodeRecord,
    shape: &'a Shape,
) -> impl Iterator<Item = (ConditionKind, u64)> + 'a {
    record.driving_conditions().filter_map(|condition| {
        let taint = condition.taint()?;
        match tolerated_ms(&shape.tolerations, &taint) {
            None => Some((condition.kind, 0)),
            Some(u64::MAX) => None,
            Some(ms) => Some((condition.kind, record.tainted_since(&taint)?.saturating_add(ms))),
        }
    })
}

/// The condition of the node that drives away what has this shape, as far as was judged.
pub(crate) fn driving_condition(record: &NodeRecord, shape: &Shape) -> Option<ConditionKind> {
    driven_at(record, shape).find(|(_, due_ms)| *due_ms <= record.judged_ms).map(|(kind, _)| kind)
}
