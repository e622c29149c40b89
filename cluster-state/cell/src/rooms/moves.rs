//! Which of the tasks that have to leave their nodes may be told to now.

use crate::cell::Cell;
use crate::rules::disruption::Disruptions;
use crate::state::jobs::{Group, Job};
use ohm_model::{BudgetRef, RunRef};

/// The runs of `job` that have to leave their nodes and may be told to now, as far as the pace of a service and
/// disruption budgets allow.
pub fn runs_to_move(cell: &Cell, job: &Job) -> Vec<RunRef> {
    moves_now(cell, job).0
}

/// The same, and the budget that keeps all of them where they are, if one does.
pub fn moves_now(cell: &Cell, job: &Job) -> (Vec<RunRef>, Option<BudgetRef>) {
    let mut under_way: Vec<u32> = Vec::new();
    let (mut chosen, mut disruptions, mut held_by) = (Vec::new(), Disruptions::default(), None);
    for run in cell.runs_to_leave(job) {
        if under_way.is_empty() {
            under_way = job.groups.iter().map(Group::on_the_move).collect();
        }
        let at = usize::from(run.run.task.group.0);
        let new = u32::from(!job.groups[at].replaced.contains(run.run.task.task.0, 1));
        if under_way[at].saturating_add(new) > cell.move_limit(job, run.node) {
            continue;
        }
        match disruptions.stop(cell, run) {
            Ok(()) => {
                under_way[at] += new;
                chosen.push(run.run);
            }
            Err(budget) => held_by = held_by.or(Some(budget)),
        }
    }
    let held_by = held_by.filter(|_| chosen.is_empty());
    (chosen, held_by)
}
