//! The quota tree as it would be: with jobs stopped, and with what is promised to those for whom others were.

use crate::cell::Cell;
use crate::rooms::grid::Grid;
use crate::rooms::overlay::Overlay;
use crate::rooms::reads::live_run;
use crate::rooms::what_if::WhatIf;
use crate::state::flavors::Charges;
use crate::state::jobs::{Group, Job, JobState};
use crate::state::preemptions::{Preemption, Preemptions, Stopping};
use crate::state::quota::QueueId;
use crate::state::requests::{charged, live_shapes, summed, tasks_of, waiting_request, wanted_request};
use crate::state::shares::Share;
use ohm_model::{FlavorResource, GroupIndex, PreemptionNeed, need_of};
use std::sync::Arc;

/// The quota tree of a cell with differences laid over it.
#[derive(Clone, Debug)]
pub struct QuotaIf<'a> {
    cell: &'a Cell,
    over: Grid,
}

impl<'a> QuotaIf<'a> {
    /// As it will be once all have ended that stop for others, and those others stand; `job` is none of them. What
    /// closed jobs still have is free.
    pub fn promised(cell: &'a Cell, job: &Job) -> Self {
        let mut tree = QuotaIf { cell, over: Grid::default() };
        tree.promise(job, |_| false);
        tree
    }

    /// The same with what is laid over the cell.
    pub fn promised_over(cell: &'a Cell, over: &Overlay, job: &Job) -> Self {
        let what = WhatIf { cell, over };
        let mut tree = QuotaIf { cell, over: over.queues.clone() };
        let is_placed = |job: &Job| (0..job.groups.len()).any(|at| what.placed(job.id, GroupIndex(at as u16)) > 0);
        tree.promise(job, is_placed);
        for under_way in what.over.preempting.iter().filter(|under_way| under_way.job != job.id) {
            let Some(other) = cell.jobs.get(under_way.job) else { continue };
            for victim in &under_way.victims {
                let Some(job) = cell.jobs.get(victim.job) else { continue };
                tree.stop_part(Stopping { job, runs: &victim.runs });
            }
            if !yields(other, job) {
                let rooms = tasks_of(other, under_way.rooms.iter().copied());
                let kept = kept_request(cell, other, (need_of(&under_way.victims), &rooms));
                charge(cell, other, &kept, 1, &mut tree.over);
            }
        }
        tree
    }

    fn promise(&mut self, job: &Job, is_placed: impl Fn(&Job) -> bool) {
        let cell = self.cell;
        if cell.quota.iter().len() == 0 {
            return;
        }
        promise_all(cell, job, &mut self.over, (is_placed, |_: &Job, _: &Preemption, _: &Charges| false));
        // What was stopped for others before is given back already.
        let closed = cell.turns.closing().filter(|job| !cell.preemptions.stops_whole(*job));
        closed.filter_map(|job| cell.jobs.get(job)).for_each(|job| self.stop(job));
    }

    /// As it is with what is laid over the cell.
    pub fn over(what: WhatIf<'a>) -> Self {
        QuotaIf { cell: what.cell, over: what.over.queues.clone() }
    }

    /// What the tasks of `job` that wait ask for together.
    pub fn asked(&self, job: &Job) -> Vec<(FlavorResource, i64)> {
        waiting_request(self.cell, job).into_iter().collect()
    }

    /// What `job` is charged is given back.
    pub fn stop(&mut self, job: &Job) {
        charge(self.cell, job, &charged(self.cell, job), -1, &mut self.over);
    }

    /// What so much of a job is charged is given back: all of it, or its runs that stop.
    pub fn stop_part(&mut self, victim: Stopping<'_>) {
        charge(self.cell, victim.job, &self.held_by(victim), -1, &mut self.over);
    }

    /// It is charged again.
    pub fn put_back_part(&mut self, victim: Stopping<'_>) {
        charge(self.cell, victim.job, &self.held_by(victim), 1, &mut self.over);
    }

    fn held_by(&self, victim: Stopping<'_>) -> Charges {
        if victim.is_whole() { charged(self.cell, victim.job) } else { runs_charges(self.cell, victim) }
    }

    /// It is charged again.
    pub fn put_back(&mut self, job: &Job) {
        charge(self.cell, job, &charged(self.cell, job), 1, &mut self.over);
    }

    /// So many times these amounts are charged to `queue`; below zero they are given back.
    pub fn charge(&mut self, queue: QueueId, amounts: &[(FlavorResource, i64)], times: i64) {
        self.cell.quota.charge_all_over(queue, amounts, times, &mut self.over);
    }

    /// The share of a queue or cohort.
    pub fn share(&self, node: QueueId) -> Share {
        self.cell.quota.share_over(node, &self.cell.resources, &self.over)
    }

    /// How much more of a column `queue` may use; nothing is no limit.
    pub fn available(&self, queue: QueueId, column: FlavorResource) -> Option<i64> {
        self.cell.quota.available_over(queue, column, &self.over)
    }

    /// How much a queue or cohort uses beyond what it has by itself and from below; below zero is what is left of that.
    pub fn beyond_own(&self, node: QueueId, column: FlavorResource) -> i64 {
        self.cell.quota.used_of_own(node, column, &self.over).beyond
    }

    /// From how far up `amount` more of a column is lent to `queue`; see `Quota::borrowing_level`.
    pub fn borrowing_level(&self, queue: QueueId, column: FlavorResource, amount: i64) -> u32 {
        self.cell.quota.borrowing_level(queue, column, amount, &self.over)
    }

    /// What is left of that which it never lends.
    pub fn local_rest(&self, node: QueueId, column: FlavorResource) -> i64 {
        self.cell.quota.used_of_own(node, column, &self.over).local_rest
    }
}

/// Charges what is promised to others than `job`: what stops for them is given back, unless they need it no more, and
/// they have what they need, where they are not placed already. Less important jobs of its own queue do not have it:
/// what stops for them is there for `job`, too.
pub(crate) fn promise_all(
    cell: &Cell,
    job: &Job,
    over: &mut Grid,
    (is_placed, is_free): (impl Fn(&Job) -> bool, impl Fn(&Job, &Preemption, &Charges) -> bool),
) {
    for (other, preemption) in cell.preemptions.iter().filter(|(other, _)| *other != job.id) {
        let Some(other) = cell.jobs.get(other) else { continue };
        let kept = kept_of(cell, other, preemption);
        if !is_free(other, preemption, &kept) {
            give_back(cell, preemption, over);
        }
        if !yields(other, job) && !is_placed(other) {
            charge(cell, other, &kept, 1, over);
        }
    }
}

/// What is kept of quota for a job that others stop for.
pub(crate) fn kept_of(cell: &Cell, job: &Job, preemption: &Preemption) -> Charges {
    if preemption.need == PreemptionNeed::Quota {
        return kept_request(cell, job, (PreemptionNeed::Quota, &preemption.wanted));
    }
    let rooms = cell.nominations.of_job(job.id).filter(|(_, held)| held.is_preemptor());
    let rooms = tasks_of(job, rooms.map(|(_, held)| (GroupIndex(held.group), held.count)));
    kept_request(cell, job, (PreemptionNeed::Room, &rooms))
}

/// The same where others stop for so many tasks of each group. Of a job that is reserved its tasks are charged nothing.
fn kept_request(cell: &Cell, job: &Job, (need, wanted): (PreemptionNeed, &[u32])) -> Charges {
    match need {
        _ if !job.reserved.is_empty() => Charges::new(),
        PreemptionNeed::Quota => wanted_request(cell, job, wanted),
        PreemptionNeed::Room => {
            let waits = |group: &Group| group.pending.len() + group.backing_off + group.held;
            let groups = job.groups.iter().zip(wanted);
            summed(cell, groups.map(|(group, kept)| (group.shape, i64::from((*kept).min(waits(group))))))
        }
    }
}

/// Whether `other` leaves to `job` what others stop for it.
fn yields(other: &Job, job: &Job) -> bool {
    other.spec.queue == job.spec.queue && other.spec.priority < job.spec.priority
}

/// What the victims of a preemption have is free.
fn give_back(cell: &Cell, preemption: &Preemption, over: &mut Grid) {
    for (victim, runs) in &preemption.victims {
        let Some(victim) = cell.jobs.get(*victim) else { continue };
        // All that a closed job has is given back at once.
        if victim.state != JobState::Active && !runs.is_empty() {
            continue;
        }
        let charges = match runs.is_empty() {
            true => stopping_charges(cell, victim),
            false => runs_charges(cell, Stopping { job: victim, runs }),
        };
        charge(cell, victim, &charges, -1, over);
    }
}

/// What those of these runs are charged that are live.
fn runs_charges(cell: &Cell, Stopping { job, runs }: Stopping<'_>) -> Charges {
    let live = runs.iter().filter_map(|run| live_run(cell, *run)).filter(|_| job.reserved.is_empty());
    summed(cell, live.map(|run| (run.shape, 1)))
}

/// What the runs of `job` that stop are charged.
fn stopping_charges(cell: &Cell, job: &Job) -> Charges {
    if !job.reserved.is_empty() {
        return Charges::new();
    }
    let mut shapes = Vec::new();
    for group in job.groups.iter().filter(|group| group.stopping > 0) {
        if group.stopping == group.live {
            shapes.extend(live_shapes(cell, group));
        } else {
            let runs = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
            shapes.extend(runs.filter(|run| run.stop.is_some()).map(|run| (run.shape, 1)));
        }
    }
    summed(cell, shapes.into_iter())
}

fn charge(cell: &Cell, job: &Job, amounts: &Charges, times: i64, over: &mut Grid) {
    let Some(queue) = cell.quota.find(&job.spec.queue) else { return };
    for (&column, &amount) in amounts {
        cell.quota.charge_over(queue, column, amount.saturating_mul(times), over);
    }
}

/// From how far up the queue of `job` borrows for what it has: 0 within its own, else the height of the cohort that
/// lends; nothing without a queue.
pub fn borrowing_of(cell: &Cell, job: &Job) -> Option<u32> {
    let (queue, over) = (cell.quota.find(&job.spec.queue)?, Grid::default());
    let charged = charged(cell, job);
    let limited = charged.keys().filter(|column| cell.quota.available_over(queue, **column, &over).is_some());
    Some(limited.map(|column| cell.quota.borrowing_level(queue, *column, 0, &over)).max().unwrap_or(0))
}

/// The jobs that have quota of `queue`.
pub fn holders<'a>(cell: &'a Cell, queue: &'a str) -> impl Iterator<Item = &'a Arc<Job>> {
    cell.turns.holders(queue).filter_map(|job| cell.jobs.get(job))
}

/// The preemptions for quota that are under way in a cell.
pub fn preemptions(cell: &Cell) -> &Preemptions {
    &cell.preemptions
}
