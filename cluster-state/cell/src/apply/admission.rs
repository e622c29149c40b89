//! Rounds of admission: how they open, what reports do to them, and how they end.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::state::admission::{Check, CheckState, FailedCheck, Round, Standing};
use crate::state::jobs::{Group, Job, JobState};
use crate::state::runs::NO_RUN;
use ohm_model::provisioning::{PART_BYTES_MAX, PARTS_MAX};
use ohm_model::selector::Labels;
use ohm_model::{
    CheckReport, Epoch, EventKind, GroupIndex, Index, JobId, Lease, MESSAGE_CHARS_MAX, OnDisconnect, Outcome, Refusal,
    RunRef, SessionId, ShapeId, StopCause, Toleration, node::HOSTNAME_LABEL,
};
use ohm_stdx::canary::{self, Canary};

/// Which check of which round a report is about.
#[derive(Clone, Copy)]
pub(super) struct CheckName<'a> {
    pub(super) job: JobId,
    pub(super) round: u32,
    pub(super) class: &'a str,
}

impl Cell {
    /// The quota of `job` is reserved now: when its queue has checks, they are asked.
    pub(super) fn open_round(&mut self, id: JobId, applied: &mut Applied) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(queue) = self.quota.get(&job.spec.queue) else { return };
        let classes = queue.spec.admission_checks.clone();
        let (since, since_ms) = (self.applied, self.now_ms);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let attempt = |class: &String| job.admission.failures.get(class).copied().unwrap_or(0).saturating_add(1);
        let checks: Vec<Check> = classes
            .iter()
            .map(|class| Check {
                class: class.clone(),
                state: CheckState::Pending,
                attempt: attempt(class),
                message: String::new(),
                since_ms,
                node_selector: Labels::new(),
                tolerations: Vec::new(),
            })
            .collect();
        let again = !job.admission.failures.is_empty() && canary::sings(Canary::SameRequest);
        job.admission.rounds += u32::from(!again);
        job.admission.back_off_ms = 0;
        job.admission.round = Some(Round { since, since_ms, admitted: false, checks });
        let (name, round) = (job.spec.name.clone(), job.admission.rounds);
        let timeouts = classes.iter().filter_map(|class| self.provisioning_classes.get(class));
        let timeouts: Vec<u64> = timeouts.map(|class| class.timeout_seconds).filter(|seconds| *seconds > 0).collect();
        for seconds in timeouts {
            self.arm(since_ms.saturating_add(seconds.saturating_mul(1000)), Timer::Admission(id, round));
        }
        self.tell(applied, EventKind::QuotaReserved { job: id, name, round, checks: classes });
    }

    /// Something was placed: what happened on the way here counts no more.
    pub(super) fn note_admitted(&mut self, id: JobId) {
        if self.jobs.get(id).is_some_and(|job| job.admission.round.as_ref().is_some_and(|round| !round.admitted))
            && let Some(job) = self.jobs.get_mut(id)
            && let Some(round) = &mut job.admission.round
        {
            round.admitted = true;
            job.admission.failures.clear();
            job.admission.failed = None;
        }
    }

    /// Ends the open round of `job`, if there is one: nothing is placed under it any more.
    pub(super) fn end_round(&mut self, id: JobId) {
        if self.jobs.get(id).is_none_or(|job| job.admission.round.is_none()) {
            return;
        }
        if !canary::sings(Canary::KeepRound)
            && let Some(job) = self.jobs.get_mut(id)
        {
            job.admission.round = None;
        }
        if !canary::sings(Canary::KeepUpdates) {
            self.reshape(id);
        }
    }

    /// Gives the groups of `job` the shapes they have now, with what checks add or without.
    fn reshape(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id).cloned() else { return };
        for (at, (group, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
            let Some(former) = self.shapes.get(group.shape) else { continue };
            let (node_selector, tolerations) = job.admission.filters(spec);
            if former.node_selector == node_selector && former.tolerations == tolerations {
                continue;
            }
            let mut shape = (**former).clone();
            shape.names_hosts = spec.names_hosts() || node_selector.contains_key(HOSTNAME_LABEL);
            (shape.node_selector, shape.tolerations) = (node_selector, tolerations);
            let joined = self.shapes.join(shape);
            self.shapes.leave(group.shape);
            if let Some(job) = self.jobs.get_mut(id) {
                job.groups[at].shape = joined;
            }
            self.reshape_runs((id, at), group, joined);
            self.count_reshaped(id, at);
        }
        self.settle_leaving_by(id);
    }

    /// What checks add holds for what stands already, too: runs with the former shape of `group` have its new one.
    fn reshape_runs(&mut self, (id, at): (JobId, usize), group: &Group, joined: ShapeId) {
        for task in group.tasks.iter().filter(|task| task.run != NO_RUN) {
            if let Some(run) = self.runs.slab.get_mut(task.run).filter(|run| run.shape == group.shape) {
                run.shape = joined;
                self.shapes.leave(group.shape);
                self.shapes.join_again(joined, 1);
            }
        }
        let is_meant = |run: &RunRef, shape| run.task.group == GroupIndex(at as u16) && shape == group.shape;
        let kept = self.kept.of_job(id).filter(|(run, kept)| is_meant(run, kept.shape)).map(|(run, _)| *run);
        for run in kept.collect::<Vec<_>>() {
            self.kept.set_shape(run, joined);
            self.shapes.leave(group.shape);
            self.shapes.join_again(joined, 1);
        }
    }

    /// Counts the live runs of group `at` that have another shape than the group.
    pub(super) fn count_reshaped(&mut self, id: JobId, at: usize) {
        let Some(job) = self.jobs.get(id) else { return };
        let (shape, live) = (job.groups[at].shape, job.groups[at].tasks.iter().filter(|task| task.run != NO_RUN));
        let other = |slot: u32| self.runs.get(slot).is_some_and(|run| run.shape != shape);
        let reshaped = live.filter(|task| other(task.run)).count() as u32;
        if let Some(job) = self.jobs.get_mut(id) {
            job.groups[at].reshaped = reshaped;
        }
    }

    pub(super) fn report_check(
        &mut self,
        (session, epoch): (SessionId, Epoch),
        check: CheckName<'_>,
        report: &CheckReport,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if !self.sessions.holds(Lease::Provisioning, session, epoch) {
            return Err(Refusal::LeaseMoved { epoch: self.sessions.lease(Lease::Provisioning).epoch });
        }
        let missing = || Refusal::NotFound { kind: "job".into(), name: check.job.to_string() };
        let job = self.jobs.get(check.job).ok_or_else(missing)?;
        let meant = job.admission.rounds == check.round || canary::sings(Canary::StaleCheck);
        let round = job.admission.round.as_ref().filter(|_| meant);
        let found = round.and_then(|round| {
            let at = round.checks.iter().position(|found| found.class == check.class)?;
            Some((round.admitted, round.checks[at].clone()))
        });
        let Some((admitted, found)) = found else {
            let (kind, name) = ("job".into(), job.spec.name.clone());
            return Err(Refusal::Changed { kind, name, version: job.version });
        };
        let message: String = report.message().chars().take(MESSAGE_CHARS_MAX).collect();
        match report {
            CheckReport::Pending { .. } if found.state == CheckState::Pending && found.message != message => {
                self.change_check(check, applied, |found| found.message = message);
            }
            CheckReport::Ready { node_selector, tolerations, .. } if found.state == CheckState::Pending => {
                check_updates(node_selector, tolerations)?;
                let clash = clash(job, node_selector);
                self.ready_check(check, &message, (node_selector, tolerations), clash, applied);
            }
            CheckReport::Failed { .. } if found.state == CheckState::Pending => {
                self.fail_check(check, message, applied);
            }
            CheckReport::BookingExpired { .. } if !admitted => self.fail_check(check, message, applied),
            CheckReport::CapacityRevoked { .. } => {
                self.reject(check, found.attempt, message, applied);
            }
            // Said before, or no news for a job that is placed.
            _ => {}
        }
        Ok(Outcome::Done)
    }

    fn change_check(&mut self, name: CheckName<'_>, applied: &mut Applied, change: impl FnOnce(&mut Check)) {
        let Some(job) = self.jobs.get_mut(name.job) else { return };
        let checks = job.admission.round.as_mut().map(|round| &mut round.checks);
        if let Some(check) = checks.and_then(|checks| checks.iter_mut().find(|check| check.class == name.class)) {
            change(check);
            applied.jobs.push(name.job);
        }
    }

    fn ready_check(
        &mut self,
        name: CheckName<'_>,
        message: &str,
        (node_selector, tolerations): (&Labels, &[Toleration]),
        clash: Option<String>,
        applied: &mut Applied,
    ) {
        let now_ms = self.now_ms;
        let mut attempt = 0;
        self.change_check(name, applied, |check| {
            attempt = check.attempt;
            (check.state, check.since_ms) = (CheckState::Ready, now_ms);
            check.message = message.to_string();
            check.node_selector = node_selector.clone();
            check.tolerations = tolerations.to_vec();
        });
        if let Some(clash) = clash {
            return self.reject(name, attempt, clash, applied);
        }
        self.tell_check(name, attempt, "ready", (message, 0), applied);
        let class = self.provisioning_classes.get(name.class);
        let booking_seconds = class.map_or(0, |class| class.booking_seconds);
        if booking_seconds > 0 {
            let due_ms = now_ms.saturating_add(booking_seconds.saturating_mul(1000));
            self.arm(due_ms, Timer::Admission(name.job, name.round));
        }
        let version = self.applied;
        let Some(job) = self.jobs.get_mut(name.job).filter(|job| job.admission.ready().is_some()) else { return };
        job.version = version;
        let (title, round) = (job.spec.name.clone(), job.admission.rounds);
        self.reshape(name.job);
        self.tell(applied, EventKind::ChecksReady { job: name.job, name: title, round });
    }

    /// A check failed before the job was admitted: its quota is free again, and it waits for another attempt, or is
    /// suspended when that was the last one.
    fn fail_check(&mut self, name: CheckName<'_>, message: String, applied: &mut Applied) {
        let policy = self.provisioning_classes.get(name.class).map(|class| class.retry).unwrap_or_default();
        let Some(job) = self.jobs.get_mut(name.job) else { return };
        let failures = job.admission.failures.entry(name.class.to_string()).or_insert(0);
        *failures = failures.saturating_add(1);
        let attempt = *failures;
        if attempt > policy.limit {
            return self.reject(name, attempt, message, applied);
        }
        let wait_ms = policy.wait_ms(attempt);
        self.end_round(name.job);
        self.give_back_reservation(name.job);
        self.clear_nominations(name.job, applied);
        let (version, due_ms) = (self.applied, self.now_ms.saturating_add(wait_ms.max(1)));
        let Some(job) = self.jobs.get_mut(name.job) else { return };
        let round = job.admission.rounds;
        (job.version, job.admission.back_off_ms) = (version, due_ms);
        let class = name.class.to_string();
        job.admission.failed = Some(FailedCheck { class, attempt, message: message.clone() });
        self.arm(due_ms, Timer::Admission(name.job, round));
        self.tell_check(name, attempt, "retry", (&message, wait_ms), applied);
        applied.jobs.push(name.job);
    }

    /// There will be no nodes: the job stays suspended until somebody resumes it.
    fn reject(&mut self, name: CheckName<'_>, attempt: u32, message: String, applied: &mut Applied) {
        let id = name.job;
        self.tell_check(name, attempt, "rejected", (&message, 0), applied);
        self.release_reservation(id);
        self.drop_repair(id);
        let separator = if message.is_empty() { "" } else { ": " };
        let reason = format!("rejected by check {} (attempt {attempt}){separator}{message}", name.class);
        if let Some(job) = self.jobs.get_mut(id) {
            job.admission.failed = Some(FailedCheck { class: name.class.to_string(), attempt, message });
        }
        self.set_state(id, JobState::Suspended, reason.clone(), applied);
        self.forget_kept_of(id, applied);
        self.stop_runs(id, StopCause::CapacityRevoked, applied);
        self.clear_nominations(id, applied);
        self.tell_state(id, &reason, applied);
    }

    fn tell_check(
        &self,
        name: CheckName<'_>,
        attempt: u32,
        state: &str,
        (message, wait_ms): (&str, u64),
        applied: &mut Applied,
    ) {
        let Some(job) = self.jobs.get(name.job) else { return };
        let (class, state) = (name.class.to_string(), state.to_string());
        let (job, name) = (name.job, job.spec.name.clone());
        self.tell(
            applied,
            EventKind::CheckChanged { job, name, class, attempt, state, message: message.into(), wait_ms },
        );
    }

    /// The time of a back-off, of a request or of a booking may be over.
    pub(super) fn admission_due(&mut self, id: JobId, number: u32, applied: &mut Applied) {
        let now_ms = self.now_ms;
        let Some(job) = self.jobs.get(id).filter(|job| job.admission.rounds == number) else { return };
        let Some(round) = &job.admission.round else {
            let waits = job.admission.back_off_ms > 0 && job.admission.back_off_ms <= now_ms;
            if waits && let Some(job) = self.jobs.get_mut(id) {
                applied.jobs.push(id);
                if !canary::sings(Canary::EndlessBackOff) {
                    job.admission.back_off_ms = 0;
                }
            }
            return;
        };
        let due = round.checks.iter().find_map(|check| {
            let class = self.provisioning_classes.get(&check.class)?;
            let (seconds, what) = match check.state {
                CheckState::Pending => (class.timeout_seconds, "no answer within timeoutSeconds"),
                CheckState::Ready if round.admitted => (0, ""),
                CheckState::Ready => (class.booking_seconds, "not placed within bookingSeconds"),
            };
            let is_over = seconds > 0 && check.since_ms.saturating_add(seconds.saturating_mul(1000)) <= now_ms;
            is_over.then(|| (check.class.clone(), format!("{what} ({seconds})")))
        });
        if let Some((class, message)) = due {
            self.fail_check(CheckName { job: id, round: number, class: &class }, message, applied);
        }
    }

    /// The checks of `queue` are others now: what was asked for jobs that are not placed yet is void.
    pub(super) fn recheck(&mut self, queue: &str, applied: &mut Applied) {
        let Some(spec) = self.quota.get(queue).map(|node| node.spec.clone()) else { return };
        let is_void = |job: &&std::sync::Arc<Job>| {
            let round = job.admission.round.as_ref().filter(|round| job.spec.queue == queue && !round.admitted);
            round.is_some_and(|round| !round.checks.iter().map(|check| &check.class).eq(&spec.admission_checks))
        };
        let void: Vec<JobId> = self.jobs.iter().filter(is_void).map(|job| job.id).collect();
        for id in void {
            self.release_reservation(id);
            self.move_version(id, applied);
        }
    }

    /// Everything that stood of an admitted job was lost, and perhaps the nodes that were brought for it are gone for
    /// good: it asks anew, unless its runs may live on there.
    pub(super) fn settle_stranded(&mut self, id: JobId, applied: &mut Applied) {
        let is_stranded = |job: &Job| job.live() == 0 && job.spec.on_disconnect == OnDisconnect::Stop;
        self.end_admitted_round(id, is_stranded, applied);
    }

    /// Everything that stood of an admitted job was taken for more important work: its quota is free again.
    pub(super) fn settle_preempted(&mut self, id: JobId, applied: &mut Applied) {
        let is_out = |job: &Job| job.live() > 0 && job.groups.iter().all(|group| group.live == group.stopping);
        self.end_admitted_round(id, is_out, applied);
    }

    /// An admitted job of which `is_over` holds gives its quota back and asks anew.
    fn end_admitted_round(&mut self, id: JobId, is_over: impl Fn(&Job) -> bool, applied: &mut Applied) {
        let admitted = |job: &Job| job.admission.round.as_ref().is_some_and(|round| round.admitted);
        if self.jobs.get(id).is_some_and(|job| admitted(job) && is_over(job)) {
            self.release_reservation(id);
            self.move_version(id, applied);
        }
    }

    fn move_version(&mut self, id: JobId, applied: &mut Applied) {
        let version: Index = self.applied;
        if let Some(job) = self.jobs.get_mut(id) {
            job.version = version;
            applied.jobs.push(id);
        }
    }

    /// Whether a reservation may be made for `job` now.
    pub(crate) fn may_reserve(&self, job: &Job) -> bool {
        matches!(self.standing(job), Standing::Free | Standing::Unreserved)
    }
}

fn check_updates(labels: &Labels, tolerations: &[Toleration]) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    let too_long = |text: &&String| text.len() > PART_BYTES_MAX;
    if labels.len() > PARTS_MAX || labels.keys().chain(labels.values()).any(|text| too_long(&text)) {
        return invalid("nodeSelector", format!("at most {PARTS_MAX} labels of {PART_BYTES_MAX} bytes are possible"));
    }
    let words = tolerations.iter().flat_map(|toleration| [&toleration.key, &toleration.value]);
    if tolerations.len() > PARTS_MAX || words.into_iter().any(|text| too_long(&text)) {
        return invalid("tolerations", format!("at most {PARTS_MAX} of {PART_BYTES_MAX} bytes are possible"));
    }
    Ok(())
}

/// Where labels that a check asks for contradict the job's own or another check's.
fn clash(job: &Job, labels: &Labels) -> Option<String> {
    let own = job.spec.groups.iter().map(|group| (format!("group {}", group.name), &group.node_selector));
    let checks = job.admission.round.iter().flat_map(|round| &round.checks);
    let others = checks.map(|check| (format!("check {}", check.class), &check.node_selector));
    let mut asked = own.chain(others);
    asked.find_map(|(who, asked)| {
        let (key, value) = labels.iter().find(|(key, value)| asked.get(*key).is_some_and(|other| other != *value))?;
        Some(format!("it says {key}={value}, and {who} {key}={}", asked[key]))
    })
}
