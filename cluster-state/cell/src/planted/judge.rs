//! Planted bugs of the judge: it is shown another cell or transaction than there is, or its verdict is altered.

use crate::cell::Cell;
use crate::state::admission::Round;
use crate::state::jobs::{Job, JobState};
use crate::state::repairs::RepairState;
use ohm_model::transaction::Row;
use ohm_model::{
    ConflictReason, JobId, NodeId, QueueSpec, QueueingStrategy, StopCause, StopPolicy, Transaction, Verdict,
};
use ohm_stdx::bug::{self, Bug};
use std::sync::Arc;

/// Changes what the judge is shown.
type Alter = fn(&mut Cell, &mut Transaction);

/// Whether a bug is about a job.
type IsAbout = fn(&Job) -> bool;

const SHOWN: [(Bug, IsAbout, Alter); 10] = [
    (Bug::PlaceClosed, |_| true, open_jobs),
    (Bug::PlaceUnreserved, |job| !job.spec.queue.is_empty(), make_checks_ready),
    (Bug::CountGangTwice, |_| true, halve_minimums),
    (Bug::HalfRepair, |job| job.repair_state() == RepairState::Waiting, lower_minimums),
    (Bug::StaleRepair, has_losses, forget_losses),
    (Bug::SpareUnused, |job| job.groups.iter().any(|group| group.spares > 0), hide_spares),
    (Bug::GiveUpWhole, |_| true, name_another_cause),
    (Bug::TearSlices, |job| job.spec.groups.iter().any(|group| !group.slices().is_empty()), forget_slices),
    (Bug::IgnoreStrictOrder, |job| !job.spec.queue.is_empty(), forget_order),
    (Bug::StartInHeldQueue, |job| !job.spec.queue.is_empty(), lift_stops),
];

/// What the judge is shown instead, when one of these bugs is planted and `transaction` names a job that it is about.
pub(crate) fn shown_to_judge(cell: &Cell, transaction: &Transaction) -> Option<Box<(Cell, Transaction)>> {
    if !bug::COMPILED {
        return None;
    }
    let (_, is_about, alter) = SHOWN.iter().find(|(bug, ..)| bug::is_planted(*bug))?;
    let mut jobs = transaction.jobs.iter().filter_map(|guard| cell.jobs.get(guard.job));
    jobs.any(|job| is_about(job)).then(|| {
        let mut shown = Box::new((cell.clone(), transaction.clone()));
        alter(&mut shown.0, &mut shown.1);
        shown
    })
}

fn has_losses(job: &Job) -> bool {
    job.repairs.open.is_some() || !job.repairs.unhealthy.is_empty()
}

/// What is said in place of `verdict`.
pub(crate) fn said_by_judge(mut verdict: Verdict) -> Verdict {
    if bug::is_planted(Bug::WrongRefresh) && !verdict.conflicts.is_empty() {
        // An entry that is far away.
        verdict.refresh.0 += 1 << 32;
    }
    if bug::is_planted(Bug::MoveUnawaited) {
        let unawaited = |row, reason| matches!(row, Row::Evict(_)) && reason == ConflictReason::NotReserved;
        verdict.conflicts.retain(|conflict| !unawaited(conflict.row, conflict.reason));
    }
    verdict
}

fn open_jobs(cell: &mut Cell, transaction: &mut Transaction) {
    for guard in &mut transaction.jobs {
        if let Some(job) = cell.jobs.get_mut(guard.job) {
            (job.state, guard.version) = (JobState::Active, job.version);
        }
    }
}

/// Every guard that bears on the admission is gone, too.
fn make_checks_ready(cell: &mut Cell, transaction: &mut Transaction) {
    let placed = placed_jobs(cell, transaction);
    for guard in &mut transaction.jobs {
        guard.reserved = false;
        if let Some(job) = cell.jobs.get(guard.job).filter(|job| !job.spec.queue.is_empty()) {
            guard.version = job.version;
        }
    }
    for former in placed.iter().filter(|job| !cell.standing(job).may_place()).collect::<Vec<_>>() {
        let round = Round { since: former.submitted, since_ms: 0, admitted: false, checks: Vec::new() };
        cell.jobs.get_mut(former.id).expect("a placed job").admission.round = Some(round);
    }
}

/// Each accepted task counts twice towards the minimum of its group.
fn halve_minimums(cell: &mut Cell, transaction: &mut Transaction) {
    set_minimums(cell, transaction, |job, at| {
        let (group, spec) = (&job.groups[at], &job.spec.groups[at]);
        let live = if job.is_down() { 0 } else { group.live_within_count() };
        let missing = group.needed(spec).checked_sub(live)?;
        Some(live + missing.div_ceil(2))
    });
}

/// A gang that started may get back whatever there is room for.
fn lower_minimums(cell: &mut Cell, transaction: &mut Transaction) {
    set_minimums(cell, transaction, |job, at| {
        let group = &job.groups[at];
        (group.started && !job.is_down()).then(|| group.live_within_count())
    });
}

/// A plan that was made before a loss holds. The gang says that it is stale, too, so that is not asked either.
fn forget_losses(cell: &mut Cell, transaction: &mut Transaction) {
    lower_minimums(cell, transaction);
    for guard in &mut transaction.jobs {
        if let Some(job) = cell.jobs.get(guard.job).filter(|job| has_losses(job)) {
            guard.version = job.version;
        }
    }
}

fn hide_spares(cell: &mut Cell, transaction: &mut Transaction) {
    for job in placed_jobs(cell, transaction) {
        let nodes: Vec<NodeId> = cell.nominations.of_job(job.id).map(|(node, _)| node).collect();
        for node in nodes {
            cell.nominations.retain(node, |held| held.job != job.id || !held.is_spare());
        }
    }
}

fn name_another_cause(_: &mut Cell, transaction: &mut Transaction) {
    let given_up = transaction.evict.iter_mut().filter(|(_, cause)| *cause == StopCause::RepairFailed);
    given_up.for_each(|(_, cause)| *cause = StopCause::Preempted);
}

fn forget_slices(cell: &mut Cell, transaction: &mut Transaction) {
    for former in transaction.jobs.iter().filter_map(|guard| cell.jobs.get(guard.job).cloned()).collect::<Vec<_>>() {
        let job = cell.jobs.get_mut(former.id).expect("a job that is guarded");
        Arc::make_mut(&mut job.spec).groups.iter_mut().for_each(|group| group.topology.slices.clear());
    }
}

fn forget_order(cell: &mut Cell, _: &mut Transaction) {
    change_queues(cell, |spec| spec.queueing_strategy = QueueingStrategy::BestEffortFifo);
}

fn lift_stops(cell: &mut Cell, _: &mut Transaction) {
    change_queues(cell, |spec| spec.stop_policy = StopPolicy::None);
}

/// What is charged to the queues stays.
fn change_queues(cell: &mut Cell, change: fn(&mut QueueSpec)) {
    let specs: Vec<QueueSpec> =
        cell.quota.iter().filter(|queue| !queue.is_implicit()).map(|queue| queue.spec.clone()).collect();
    for mut spec in specs {
        change(&mut spec);
        cell.quota.put(spec);
    }
}

/// Sets how many tasks the groups need that tasks are placed of, where `needed` says it.
fn set_minimums(cell: &mut Cell, transaction: &Transaction, needed: impl Fn(&Job, usize) -> Option<u32>) {
    for former in placed_jobs(cell, transaction) {
        let job = cell.jobs.get_mut(former.id).expect("a placed job");
        for at in 0..former.groups.len() {
            if let Some(needed) = needed(&former, at) {
                let over = former.groups[at].succeeded + former.groups[at].failed;
                Arc::make_mut(&mut job.spec).groups[at].min_count = over + needed;
            }
        }
    }
}

/// The jobs that tasks are placed of.
fn placed_jobs(cell: &Cell, transaction: &Transaction) -> Vec<Arc<Job>> {
    let mut jobs: Vec<JobId> = transaction.place.iter().map(|row| row.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    jobs.into_iter().filter_map(|job| cell.jobs.get(job).cloned()).collect()
}
