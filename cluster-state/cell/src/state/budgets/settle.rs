//! What a command has changed of budgets and jobs is counted when it is over. Runs are counted as they move.

use super::counts::{Count, Counts, Covered, CoveredGroup};
use super::health::{expected_of, is_healthy};
use crate::cell::Cell;
use crate::rooms::moves::moves_now;
use crate::state::jobs::{Job, JobState};
use crate::state::repairs::UnhealthyCause;
use crate::state::runs::NO_RUN;
use ohm_model::{BudgetRef, JobId, split_job_name};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A job that a budget keeps on nodes that it has to leave, or keeps there no longer.
pub(crate) struct Held {
    pub(crate) job: JobId,
    pub(crate) by: Option<BudgetRef>,
}

/// Counts what has changed of these jobs, and of the budgets that were put or removed. Returns the jobs that budgets
/// hold, or let go, since then.
pub(crate) fn settle(cell: &mut Cell, touched: &[JobId]) -> Vec<Held> {
    let budgets = &mut cell.budgets;
    let changed = std::mem::take(&mut budgets.changed);
    budgets.has_news = false;
    let mut counts = std::mem::take(&mut budgets.counts);
    let mut jobs: BTreeSet<JobId> = touched.iter().copied().collect();
    let mut held = BTreeSet::new();
    if !changed.is_empty() {
        held.extend(counts.held());
        let concerned = cell.jobs.iter().filter(|job| changed.contains(split_job_name(&job.spec.name).0));
        concerned.for_each(|job| counts.look_at(cell, job.id, true));
    }
    jobs.iter().for_each(|job| counts.look_at(cell, *job, false));
    let moved = counts.take_moved();
    jobs.retain(|job| counts.leaves(*job));
    jobs.extend(moved.iter().flat_map(|budget| counts.leaving(*budget)));
    cell.budgets.counts = counts;
    // What no budget is about any more is held by none.
    let freed = held.into_iter().filter(|job| !cell.budgets.counts.covers(*job));
    let freed: Vec<Held> = freed.map(|job| Held { job, by: None }).collect();
    note_held(cell, jobs).into_iter().chain(freed).collect()
}

/// Counts everything anew: after a restore.
pub(crate) fn count_anew(cell: &mut Cell) {
    let mut counts = Counts::default();
    cell.jobs.iter().for_each(|job| counts.look_at(cell, job.id, true));
    counts.take_moved();
    cell.budgets.counts = counts;
    let jobs: BTreeSet<JobId> = cell.jobs.iter().map(|job| job.id).collect();
    note_held(cell, jobs.into_iter().filter(|job| cell.budgets.counts.leaves(*job)).collect());
}

/// The same cell with everything counted anew.
pub(crate) fn counted_with_budgets(mut cell: Cell) -> Cell {
    count_anew(&mut cell);
    cell
}

/// Finds which of these jobs a budget holds.
fn note_held(cell: &mut Cell, jobs: BTreeSet<JobId>) -> Vec<Held> {
    let held_by = |id: &JobId| (*id, cell.jobs.get(*id).and_then(|job| moves_now(cell, job).1));
    let held: Vec<(JobId, Option<BudgetRef>)> = jobs.iter().map(held_by).collect();
    let counts = &mut cell.budgets.counts;
    let changed = held.into_iter().filter(|(job, by)| counts.set_held(*job, *by) != *by);
    changed.map(|(job, by)| Held { job, by }).collect()
}

impl Counts {
    /// Looks at a job anew: at its budgets, too, where its content has changed, or they have (`anew`).
    fn look_at(&mut self, cell: &Cell, id: JobId, anew: bool) {
        let job = cell.jobs.get(id).filter(|job| !matches!(job.state, JobState::Finished(_)));
        let known = self.inner.as_ref().and_then(|inner| inner.jobs.get(&id));
        match (job, known) {
            (Some(job), Some(known)) if !anew && Arc::ptr_eq(&job.spec, &known.spec) => self.follow(job),
            (Some(job), known) => {
                let held_by = known.and_then(|known| known.held_by);
                self.forget(id);
                self.cover(cell, job);
                self.set_held(id, held_by);
            }
            (None, _) => self.forget(id),
        }
        if self.inner.as_ref().is_some_and(|inner| inner.jobs.is_empty()) {
            self.inner = None;
        }
    }

    /// The content of the job is as before; how many of its tasks are to run, and whether it leaves nodes, may not be.
    fn follow(&mut self, job: &Job) {
        let Some(inner) = &mut self.inner else { return };
        let Some(known) = inner.jobs.get(&job.id) else { return };
        let leaves = leaves_nodes(job);
        let groups = known.groups.iter().enumerate();
        let changed = |(at, group): (usize, &CoveredGroup)| {
            let now = expected_of(job, at);
            (now != group.expected && !group.budgets.is_empty()).then_some((at, now))
        };
        let changed: Vec<(usize, u32)> = groups.filter_map(changed).collect();
        if changed.is_empty() && leaves == known.leaves {
            return;
        }
        let inner = Arc::make_mut(inner);
        let Some(covered) = inner.jobs.get_mut(&job.id) else { return };
        let covered = Arc::make_mut(covered);
        for (at, now) in changed {
            let group = &mut covered.groups[at];
            let by = i64::from(now) - i64::from(std::mem::replace(&mut group.expected, now));
            for budget in &group.budgets {
                if let Some(count) = inner.counts.get_mut(budget) {
                    count.expected = count.expected.saturating_add_signed(by);
                }
                inner.moved.insert(*budget);
            }
        }
        covered.leaves = leaves;
        for budget in covered.groups.iter().flat_map(|group| &group.budgets) {
            let Some(count) = inner.counts.get_mut(budget) else { continue };
            if leaves {
                count.leaving.insert(job.id)
            } else {
                count.leaving.remove(&job.id)
            };
        }
    }

    /// Counts a job that is not counted.
    fn cover(&mut self, cell: &Cell, job: &Arc<Job>) {
        let budgets: Vec<_> = (0..job.groups.len()).map(|at| cell.budgets.of_group(job, at)).collect();
        if budgets.iter().all(Vec::is_empty) {
            return;
        }
        let inner = Arc::make_mut(self.inner.get_or_insert_default());
        let leaves = leaves_nodes(job);
        let mut groups = Vec::with_capacity(budgets.len());
        for (at, budgets) in budgets.into_iter().enumerate() {
            let mut group =
                CoveredGroup { budgets: budgets.iter().map(|(budget, _)| *budget).collect(), ..Default::default() };
            if !budgets.is_empty() {
                (group.healthy, group.expected) = (healthy_of(cell, job, at), expected_of(job, at));
            }
            for (budget, terms) in budgets {
                let empty = Count { terms, healthy: 0, expected: 0, groups: 0, leaving: BTreeSet::new() };
                let count = inner.counts.entry(budget).or_insert(empty);
                count.terms = terms;
                count.groups += 1;
                count.healthy += u64::from(group.healthy);
                count.expected += u64::from(group.expected);
                if leaves {
                    count.leaving.insert(job.id);
                }
                inner.moved.insert(budget);
            }
            groups.push(group);
        }
        let covered = Covered { spec: Arc::clone(&job.spec), groups, leaves, held_by: None };
        inner.jobs.insert(job.id, Arc::new(covered));
    }

    /// Counts a job no more.
    fn forget(&mut self, id: JobId) {
        let Some(inner) = &mut self.inner else { return };
        if !inner.jobs.contains_key(&id) {
            return;
        }
        let inner = Arc::make_mut(inner);
        let Some(covered) = inner.jobs.remove(&id) else { return };
        for group in &covered.groups {
            for budget in &group.budgets {
                inner.moved.insert(*budget);
                let Some(count) = inner.counts.get_mut(budget) else { continue };
                count.groups -= 1;
                count.healthy = count.healthy.saturating_sub(u64::from(group.healthy));
                count.expected = count.expected.saturating_sub(u64::from(group.expected));
                count.leaving.remove(&id);
                if count.groups == 0 {
                    inner.counts.remove(budget);
                }
            }
        }
    }
}

fn leaves_nodes(job: &Job) -> bool {
    job.repairs.unhealthy.iter().any(|entry| entry.cause != UnhealthyCause::Lost)
}

fn healthy_of(cell: &Cell, job: &Job, at: usize) -> u32 {
    let slots = job.groups[at].tasks.iter().map(|task| task.run).filter(|slot| *slot != NO_RUN);
    slots.filter_map(|slot| cell.runs.get(slot)).filter(|run| is_healthy(run)).count() as u32
}
