//! Room kept on nodes: for preemptors, for tasks on the move, and as spares.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::nodes::NOMINATED;
use crate::state::timers::Timer;
use ohm_model::{GroupIndex, Incarnation, JobId, NodeId, TaskRef};

/// Keeps room on `node`, and says so.
pub(crate) fn hold(tx: &mut Tx<'_>, node: NodeId, held: Held) {
    tx.nominations.add(node, held);
    tx.nodes.set_flag(node, NOMINATED, true);
    tx.touch_node(node);
}

pub(crate) fn use_nomination(tx: &mut Tx<'_>, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
    sweep_nominations(tx, node, |held| {
        if held.is_preemptor() && (held.job, held.group) == (job, group.0) {
            held.count = held.count.saturating_sub(count);
        }
        held.count > 0
    });
}

/// Keeps of the room on `node` what passes, and clears its flag with the last one. Returns whether any ended.
pub(crate) fn sweep_nominations(tx: &mut Tx<'_>, node: NodeId, keep: impl FnMut(&mut Held) -> bool) -> bool {
    let held = |cell: &Cell| cell.nominations.on_node(node).iter().map(|held| u64::from(held.count)).sum::<u64>();
    let before = held(tx);
    let preemptors = tx.nominations.on_node(node).iter().filter(|held| held.is_preemptor()).map(|held| held.job);
    let preemptors: Vec<JobId> = preemptors.collect();
    let ended = tx.nominations.retain(node, keep) > 0;
    if ended {
        // Whoever others stopped for has less than it was told.
        preemptors.into_iter().for_each(|job| tx.touch_job(job));
    }
    if held(tx) < before {
        tx.free_node(node);
    }
    if ended && tx.nominations.on_node(node).is_empty() {
        tx.nodes.set_flag(node, NOMINATED, false);
    }
    ended
}

/// Nothing of `job` is on the move any more, and its rooms are free.
pub(crate) fn drop_moves(tx: &mut Tx<'_>, id: JobId) {
    if tx.job(id).groups.iter().any(|group| !group.moving.is_empty()) {
        tx.job_mut(id).groups.iter_mut().for_each(|group| group.moving = Default::default());
    }
}

/// A task that has ended is placed where its room is within a moment. What is not used for so long is given back,
/// unless others of its job still stop: a gang that moves as a whole starts again when the last of it has ended.
const ROOM_MS: u64 = 60_000;

/// A task on the move has ended: from now on its room is kept for a while.
pub(crate) fn arm_room(tx: &mut Tx<'_>, task: TaskRef, incarnation: Incarnation) {
    tx.arm(tx.now_ms.saturating_add(ROOM_MS), Timer::Room(task, incarnation));
}
