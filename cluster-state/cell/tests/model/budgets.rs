//! Disruption budgets of groups the slow way: every run is looked at.

use crate::state::{Phase, Plain, PlainRun, State};
use ohm_model::{
    BudgetLimit, BudgetRef, BudgetTerms, ConflictReason, GroupIndex, GroupSpec, JobId, RunRef, TaskAmount,
    UnhealthyEviction,
};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// How many healthy tasks of each group a transaction has moved so far.
pub(crate) type Gone = BTreeMap<(JobId, u16), u64>;

impl Plain {
    /// Whether the budget of its group lets a run go beside those that the transaction moves already.
    pub(crate) fn judge_budget(&self, run: RunRef, gone: &mut Gone) -> Result<(), ConflictReason> {
        let key = (run.task.job, run.task.group.0);
        let is_it = |live: &&PlainRun| (live.job, live.group, live.task) == (key.0, key.1, run.task.task.0);
        let Some(live) = self.runs.iter().find(is_it).filter(|live| live.stop.is_none()) else { return Ok(()) };
        let job = &self.jobs[&key.0];
        let Some(terms) = job.spec.groups[usize::from(key.1)].disruption_budget.as_deref() else { return Ok(()) };
        let runs = |live: &&PlainRun| live.started_ms.is_some() && live.stop.is_none();
        let of_group = self.runs.iter().filter(|live| (live.job, live.group) == key);
        let healthy = of_group.filter(runs).count() as u64 - gone.get(&key).copied().unwrap_or(0);
        let over = [Phase::Succeeded, Phase::Failed, Phase::Skipped];
        let is_over = |task: u32| job.tasks.get(&(key.1, task)).is_some_and(|task| over.contains(&task.phase));
        let count = if job.state == State::Active { job.spec.groups[usize::from(key.1)].count } else { 0 };
        let expected = (0..count).filter(|task| !is_over(*task)).count() as u64;
        let share = |amount: TaskAmount| match amount {
            TaskAmount::Tasks(tasks) => u64::from(tasks),
            TaskAmount::Percent(percent) => (expected * u64::from(percent)).div_ceil(100),
        };
        let desired = match terms.limit {
            BudgetLimit::MinAvailable(amount) => share(amount),
            BudgetLimit::MaxUnavailable(amount) => expected.saturating_sub(share(amount)),
        };
        let may = match (runs(&live), terms.unhealthy) {
            (true, _) => healthy > desired,
            (false, UnhealthyEviction::IfHealthyBudget) => healthy >= desired,
            (false, UnhealthyEviction::AlwaysAllow) => true,
        };
        if !may {
            return Err(ConflictReason::BudgetExceeded(BudgetRef::OfGroup(key.0, GroupIndex(key.1))));
        }
        *gone.entry(key).or_insert(0) += u64::from(runs(&live));
        Ok(())
    }
}

/// Gives some groups a budget, or takes it away.
pub(crate) fn draw(dice: &mut Prng, group: &mut GroupSpec) {
    let amount = match dice.chance(500) {
        true => TaskAmount::Tasks(dice.between(0, 2) as u32),
        false => TaskAmount::Percent(dice.between(0, 100) as u32),
    };
    let limit = if dice.chance(500) { BudgetLimit::MinAvailable(amount) } else { BudgetLimit::MaxUnavailable(amount) };
    let always = dice.chance(300);
    let unhealthy = if always { UnhealthyEviction::AlwaysAllow } else { UnhealthyEviction::IfHealthyBudget };
    group.disruption_budget = dice.chance(600).then(|| Box::new(BudgetTerms { limit, unhealthy }));
}
