//! A transaction that moves tasks: they are told to leave, and room is reserved for them elsewhere.

use crate::apply::Tx;
use crate::apply::steps::holds::hold;
use crate::apply::steps::runs::stop_run;
use crate::policy::moves::within;
use crate::policy::spares::move_onto_spares;
use crate::rooms::nominations::{Held, rooms_named};
use crate::rooms::reads::live_slot;
use ohm_model::{EventKind, JobId, NodeId, Transaction};
use ohm_stdx::RangeSet;
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
    let mut told: BTreeMap<JobId, Told> = BTreeMap::new();
    let mut leaving: BTreeMap<(JobId, u16), RangeSet> = BTreeMap::new();
    let named = rooms_named(transaction);
    for (run, cause) in &transaction.evict {
        // One that has ended, or is to stop already, is fine for the judge.
        let Some(slot) = live_slot(tx, *run) else { continue };
        let Some(found) = tx.runs.get(slot).filter(|found| found.stop.is_none()) else { continue };
        let (job, group, task, node) = (run.task.job, run.task.group.0, run.task.task.0, found.node);
        leaving.entry((job, group)).or_default().insert(task, 1);
        // A planted judge lets tasks go that no room is named for.
        if named.get(&(job, group)).is_some_and(|named| named.contains(task, 1)) {
            tx.group_mut(job, group).moving.insert(task, 1);
        }
        stop_run(tx, slot, *cause);
        let told = told.entry(job).or_default();
        told.tasks += 1;
        told.from.insert(node);
    }
    for row in &transaction.nominate {
        // What ended meanwhile needs no room.
        let leaving = leaving.get(&(row.job, row.group.0));
        let tasks = leaving.map(|leaving| within(leaving, row.first.0, row.count)).unwrap_or_default();
        if !tasks.is_empty() {
            move_onto_spares(tx, row, tasks.len());
            hold(tx, row.node, Held::for_moving(row.job, row.group, tasks, tx.index()));
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
