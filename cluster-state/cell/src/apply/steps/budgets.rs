//! Runs are counted for disruption budgets as they become healthy and stop to be so; the rest when a command is over.

use crate::apply::Tx;
use crate::state::budgets::health::is_healthy;
use crate::state::budgets::settle::settle;
use crate::state::budgets::states::budget_name;
use crate::state::runs::Run;
use ohm_model::{BudgetEvent, EventKind, GroupIndex, JobId};

/// The run may be healthy by now, or not healthy any more. Called wherever [`is_healthy`] may say otherwise of a run.
pub(crate) fn note_healthy(tx: &mut Tx<'_>, slot: u32, was_healthy: bool) {
    if !tx.budgets.counts.is_empty() {
        let run = tx.run(slot);
        let (of, by) = (run.run.task, i32::from(is_healthy(run)) - i32::from(was_healthy));
        shift(tx, of.job, of.group, by);
    }
}

/// The run is gone.
pub(crate) fn note_gone(tx: &mut Tx<'_>, run: &Run) {
    if !tx.budgets.counts.is_empty() {
        shift(tx, run.run.task.job, run.run.task.group, -i32::from(is_healthy(run)));
    }
}

fn shift(tx: &mut Tx<'_>, job: JobId, group: GroupIndex, by: i32) {
    if by != 0 {
        tx.budgets.counts.shift(job, group, by);
    }
}

/// Counts what the command has changed, tells which jobs are held by budgets from now on, and names those that may go
/// on to whoever moves them.
pub(crate) fn settle_budgets(tx: &mut Tx<'_>) {
    if !tx.budgets.is_of_use() {
        return;
    }
    let touched = tx.touched_jobs().to_vec();
    for held in settle(tx.cell, &touched) {
        tx.touch_job(held.job);
        if let Some(budget) = held.by {
            let (job, name, budget) = (held.job, tx.job(held.job).spec.name.clone(), budget_name(tx, budget));
            tx.tell(EventKind::HeldByBudget(BudgetEvent { job, name, budget }));
        }
    }
}
