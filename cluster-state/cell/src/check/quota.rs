//! P8: what queues are charged is what their jobs hold.

use crate::cell::Cell;
use crate::state::flavors::Charges;
use crate::state::offers::column_name;
use crate::state::quota::QuotaNode;
use std::collections::BTreeMap;

/// P8: what queues are charged is what their jobs hold; `direct` is what each queue's own jobs hold.
pub(crate) fn check_quota(cell: &Cell, direct: &BTreeMap<String, Charges>, broken: &mut Vec<String>) {
    let mut again = cell.quota.clone();
    again.rebuild(&cell.resources, direct);
    for (kept, counted) in cell.quota.iter().zip(again.iter()) {
        if !kept.sums().eq(counted.sums()) {
            let name = &kept.spec.name;
            let used = |node: &QuotaNode| -> BTreeMap<String, i64> {
                node.sums().map(|(column, usage, _)| (column_name(cell, column), usage)).collect()
            };
            broken.push(format!("P8: queue {name}: {:?} charged, {:?} held", used(kept), used(counted)));
        }
    }
    for QuotaNode { spec, .. } in cell.quota.iter().filter(|node| !node.spec.parent.is_empty()) {
        if cell.quota.get(&spec.parent).is_none_or(|parent| !parent.spec.is_cohort) {
            broken.push(format!("P8: queue {}: {} above it is no cohort", spec.name, spec.parent));
        }
    }
}
