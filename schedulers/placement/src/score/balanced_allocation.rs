//! NodeResourcesBalancedAllocation: whether the task makes cpu and memory of the node more evenly used, or less.
//!
//! kube-scheduler's present formula: 50 + (50 + balance with the task - balance without it) / 2, where the balance of
//! two used shares is 100 less half of their difference in percent. A group that asks for neither loses nothing.

use super::costs::{Lost, NodeQuestion};
use ohm_cell::{CPU, MEMORY};
use ohm_model::ResourceId;

/// What a share is counted in.
const MILLIONTHS: i128 = 1_000_000;

pub(super) fn lost(question: &NodeQuestion<'_>) -> Lost {
    let asked = |resource: ResourceId| {
        question.shape.requests.iter().find(|(column, _)| *column == resource).map_or(0, |(_, request)| *request)
    };
    if asked(CPU) == 0 && asked(MEMORY) == 0 {
        return Lost::NOTHING;
    }
    let share = |resource: ResourceId, more: i64| -> Option<i128> {
        let capacity = i128::from(question.view.cell().nodes().capacity(question.node, resource));
        let used = capacity - i128::from(question.view.free(question.node, resource)) + i128::from(more);
        (capacity > 0).then(|| (used * MILLIONTHS / capacity).clamp(0, MILLIONTHS))
    };
    let balance = |cpu: i64, memory: i64| -> i128 {
        let (Some(cpu), Some(memory)) = (share(CPU, cpu), share(MEMORY, memory)) else { return 100 };
        (MILLIONTHS - (cpu - memory).abs() / 2) * 100 / MILLIONTHS
    };
    let score = 50 + (50 + balance(asked(CPU), asked(MEMORY)) - balance(0, 0)) / 2;
    Lost { parts: (100 - score).clamp(0, 100) as u64, of: 100 }
}
