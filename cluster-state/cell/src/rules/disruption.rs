//! Disruption budgets: whom drains, moves and preemption may stop. A task under several budgets needs all of them. What
//! is lost, cancelled, suspended, finished or taken away by its owner asks nobody, and so does the deadline of a drain.
//!
//! ```text
//! the task          its budget lets it stop
//! healthy           while more are healthy than must be: it counts against the budget
//! not healthy       while as many are healthy as must be, or always (`unhealthyPodEvictionPolicy`)
//! stops already     always: it counts no more
//! ```

use crate::cell::Cell;
use crate::rooms::planned_rooms::runs_to_stop;
use crate::rooms::what_if::WhatIf;
use crate::state::budgets::health::is_healthy;
use crate::state::preemptions::Stopping;
use crate::state::runs::Run;
use ohm_model::{BudgetRef, UnhealthyEviction, Victim};
use ohm_stdx::bug::{self, Bug};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks that stop together, beside those that stop in the cell.
#[derive(Clone, Debug, Default)]
pub struct Disruptions {
    /// How many healthy ones of each budget.
    stopped: BTreeMap<BudgetRef, u64>,
}

impl Disruptions {
    /// With what others are told to stop for besides.
    pub fn of(what: WhatIf<'_>) -> Self {
        let mut disruptions = Disruptions::default();
        if !what.cell.budgets.counts.is_empty() {
            what.told_besides().for_each(|victim| drop(disruptions.stop_victim(what.cell, victim)));
        }
        disruptions
    }

    /// Stops a run, if its budgets let it; else says which one does not.
    pub fn stop(&mut self, cell: &Cell, run: &Run) -> Result<(), BudgetRef> {
        match self.first_against(cell, run) {
            Some(budget) => Err(budget),
            None => {
                self.count(cell, run);
                Ok(())
            }
        }
    }

    /// Stops all of these, if the budgets let them go together. Returns whether they do.
    pub fn stop_all(&mut self, cell: &Cell, runs: &[&Run]) -> bool {
        if let [run] = runs {
            return self.stop(cell, run).is_ok();
        }
        let mut with_them = self.clone();
        let may = runs.iter().all(|run| with_them.stop(cell, run).is_ok());
        if may {
            *self = with_them;
        }
        may
    }

    /// Stops a run whether its budgets let it or not. Says which one does not.
    fn stop_anyway(&mut self, cell: &Cell, run: &Run) -> Option<BudgetRef> {
        let against = self.first_against(cell, run);
        self.count(cell, run);
        against
    }

    /// Stops a victim. Says for each of its runs that no budget lets stop which one that is.
    pub fn stop_victim(&mut self, cell: &Cell, victim: &Victim) -> Vec<BudgetRef> {
        let Some(job) = cell.jobs.get(victim.job).filter(|_| !cell.budgets.counts.is_empty()) else {
            return Vec::new();
        };
        let runs = runs_to_stop(cell, Stopping { job, runs: &victim.runs });
        runs.filter_map(|run| self.stop_anyway(cell, run)).collect()
    }

    fn first_against(&self, cell: &Cell, run: &Run) -> Option<BudgetRef> {
        let counts = &cell.budgets.counts;
        if counts.is_empty() || run.stop.is_some() || bug::is_planted(Bug::IgnoreBudget) {
            return None;
        }
        let is_against = |budget: &BudgetRef| {
            let Some(count) = counts.of(*budget) else { return false };
            let stopped = self.stopped.get(budget).copied().unwrap_or(0);
            let (healthy, desired) = (count.healthy.saturating_sub(stopped), count.desired());
            match (is_healthy(run), count.terms.unhealthy) {
                (true, _) => healthy <= desired,
                (false, UnhealthyEviction::IfHealthyBudget) => healthy < desired,
                (false, UnhealthyEviction::AlwaysAllow) => false,
            }
        };
        counts.budgets_of(run.run.task.job, run.run.task.group).iter().copied().find(is_against)
    }

    fn count(&mut self, cell: &Cell, run: &Run) {
        if is_healthy(run) {
            for budget in cell.budgets.counts.budgets_of(run.run.task.job, run.run.task.group) {
                *self.stopped.entry(*budget).or_insert(0) += 1;
            }
        }
    }
}

/// How many of the tasks that stop with `victims`, beside what others are told to stop for, go beyond what budgets
/// allow, and which budgets those are.
pub fn broken_by(what: WhatIf<'_>, victims: &[Victim]) -> (u32, BTreeSet<BudgetRef>) {
    if what.cell.budgets.counts.is_empty() {
        return (0, BTreeSet::new());
    }
    let mut disruptions = Disruptions::of(what);
    let broken = victims.iter().flat_map(|victim| disruptions.stop_victim(what.cell, victim));
    let broken: Vec<BudgetRef> = broken.collect();
    (broken.len() as u32, broken.into_iter().collect())
}

/// Whether nobody is under a budget.
pub fn has_no_budgets(cell: &Cell) -> bool {
    cell.budgets.counts.is_empty()
}

/// Whether all of a job, stopped alone, goes beyond what budgets allow.
pub fn breaks_alone(cell: &Cell, victim: Stopping<'_>) -> bool {
    let mut disruptions = Disruptions::default();
    !cell.budgets.counts.is_empty()
        && runs_to_stop(cell, victim).any(|run| disruptions.stop_anyway(cell, run).is_some())
}
