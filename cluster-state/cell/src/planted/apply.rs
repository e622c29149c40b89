//! Planted bugs of commands: the command is altered before it is applied, or what it did is altered after.

use crate::apply::steps::leaving::settle_leaving;
use crate::apply::steps::rounds::count_reshaped;
use crate::apply::{Applied, Tx};
use crate::cell::Cell;
use crate::policy::conditions::settle_taints;
use crate::state::flaps::Flaps;
use crate::state::jobs::{Job, JobState, TaskState};
use crate::state::repairs::{RepairState, UnhealthyCause};
use crate::state::requests::live_request;
use crate::state::runs::Run;
use ohm_model::{Command, Envelope, EventKind, Exit, JobId, RunRef, StopCause};
use ohm_stdx::bug::{self, Bug};
use std::sync::Arc;

/// A command with a bug, and how things were before it; nothing when no such bug is planted.
pub(crate) struct Planted(Option<Box<Former>>);

struct Former {
    /// As it was; empty for bugs that look at nothing but what the command told.
    cell: Cell,
    envelope: Envelope,
    /// How many events the entry had caused.
    events: usize,
}

/// Changes a command, or the state that it finds.
type Enter = fn(&mut Cell, &mut Envelope);

/// Changes what a command did.
type Leave = fn(&Former, &mut Cell, &mut Applied);

const BEFORE: [(Bug, Enter); 3] =
    [(Bug::ApplyTwice, number_anew), (Bug::StaleCheck, name_the_open_round), (Bug::SameRequest, count_a_round_less)];

/// Bugs that compare the state with what it was before.
const AFTER: [(Bug, Leave); 9] = [
    (Bug::SameRequest, count_all_rounds),
    (Bug::KeepRound, keep_round),
    (Bug::KeepUpdates, keep_updates),
    (Bug::KeepReservation, keep_reservation),
    (Bug::ChargeReserved, charge_reserved),
    (Bug::EndlessBackOff, keep_waiting),
    (Bug::LateRepair, keep_repair),
    (Bug::ForgetKept, forget_kept),
    (Bug::KeepEndedRoom, keep_ended_room),
];

/// Bugs that look at nothing but what the command told.
const AFTER_TOLD: [(Bug, Leave); 6] = [
    (Bug::RestartNobody, restart_nobody),
    (Bug::ChargeRestarts, charge_restarts),
    (Bug::ChargeLostNodes, charge_lost_nodes),
    (Bug::KeepBoth, keep_both),
    (Bug::ForgetHoldDown, forget_hold_down),
    (Bug::HurryFenced, hurry_fenced),
];

impl Planted {
    /// `events` is how many the entry has caused so far.
    pub(crate) fn before(cell: &mut Cell, envelope: &Envelope, events: usize) -> Self {
        if !bug::COMPILED {
            return Planted(None);
        }
        let (enter, compares) = (planted(&BEFORE), planted(&AFTER).is_some());
        if enter.is_none() && !compares && planted(&AFTER_TOLD).is_none() {
            return Planted(None);
        }
        let before = if compares { cell.clone() } else { Cell::default() };
        let mut former = Box::new(Former { cell: before, envelope: envelope.clone(), events });
        if let Some(enter) = enter {
            enter(cell, &mut former.envelope);
        }
        Planted(Some(former))
    }

    /// The command that is applied in place of the `given` one.
    pub(crate) fn envelope<'a>(&'a self, given: &'a Envelope) -> &'a Envelope {
        self.0.as_ref().map_or(given, |former| &former.envelope)
    }

    pub(crate) fn after(&self, cell: &mut Cell, applied: &mut Applied) {
        let Some(former) = &self.0 else { return };
        if let Some(leave) = planted(&AFTER).or_else(|| planted(&AFTER_TOLD)) {
            leave(former, cell, applied);
        }
    }
}

/// What the bug does that is planted, if it is one of these.
fn planted<F: Copy>(bugs: &[(Bug, F)]) -> Option<F> {
    bugs.iter().find(|(bug, _)| bug::is_planted(*bug)).map(|(_, does)| *does)
}

/// Calls `settle`, which gives spares back, with jobs as it is to see them.
pub(crate) fn settle_with(tx: &mut Tx<'_>, settle: impl FnOnce(&mut Tx<'_>)) {
    let (keep, astray) = (bug::is_planted(Bug::KeepSpares), bug::is_planted(Bug::SpareAstray));
    if !keep && !astray {
        return settle(tx);
    }
    let holds = |job: &&Arc<Job>| job.groups.iter().any(|group| group.spares > 0);
    let hidden: Vec<Arc<Job>> = tx.jobs.iter().filter(holds).cloned().collect();
    for former in &hidden {
        let job = tx.job_mut(former.id);
        if keep {
            job.state = JobState::Active;
        } else {
            job.groups.iter_mut().for_each(|group| group.domain = None);
        }
    }
    settle(tx);
    for former in hidden {
        let job = tx.job_mut(former.id);
        job.state = former.state;
        job.groups.iter_mut().zip(&former.groups).for_each(|(group, former)| group.domain = former.domain);
    }
}

impl Former {
    /// The jobs as they were of which this holds, before and now.
    fn jobs(&self, cell: &Cell, is_meant: impl Fn(&Job, &Job) -> bool) -> Vec<Arc<Job>> {
        let meant = |job: &&Arc<Job>| cell.jobs.get(job.id).is_some_and(|now| is_meant(job, now));
        self.cell.jobs.iter().filter(meant).cloned().collect()
    }

    /// The jobs that were active and are not.
    fn closed(&self, cell: &Cell) -> Vec<Arc<Job>> {
        self.jobs(cell, |job, now| job.state == JobState::Active && now.state != JobState::Active)
    }

    /// What the command told.
    fn told<'a>(&self, applied: &'a Applied) -> impl Iterator<Item = &'a EventKind> + use<'a> {
        applied.events[self.events..].iter().map(|event| &event.kind)
    }

    /// Takes events of the command back.
    fn take_back(&self, applied: &mut Applied, is_meant: impl Fn(&EventKind) -> bool) -> Vec<EventKind> {
        let told = applied.events.split_off(self.events);
        let (gone, kept): (Vec<_>, Vec<_>) = told.into_iter().partition(|event| is_meant(&event.kind));
        applied.events.extend(kept);
        gone.into_iter().map(|event| event.kind).collect()
    }
}

/// A command that was answered is new again.
fn number_anew(cell: &mut Cell, envelope: &mut Envelope) {
    let name = (envelope.session, envelope.sequence);
    if cell.sessions.answers().any(|(session, sequence, _)| (session, sequence) == name) {
        envelope.sequence.0 += 1 << 40;
    }
}

fn name_the_open_round(cell: &mut Cell, envelope: &mut Envelope) {
    if let Command::ReportCheck { job, round, .. } = &mut envelope.command
        && let Some(job) = cell.jobs.get(*job)
    {
        *round = job.admission.rounds;
    }
}

/// Jobs whose next attempt this transaction begins.
fn next_attempts(cell: &Cell, envelope: &Envelope) -> Vec<JobId> {
    let Command::Commit(transaction) = &envelope.command else { return Vec::new() };
    let tries_again = |job: &&Arc<Job>| {
        job.admission.round.is_none() && job.admission.rounds > 0 && !job.admission.failures.is_empty()
    };
    let jobs = transaction.reserve.iter().filter_map(|job| cell.jobs.get(*job)).filter(tries_again);
    let mut jobs: Vec<JobId> = jobs.map(|job| job.id).collect();
    jobs.sort_unstable();
    jobs.dedup();
    jobs
}

fn count_a_round_less(cell: &mut Cell, envelope: &mut Envelope) {
    for id in next_attempts(cell, envelope) {
        if let Some(job) = cell.jobs.get_mut(id) {
            job.admission.rounds -= 1;
        }
    }
}

/// An attempt that was not made has no number.
fn count_all_rounds(former: &Former, cell: &mut Cell, _: &mut Applied) {
    for before in former.jobs(cell, |job, now| now.admission.rounds < job.admission.rounds) {
        if let Some(job) = cell.jobs.get_mut(before.id) {
            job.admission.rounds = before.admission.rounds;
        }
    }
}

fn keep_round(former: &Former, cell: &mut Cell, _: &mut Applied) {
    for before in former.jobs(cell, |job, now| job.admission.round.is_some() && now.admission.round.is_none()) {
        if let Some(job) = cell.jobs.get_mut(before.id) {
            job.admission.round.clone_from(&before.admission.round);
        }
    }
}

fn keep_updates(former: &Former, cell: &mut Cell, _: &mut Applied) {
    for before in former.jobs(cell, |job, now| job.admission.ready().is_some() && now.admission.round.is_none()) {
        for (at, group) in before.groups.iter().enumerate() {
            let shape_now = cell.jobs.get(before.id).and_then(|job| Some(job.groups.get(at)?.shape));
            let (Some(kept), Some(shape_now)) = (former.cell.shapes.get(group.shape), shape_now) else { continue };
            let Some(mut shape) = cell.shapes.get(shape_now).map(|shape| (**shape).clone()) else { continue };
            shape.names_hosts |= kept.names_hosts;
            (shape.node_selector, shape.tolerations) = (kept.node_selector.clone(), kept.tolerations.clone());
            let joined = cell.shapes.join(shape);
            cell.shapes.leave(shape_now);
            if let Some(job) = cell.jobs.get_mut(before.id) {
                job.groups[at].shape = joined;
            }
            count_reshaped(cell, before.id, at);
        }
    }
}

fn keep_reservation(former: &Former, cell: &mut Cell, _: &mut Applied) {
    for before in former.closed(cell).into_iter().filter(|job| !job.reserved.is_empty()) {
        let Some(job) = cell.jobs.get_mut(before.id).filter(|job| job.reserved.is_empty()) else { continue };
        job.reserved.clone_from(&before.reserved);
        let mut amounts = before.reserved.clone();
        let live = cell.jobs.get(before.id).map(|job| live_request(cell, job)).unwrap_or_default();
        live.into_iter().for_each(|(column, amount)| *amounts.entry(column).or_insert(0) -= amount);
        cell.quota.charge(&before.spec.queue, amounts.into_iter());
    }
}

fn charge_reserved(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    if !matches!(former.envelope.command, Command::Commit(_)) {
        return;
    }
    for kind in former.told(applied) {
        let EventKind::Placed { job, group, count, .. } = kind else { continue };
        let Some(job) = former.cell.jobs.get(*job).filter(|job| !job.reserved.is_empty()) else { continue };
        let Some(shape) = former.cell.shape_of(job, usize::from(*group)) else { continue };
        let amounts = shape.charges.iter().map(|&(column, request)| (column, request * i64::from(*count)));
        cell.quota.charge(&job.spec.queue, amounts);
    }
}

fn keep_waiting(former: &Former, cell: &mut Cell, _: &mut Applied) {
    if former.envelope.command != Command::Tick {
        return;
    }
    let woken = |job: &Job, now: &Job| {
        let active = now.state == JobState::Active && now.admission.round.is_none();
        active && job.admission.back_off_ms > 0 && now.admission.back_off_ms == 0
    };
    for before in former.jobs(cell, woken) {
        if let Some(job) = cell.jobs.get_mut(before.id) {
            job.admission.back_off_ms = before.admission.back_off_ms;
        }
    }
}

fn keep_repair(former: &Former, cell: &mut Cell, _: &mut Applied) {
    let is_open = |job: &Arc<Job>| job.repairs.open.is_some() || job.repair_state() != RepairState::Whole;
    for before in former.closed(cell).into_iter().filter(is_open) {
        let Some(job) = cell.jobs.get_mut(before.id) else { continue };
        job.repairs.open.clone_from(&before.repairs.open);
        for (group, before) in job.groups.iter_mut().zip(&before.groups) {
            (group.lost, group.replaced) = (before.lost.clone(), before.replaced.clone());
        }
        let lost = before.repairs.unhealthy.iter().filter(|entry| entry.cause == UnhealthyCause::Lost);
        job.repairs.unhealthy.retain(|entry| entry.cause != UnhealthyCause::Lost);
        job.repairs.unhealthy.extend(lost.clone().cloned());
        lost.filter_map(|entry| entry.node).for_each(|node| cell.jobs.note_unhealthy(node, before.id));
    }
}

fn restart_nobody(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    for kind in former.take_back(applied, |kind| matches!(kind, EventKind::SurvivorsRestart { .. })) {
        let EventKind::SurvivorsRestart { job, .. } = kind else { continue };
        let told = |run: &Run| run.run.task.job == job && run.restart;
        let slots: Vec<u32> = cell.runs.iter().filter(|(_, run)| told(run)).map(|(slot, _)| slot).collect();
        for slot in slots {
            if let Some(run) = cell.runs.get_mut(slot) {
                run.restart = false;
            }
        }
    }
}

fn charge_restarts(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    charge_ended(former, cell, applied, |_, cause| cause == Some(StopCause::Restarted));
}

fn charge_lost_nodes(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    charge_ended(former, cell, applied, |exit, cause| exit == Exit::NodeLost && cause.is_none());
}

/// Counts each of these ends as the task's own failure.
fn charge_ended(former: &Former, cell: &mut Cell, applied: &Applied, is_meant: fn(Exit, Option<StopCause>) -> bool) {
    for kind in former.told(applied) {
        let EventKind::Ended { job, group, task, exit, cause, .. } = kind else { continue };
        if let Some(job) = cell.jobs.get_mut(*job).filter(|_| is_meant(*exit, *cause))
            && let Some(task) = job.groups[usize::from(*group)].tasks.get_mut(*task as usize)
        {
            task.failures += 1;
        }
    }
}

fn hurry_fenced(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    for kind in former.told(applied) {
        let EventKind::Ended { job, group, task, exit: Exit::LeaseExpired, cause: None, .. } = kind else { continue };
        let Some(job) = cell.jobs.get_mut(*job) else { continue };
        let group = &mut job.groups[usize::from(*group)];
        if let Some(found) = group.tasks.get_mut(*task as usize).filter(|found| found.state == TaskState::BackingOff) {
            found.state = TaskState::Pending;
            group.backing_off -= 1;
            group.pending.insert(*task, 1);
        }
    }
}

fn keep_both(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    let is_meant = |kind: &EventKind| matches!(kind, EventKind::Stopping { cause: StopCause::Reconciled, .. });
    for kind in former.take_back(applied, is_meant) {
        let EventKind::Stopping { job, group, task, node, .. } = kind else { continue };
        let Some(job) = cell.jobs.get_mut(job) else { continue };
        let group = &mut job.groups[usize::from(group)];
        if let Some(run) = cell.runs.get_mut(group.tasks[task as usize].run) {
            group.stopping -= 1;
            group.driven -= u32::from(run.stop.take().is_some_and(StopCause::is_loss));
        }
        settle_leaving(&mut Tx::new(cell, applied, &former.envelope.command), node);
    }
}

fn forget_kept(former: &Former, cell: &mut Cell, _: &mut Applied) {
    let is_new = |run: &RunRef| former.cell.kept.get(*run).is_none();
    let new: Vec<RunRef> = cell.kept.iter().map(|(run, _)| *run).filter(is_new).collect();
    for run in new {
        if let Some(kept) = cell.kept.remove(run) {
            cell.shapes.leave(kept.shape);
        }
    }
}

fn keep_ended_room(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    for kind in former.told(applied) {
        let EventKind::Ended { job, group, task, node, cause, .. } = kind else { continue };
        let before = &former.cell;
        let ended = before
            .jobs
            .get(*job)
            .and_then(|job| before.runs.get(job.groups.get(usize::from(*group))?.tasks.get(*task as usize)?.run));
        let Some(shape) = ended.and_then(|run| before.shapes.get(run.shape)) else { continue };
        if *cause != Some(StopCause::Restarted) && cell.nodes.get(*node).is_some() {
            shape.requests.iter().for_each(|(resource, request)| cell.nodes.give(*node, *resource, -request));
        }
    }
}

/// As if a person had released the node, but nobody is told.
fn forget_hold_down(former: &Former, cell: &mut Cell, applied: &mut Applied) {
    let Command::RegisterNode { spec, .. } = &former.envelope.command else { return };
    let Some(node) = cell.nodes.find(&spec.name) else { return };
    let mut tx = Tx::new(cell, applied, &former.envelope.command);
    tx.record_mut(node).flaps = Flaps::default();
    settle_taints(&mut tx, node);
}
