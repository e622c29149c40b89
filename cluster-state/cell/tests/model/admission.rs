//! Rounds of admission in the plain model.

use crate::state::{Alarm, Plain, PlainJob, State};
use ohm_model::selector::Labels;
use ohm_model::{
    CheckReport, ConflictReason, GroupSpec, JobId, OnDisconnect, ProvisioningClass, RetryPolicy, StopCause, StopPolicy,
    TaintEffect, Toleration, TolerationOperator,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainCheck {
    pub(crate) class: String,
    pub(crate) request: String,
    pub(crate) ready: bool,
    pub(crate) attempt: u32,
    pub(crate) since_ms: u64,
    pub(crate) labels: Labels,
    pub(crate) tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PlainAdmission {
    pub(crate) rounds: u32,
    /// Whether something was placed in it, and its checks.
    pub(crate) round: Option<(bool, Vec<PlainCheck>)>,
    pub(crate) back_off_ms: u64,
    pub(crate) failures: BTreeMap<String, u32>,
}

/// Where an admission stands.
#[derive(PartialEq, Eq)]
pub(crate) enum Stand {
    Free,
    Unreserved,
    Ready,
    Waits,
    Held(StopPolicy),
    TimedOut(u64),
}

/// The wait before the attempt that follows this one.
pub(crate) fn wait_ms(policy: RetryPolicy, attempt: u32) -> u64 {
    let mut wait = policy.base_seconds.min(policy.max_seconds);
    for _ in 1..attempt {
        wait = (wait * u64::from(policy.factor)).min(policy.max_seconds);
    }
    (wait * 1000).max(1)
}

impl PlainJob {
    /// Nothing is reserved any more.
    pub(crate) fn release(&mut self) {
        self.reserved = false;
        self.admission = PlainAdmission { rounds: self.admission.rounds, ..Default::default() };
    }

    /// The group with what the checks of a ready round add.
    pub(crate) fn filtered(&self, group: &GroupSpec) -> GroupSpec {
        let mut group = group.clone();
        let Some((_, checks)) = &self.admission.round else { return group };
        if checks.iter().all(|check| check.ready) {
            for check in checks {
                let own = group.node_selector.clone();
                group.node_selector.extend(check.labels.clone());
                group.node_selector.extend(own);
                group.tolerations.extend(check.tolerations.clone());
                group.tolerations.push(Toleration {
                    key: "provisioning.ohm/request".into(),
                    operator: TolerationOperator::Equal,
                    value: check.request.clone(),
                    effect: Some(TaintEffect::NoSchedule),
                    toleration_seconds: None,
                });
            }
        }
        group
    }
}

impl Plain {
    pub(crate) fn stand(&self, id: JobId) -> Stand {
        let held = self.held(id).map(Stand::Held);
        let held = held.or_else(|| self.jobs[&id].ready.until_ms.map(Stand::TimedOut));
        held.unwrap_or_else(|| self.stand_by_checks(id))
    }

    /// The checks of a queue; the model knows no flavors.
    fn classes_of(&self, queue: &str) -> Vec<String> {
        let checks = self.queues.get(queue).into_iter().flat_map(|queue| &queue.admission_checks);
        checks.map(|check| check.name.clone()).collect()
    }

    fn stand_by_checks(&self, id: JobId) -> Stand {
        let job = &self.jobs[&id];
        if let Some((_, checks)) = &job.admission.round {
            return if checks.iter().all(|check| check.ready) { Stand::Ready } else { Stand::Waits };
        }
        let checks = self.classes_of(&job.spec.queue);
        let stands = self.runs.iter().any(|run| run.job == id && run.stop.is_none());
        if checks.is_empty() || stands {
            return Stand::Free;
        }
        let known = checks.iter().all(|class| self.provisioning_classes.contains_key(class));
        if known && job.admission.back_off_ms == 0 { Stand::Unreserved } else { Stand::Waits }
    }

    pub(crate) fn judge_admitted(&self, id: JobId) -> Result<(), ConflictReason> {
        let stand = match self.stand(id) {
            Stand::Held(StopPolicy::Hold) if self.adopts => self.stand_by_checks(id),
            stand => stand,
        };
        match stand {
            Stand::Free | Stand::Ready => Ok(()),
            Stand::Held(_) => Err(ConflictReason::QueueHeld),
            Stand::TimedOut(until_ms) => Err(ConflictReason::BacksOff(until_ms)),
            Stand::Unreserved | Stand::Waits => Err(ConflictReason::NotReserved),
        }
    }

    pub(crate) fn judge_pass_one(&self, id: JobId) -> Result<(), ConflictReason> {
        self.judge_not_held(id)?;
        let job = &self.jobs[&id];
        let may = job.reserved || matches!(self.stand(id), Stand::Free | Stand::Unreserved);
        if may { Ok(()) } else { Err(ConflictReason::NotReserved) }
    }

    pub(crate) fn note_admitted(&mut self, id: JobId) {
        let admission = &mut self.jobs.get_mut(&id).expect("a job").admission;
        if let Some((admitted, _)) = &mut admission.round {
            *admitted = true;
            admission.failures.clear();
        }
    }

    /// What a row reserved asks the checks of its queue, reserved just now or before there were any.
    pub(crate) fn open_round(&mut self, id: JobId) {
        let index = self.index;
        let job = &self.jobs[&id];
        if !job.reserved || self.stand(id) != Stand::Unreserved {
            return;
        }
        let classes = self.classes_of(&job.spec.queue);
        let since_ms = self.now_ms;
        let requests = classes.iter().map(|class| self.request_label(id, job.admission.rounds + 1, class));
        let requests: BTreeMap<String, String> = classes.iter().cloned().zip(requests).collect();
        let job = self.jobs.get_mut(&id).expect("a job");
        job.version = index;
        let check = |class: &String| PlainCheck {
            class: class.clone(),
            request: requests[class].clone(),
            ready: false,
            attempt: job.admission.failures.get(class).copied().unwrap_or(0) + 1,
            since_ms,
            labels: Labels::new(),
            tolerations: Vec::new(),
        };
        let checks = classes.iter().map(check).collect();
        job.admission.rounds += 1;
        job.admission.round = Some((false, checks));
        let round = job.admission.rounds;
        for class in classes {
            let seconds = self.provisioning_classes[&class].timeout_seconds;
            if seconds > 0 {
                self.alarm(since_ms + seconds * 1000, Alarm::Admission(id, round));
            }
        }
    }

    pub(crate) fn settle_stranded(&mut self, id: JobId) {
        let version = self.index;
        let job = self.jobs.get_mut(&id).expect("a job");
        let admitted = job.admission.round.as_ref().is_some_and(|round| round.0);
        if admitted && job.live() == 0 && job.spec.on_disconnect == OnDisconnect::Stop {
            job.release();
            job.version = version;
        }
    }

    pub(crate) fn settle_preempted(&mut self, id: JobId) {
        let version = self.index;
        let stays = self.runs.iter().any(|run| run.job == id && run.stop.is_none());
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let admitted = job.admission.round.as_ref().is_some_and(|round| round.0);
        if admitted && !stays && job.live() > 0 {
            job.release();
            job.version = version;
        }
    }

    pub(crate) fn recheck(&mut self, queue: &str) {
        let (checks, version) = (self.classes_of(queue), self.index);
        for job in self.jobs.values_mut().filter(|job| job.spec.queue == queue) {
            let asked = job.admission.round.as_ref().filter(|round| !round.0);
            let asked: Option<Vec<String>> =
                asked.map(|round| round.1.iter().map(|check| check.class.clone()).collect());
            if asked.is_some_and(|asked| asked != checks) {
                job.release();
                job.version = version;
            }
        }
    }

    pub(crate) fn put_provisioning_class(&mut self, class: &ProvisioningClass) -> bool {
        self.provisioning_classes.insert(class.name.clone(), class.clone());
        self.watch_class(&class.name);
        true
    }

    pub(crate) fn remove_provisioning_class(&mut self, name: &str) -> bool {
        let named = self.queues.values().any(|queue| queue.admission_checks.iter().any(|check| check.name == name));
        let rounds = self.jobs.values().filter_map(|job| job.admission.round.as_ref());
        let asked = rounds.flat_map(|round| &round.1).any(|check| check.class == name);
        !named && !asked && !self.has_brought(name) && self.provisioning_classes.remove(name).is_some()
    }

    /// Whether the report is about something that is asked.
    pub(crate) fn report_check(&mut self, id: JobId, round: u32, class: &str, report: &CheckReport) -> bool {
        let now_ms = self.now_ms;
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.admission.rounds == round) else { return false };
        let Some((admitted, checks)) = &mut job.admission.round else { return false };
        let Some(at) = checks.iter().position(|check| check.class == class) else { return false };
        let (admitted, was_ready, attempt) = (*admitted, checks[at].ready, checks[at].attempt);
        match report {
            CheckReport::Ready { node_selector, tolerations, .. } if !was_ready => {
                let differs = |labels: &Labels| {
                    node_selector.iter().any(|(key, value)| labels.get(key).is_some_and(|other| other != value))
                };
                let clash = checks.iter().any(|check| differs(&check.labels))
                    || job.spec.groups.iter().any(|group| differs(&group.node_selector));
                let check = &mut checks[at];
                (check.ready, check.since_ms) = (true, now_ms);
                (check.labels, check.tolerations) = (node_selector.clone(), tolerations.clone());
                let all = checks.iter().all(|check| check.ready);
                if clash {
                    self.reject(id);
                    return true;
                }
                if all {
                    job.version = self.index;
                }
                let seconds = self.provisioning_classes[class].booking_seconds;
                if seconds > 0 {
                    self.alarm(now_ms + seconds * 1000, Alarm::Admission(id, round));
                }
            }
            CheckReport::Failed { .. } if !was_ready => self.fail(id, class, attempt),
            CheckReport::BookingExpired { .. } if !admitted => self.fail(id, class, attempt),
            CheckReport::CapacityRevoked { .. } => self.reject(id),
            _ => {}
        }
        true
    }

    fn fail(&mut self, id: JobId, class: &str, attempt: u32) {
        let policy = self.provisioning_classes[class].retry;
        let (index, now_ms) = (self.index, self.now_ms);
        if attempt > policy.limit {
            return self.reject(id);
        }
        let due_ms = now_ms + wait_ms(policy, attempt);
        let job = self.jobs.get_mut(&id).expect("a job");
        job.admission.failures.insert(class.to_string(), attempt);
        (job.reserved, job.version) = (false, index);
        (job.admission.round, job.admission.back_off_ms) = (None, due_ms);
        let round = job.admission.rounds;
        self.alarm(due_ms, Alarm::Admission(id, round));
        self.clear_holds(id);
    }

    fn reject(&mut self, id: JobId) {
        let index = self.index;
        let job = self.jobs.get_mut(&id).expect("a job");
        job.release();
        job.drop_repair();
        (job.state, job.version) = (State::Suspended, index);
        self.forget_kept_of(id);
        self.stop_job(id, StopCause::CapacityRevoked);
    }

    pub(crate) fn admission_due(&mut self, id: JobId, round: u32) {
        let now_ms = self.now_ms;
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.admission.rounds == round) else { return };
        let Some((admitted, checks)) = &job.admission.round else {
            if job.admission.back_off_ms <= now_ms {
                job.admission.back_off_ms = 0;
            }
            return;
        };
        let is_over = |check: &&PlainCheck| {
            let class = &self.provisioning_classes[&check.class];
            let seconds = if check.ready { class.booking_seconds } else { class.timeout_seconds };
            seconds > 0 && !(check.ready && *admitted) && check.since_ms + seconds * 1000 <= now_ms
        };
        let over = checks.iter().find(is_over).map(|check| (check.class.clone(), check.attempt));
        over.into_iter().for_each(|(class, attempt)| self.fail(id, &class, attempt));
    }
}
