//! Rounds of admission open and end, and groups have the shapes that their checks say.

use crate::apply::Tx;
use crate::apply::steps::leaving::settle_leaving_by;
use crate::apply::steps::task_counts::count_reshaped_task;
use crate::cell::Cell;
use crate::policy::brought::{close_requests, open_requests};
use crate::rooms::checks::checks_of;
use crate::state::admission::{Check, CheckState, Round};
use crate::state::jobs::{Group, request_id};
use crate::state::offers::{Filters, filters_of};
use crate::state::runs::NO_RUN;
use crate::state::timers::Timer;
use ohm_model::brought::request_label;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::selector::Labels;
use ohm_model::{EventKind, GroupIndex, JobId, RunRef, ShapeId};
use std::sync::Arc;

/// The quota of `job` is reserved now: the checks of its queue that are for its flavors are asked.
pub(crate) fn open_round(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    let Some(queue) = tx.quota.get(&job.spec.queue) else { tx.stop("the queue of a reservation") };
    let classes: Vec<String> = checks_of(tx, job, &queue.spec).map(|check| check.name.clone()).collect();
    let (since, since_ms) = (tx.index(), tx.now_ms);
    let job = tx.job_mut(id);
    job.admission.rounds += 1;
    let attempt = |class: &String| job.admission.failures.get(class).copied().unwrap_or(0).saturating_add(1);
    let checks: Vec<Check> = classes
        .iter()
        .map(|class| Check {
            class: class.clone(),
            request: request_label(&request_id(job, class)),
            state: CheckState::Pending,
            attempt: attempt(class),
            message: String::new(),
            since_ms,
            node_selector: Labels::new(),
            tolerations: Vec::new(),
        })
        .collect();
    job.admission.back_off_ms = 0;
    job.admission.round = Some(Round { since, since_ms, admitted: false, checks });
    let (name, round) = (job.spec.name.clone(), job.admission.rounds);
    let timeouts = classes.iter().filter_map(|class| tx.provisioning_classes.get(class));
    let timeouts: Vec<u64> = timeouts.map(|class| class.timeout_seconds).filter(|seconds| *seconds > 0).collect();
    for seconds in timeouts {
        tx.arm(since_ms.saturating_add(seconds.saturating_mul(1000)), Timer::Admission(id, round));
    }
    open_requests(tx, id);
    tx.tell(EventKind::QuotaReserved { job: id, name, round, checks: classes });
}

/// Something was placed: what happened on the way here counts no more.
pub(crate) fn note_admitted(tx: &mut Tx<'_>, id: JobId) {
    // Most rows are of jobs that were admitted before: those are not copied to be changed.
    if tx.job(id).admission.round.as_ref().is_none_or(|round| round.admitted) {
        return;
    }
    let admission = &mut tx.job_mut(id).admission;
    if let Some(round) = &mut admission.round {
        round.admitted = true;
    }
    admission.failures.clear();
    admission.failed = None;
}

/// Ends the open round of `job`, if there is one: nothing is placed under it any more.
pub(crate) fn end_round(tx: &mut Tx<'_>, id: JobId) {
    if tx.job(id).admission.round.is_none() {
        return;
    }
    close_requests(tx, id);
    tx.job_mut(id).admission.round = None;
    reshape(tx, id);
}

/// Gives the groups of `job` the shapes they have now, with what checks add or without.
pub(crate) fn reshape(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    for (at, (group, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let former = tx.shape(group.shape);
        let Filters { labels, affinity, tolerations } = filters_of(tx, &job, at);
        let is_same = former.node_selector == labels && former.tolerations == tolerations;
        if is_same && former.affinity == affinity {
            continue;
        }
        let mut shape = (**former).clone();
        shape.names_hosts = spec.names_hosts() || labels.contains_key(HOSTNAME_LABEL);
        (shape.node_selector, shape.affinity, shape.tolerations) = (labels, affinity, tolerations);
        let joined = tx.shapes.join(shape);
        tx.shapes.leave(group.shape);
        tx.job_mut(id).groups[at].shape = joined;
        reshape_runs(tx, (id, at), group, joined);
        count_reshaped(tx, id, at);
    }
    settle_leaving_by(tx, id);
}

/// What checks add holds for what runs already, too: runs with the former shape of `group` have its new one.
fn reshape_runs(tx: &mut Tx<'_>, (id, at): (JobId, usize), group: &Group, joined: ShapeId) {
    for task in group.tasks.iter().filter(|task| task.run != NO_RUN) {
        if tx.run(task.run).shape == group.shape {
            let (node, stops) = (tx.run(task.run).node, tx.run(task.run).stop.is_some());
            tx.run_mut(task.run).shape = joined;
            count_reshaped_task(tx, (id, at), (group.shape, joined), node, stops);
            tx.shapes.leave(group.shape);
            tx.shapes.join_again(joined, 1);
        }
    }
    let is_meant = |run: &RunRef, shape| run.task.group == GroupIndex(at as u16) && shape == group.shape;
    let kept = tx.kept.of_job(id).filter(|(run, kept)| is_meant(run, kept.shape)).map(|(run, _)| *run);
    for run in kept.collect::<Vec<_>>() {
        tx.kept.set_shape(run, joined);
        if let Some(node) = tx.kept.get(run).filter(|kept| kept.back.is_some()).map(|kept| kept.node) {
            count_reshaped_task(tx, (id, at), (group.shape, joined), node, false);
        }
        tx.shapes.leave(group.shape);
        tx.shapes.join_again(joined, 1);
    }
}

/// Counts the live runs of group `at` that have another shape than the group.
pub(crate) fn count_reshaped(cell: &mut Cell, id: JobId, at: usize) {
    let Some(job) = cell.jobs.get(id) else { return };
    let (shape, live) = (job.groups[at].shape, job.groups[at].tasks.iter().filter(|task| task.run != NO_RUN));
    let other = |slot: u32| cell.runs.get(slot).is_some_and(|run| run.shape != shape);
    let reshaped = live.filter(|task| other(task.run)).count() as u32;
    if let Some(job) = cell.jobs.get_mut(id) {
        job.groups[at].reshaped = reshaped;
    }
}
