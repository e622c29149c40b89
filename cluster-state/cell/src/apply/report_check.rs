//! The provisioning duty reports what a check has come to.

use crate::apply::Tx;
use crate::apply::steps::duty::check_duty;
use crate::apply::steps::names::check_names;
use crate::apply::steps::rounds::reshape;
use crate::cell::Cell;
use crate::policy::admission::{CheckName, change_check, fail_check, reject, tell_check};
use crate::policy::repair_requests::{fail_request, note_request, ready_request};
use crate::state::admission::CheckState;
use crate::state::jobs::Job;
use crate::state::offers::own_filters_of;
use crate::state::repairs::RequestState;
use crate::state::timers::Timer;
use ohm_model::provisioning::{PART_BYTES_MAX, PARTS_MAX};
use ohm_model::selector::Labels;
use ohm_model::{
    CheckReport, Epoch, EventKind, JobId, Lease, MESSAGE_CHARS_MAX, Outcome, Refusal, SessionId, Toleration,
};

pub(crate) fn report_check(
    tx: &mut Tx<'_>,
    holder: (SessionId, Epoch),
    (check, repair): (CheckName<'_>, u32),
    report: &CheckReport,
) -> Result<Outcome, Refusal> {
    check_duty(tx, Lease::Provisioning, holder)?;
    let missing = || Refusal::NotFound { kind: "job".into(), name: check.job.to_string() };
    let job = tx.jobs.get(check.job).ok_or_else(missing)?;
    let changed = || Refusal::Changed { kind: "job".into(), name: job.spec.name.clone(), version: job.version };
    let round = job.admission.round.as_ref().filter(|_| job.admission.rounds == check.round).ok_or_else(changed)?;
    let message: String = report.message().chars().take(MESSAGE_CHARS_MAX).collect();
    if repair > 0 {
        let mut requests = job.repairs.open.iter().flat_map(|open| &open.requests);
        let meant = requests.find(|request| request.number == repair && request.class == check.class);
        let state = meant.ok_or_else(changed)?.state;
        report_request(tx, (check.job, repair), state, report, message);
        return Ok(Outcome::Done);
    }
    let found = round.checks.iter().find(|found| found.class == check.class).ok_or_else(changed)?;
    let (admitted, found) = (round.admitted, found.clone());
    match report {
        CheckReport::Pending { .. } if found.state == CheckState::Pending && found.message != message => {
            change_check(tx, check, |found| found.message = message);
        }
        CheckReport::Ready { node_selector, tolerations, .. } if found.state == CheckState::Pending => {
            check_updates(node_selector, tolerations)?;
            check_names(&(node_selector, tolerations.as_slice()))?;
            let clash = clash(tx, job, node_selector);
            ready_check(tx, check, &message, (node_selector, tolerations), clash);
        }
        CheckReport::Failed { .. } if found.state == CheckState::Pending => {
            fail_check(tx, check, message);
        }
        CheckReport::BookingExpired { .. } if !admitted => fail_check(tx, check, message),
        CheckReport::CapacityRevoked { .. } => {
            reject(tx, check, found.attempt, message);
        }
        // Said before, or no news for a job that is placed.
        _ => {}
    }
    Ok(Outcome::Done)
}

/// What is said of a request that a repair has made, and that is in `state`. Filters stay what they are: a job that
/// runs is not moved for the sake of nodes that are to come.
fn report_request(
    tx: &mut Tx<'_>,
    (job, number): (JobId, u32),
    state: RequestState,
    report: &CheckReport,
    message: String,
) {
    match report {
        CheckReport::Pending { .. } if state == RequestState::Pending => note_request(tx, job, number, message),
        CheckReport::Ready { .. } if state == RequestState::Pending => ready_request(tx, job, number, message),
        CheckReport::Failed { .. } if state != RequestState::Pending => {}
        CheckReport::Failed { .. } | CheckReport::BookingExpired { .. } | CheckReport::CapacityRevoked { .. } => {
            fail_request(tx, job, number, message);
        }
        // Said before.
        CheckReport::Pending { .. } | CheckReport::Ready { .. } => {}
    }
}

fn ready_check(
    tx: &mut Tx<'_>,
    name: CheckName<'_>,
    message: &str,
    (node_selector, tolerations): (&Labels, &[Toleration]),
    clash: Option<String>,
) {
    let now_ms = tx.now_ms;
    let mut attempt = 0;
    change_check(tx, name, |check| {
        attempt = check.attempt;
        (check.state, check.since_ms) = (CheckState::Ready, now_ms);
        check.message = message.to_string();
        check.node_selector = node_selector.clone();
        check.tolerations = tolerations.to_vec();
    });
    if let Some(clash) = clash {
        return reject(tx, name, attempt, clash);
    }
    tell_check(tx, name, attempt, "ready", (message, 0));
    let class = tx.provisioning_classes.get(name.class);
    let booking_seconds = class.map_or(0, |class| class.booking_seconds);
    if booking_seconds > 0 {
        let due_ms = now_ms.saturating_add(booking_seconds.saturating_mul(1000));
        tx.arm(due_ms, Timer::Admission(name.job, name.round));
    }
    let version = tx.index();
    let job = tx.job_mut(name.job);
    if job.admission.ready().is_none() {
        return;
    }
    job.version = version;
    let (title, round) = (job.spec.name.clone(), job.admission.rounds);
    reshape(tx, name.job);
    tx.tell(EventKind::ChecksReady { job: name.job, name: title, round });
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

/// Where labels that a check asks for contradict the job's own, those of its flavors, or another check's.
fn clash(cell: &Cell, job: &Job, labels: &Labels) -> Option<String> {
    let groups = job.spec.groups.iter().enumerate();
    let own = groups.map(|(at, group)| (format!("group {}", group.name), own_filters_of(cell, job, at).labels));
    let checks = job.admission.round.iter().flat_map(|round| &round.checks);
    let others = checks.map(|check| (format!("check {}", check.class), check.node_selector.clone()));
    let mut asked = own.chain(others);
    asked.find_map(|(who, asked)| {
        let (key, value) = labels.iter().find(|(key, value)| asked.get(*key).is_some_and(|other| other != *value))?;
        Some(format!("it says {key}={value}, and {who} {key}={}", asked[key]))
    })
}
