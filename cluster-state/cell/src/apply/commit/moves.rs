//! A transaction that moves tasks: they are told to leave, and room is reserved for them elsewhere.

use crate::apply::Tx;
use crate::apply::steps::holds::hold;
use crate::apply::steps::runs::stop_run;
use crate::policy::spares::move_onto_spares;
use crate::rooms::nominations::Held;
use crate::rooms::reads::live_slot;
use ohm_model::{EventKind, JobId, NodeId, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// What the moves of one job come to.
#[derive(Default)]
struct Told {
    tasks: u32,
    from: BTreeSet<NodeId>,
    to: BTreeSet<NodeId>,
}

/// Does what a transaction that moves tasks was granted: all of it.
pub(crate) fn perform_move(tx: &mut Tx<'_>, transaction: &Transaction) {
    let mut rooms: BTreeMap<(JobId, u16), u32> = BTreeMap::new();
    for row in &transaction.nominate {
        *rooms.entry((row.job, row.group.0)).or_insert(0) += row.count;
    }
    let mut told: BTreeMap<JobId, Told> = BTreeMap::new();
    let mut leaving: BTreeMap<(JobId, u16), u32> = BTreeMap::new();
    for (run, cause) in &transaction.evict {
        // One that has ended, or is to stop already, is fine for the judge.
        let Some(slot) = live_slot(tx, *run) else { continue };
        let Some(found) = tx.runs.get(slot).filter(|found| found.stop.is_none()) else { continue };
        let (key, node) = ((run.task.job, run.task.group.0), found.node);
        let taken = leaving.entry(key).or_insert(0);
        if *taken < rooms.get(&key).copied().unwrap_or(0) {
            *taken += 1;
            tx.group_mut(key.0, key.1).moving.insert(run.task.task.0, 1);
        }
        stop_run(tx, slot, *cause);
        let told = told.entry(run.task.job).or_default();
        told.tasks += 1;
        told.from.insert(node);
    }
    for row in &transaction.nominate {
        // What ended meanwhile needs no room.
        let left = leaving.get_mut(&(row.job, row.group.0));
        let Some((left, count)) = left.map(|left| (row.count.min(*left), left)) else { continue };
        *count -= left;
        if left > 0 {
            move_onto_spares(tx, row, left);
            let held = Held::for_moving(row.job, row.group, left, tx.index());
            hold(tx, row.node, held);
            told.entry(row.job).or_default().to.insert(row.node);
        }
    }
    for (job, told) in told {
        let name = tx.job(job).spec.name.clone();
        let names = |nodes: BTreeSet<NodeId>| nodes.iter().map(|node| tx.nodes.name(*node).to_string()).collect();
        let (from, to) = (names(told.from), names(told.to));
        tx.tell(EventKind::MoveReserved { job, name, tasks: told.tasks, from, to });
        tx.touch_job(job);
    }
}
