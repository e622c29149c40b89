//! Admissions as HTTP shows them.

use ohm_cell::{Cell, Check, CheckState, Job, JobState, Standing, request_id};
use ohm_model::resources::display;
use ohm_model::{EventKind, FlavorResource, Provisioner, ProvisioningClass};
use ohm_wire::api::{AdmissionView, CheckView, EventView, ProvisioningClassList, ProvisioningClassView, RetryView};
use std::collections::BTreeMap;

/// All provisioning classes.
pub(crate) fn provisioning_classes(cell: &Cell) -> ProvisioningClassList {
    let rounds = || cell.jobs().iter().filter_map(|job| job.admission.round.as_ref());
    let open = |class: &ProvisioningClass| {
        let is_open = |check: &&Check| check.class == class.name && check.state == CheckState::Pending;
        rounds().flat_map(|round| &round.checks).filter(is_open).count() as u64
    };
    let queues = |class: &ProvisioningClass| {
        let names =
            |queue: &&ohm_cell::QuotaNode| queue.spec.admission_checks.iter().any(|check| check.name == class.name);
        cell.quota().iter().filter(names).map(|queue| queue.spec.name.clone()).collect()
    };
    let classes = cell.provisioning_classes().iter().map(|class| ProvisioningClassView {
        name: class.name.clone(),
        provisioner: class.provisioner.name().to_string(),
        target: match &class.provisioner {
            Provisioner::Command { command } => command.join(" "),
            Provisioner::Webhook { url } => url.clone(),
            Provisioner::Sim => String::new(),
        },
        parameters: class.parameters.clone(),
        retry: RetryView {
            base_seconds: class.retry.base_seconds,
            factor: class.retry.factor,
            max_seconds: class.retry.max_seconds,
            limit: class.retry.limit,
        },
        booking_seconds: class.booking_seconds,
        timeout_seconds: class.timeout_seconds,
        call_timeout_seconds: class.call_timeout_seconds,
        poll_seconds: class.poll_seconds,
        watch_seconds: class.watch_seconds,
        exclusive: class.is_exclusive(),
        idle_seconds: class.idle_seconds,
        queues: queues(class),
        open: open(class),
    });
    ProvisioningClassList { provisioning_classes: classes.collect() }
}

/// Where the admission of `job` stands.
pub(super) fn admission(cell: &Cell, job: &Job) -> AdmissionView {
    let (admission, standing) = (&job.admission, cell.standing(job));
    let round = admission.round.as_ref();
    let (state, problem) = match standing {
        _ if job.state != JobState::Active => ("", String::new()),
        Standing::Free => ("", String::new()),
        Standing::Invalid(problem) => ("invalid", problem),
        Standing::BackOff(_) => ("backOff", String::new()),
        Standing::Unreserved => ("unreserved", String::new()),
        Standing::Checking => ("checking", String::new()),
        Standing::Ready if round.is_some_and(|round| round.admitted) => ("admitted", String::new()),
        Standing::Ready => ("ready", String::new()),
        Standing::Held(policy) => ("held", policy.reason(&job.spec.queue)),
        Standing::TimedOut(_) => ("notReady", job.reason.clone()),
    };
    let of_queue = cell.quota().get(&job.spec.queue).map_or(&[][..], |queue| &queue.spec.admission_checks);
    let on_flavors = |class: &str| of_queue.iter().find(|known| known.name == class).map(|known| &known.on_flavors);
    let check = |check: &Check| CheckView {
        class: check.class.clone(),
        on_flavors: on_flavors(&check.class).cloned().unwrap_or_default(),
        state: match check.state {
            CheckState::Pending => "pending",
            CheckState::Ready => "ready",
        }
        .to_string(),
        attempt: check.attempt,
        request: request_id(job, &check.class),
        message: check.message.clone(),
        since_ms: check.since_ms,
    };
    let failed = admission.failed.as_ref();
    let reserved = |(&column, &amount): (&FlavorResource, &i64)| {
        let resource = cell.resources().name(cell.quota().columns().resource(column));
        (ohm_cell::column_name(cell, column), display(resource, amount))
    };
    AdmissionView {
        state: state.to_string(),
        problem,
        round: if round.is_some() { admission.rounds } else { 0 },
        reserved: job.reserved.iter().map(reserved).collect(),
        checks: round.iter().flat_map(|round| &round.checks).map(check).collect(),
        next_attempt_ms: admission.back_off_ms,
        failed_check: failed.map(|failed| failed.class.clone()).unwrap_or_default(),
        failed_attempt: failed.map_or(0, |failed| failed.attempt),
        failed_message: failed.map(|failed| failed.message.clone()).unwrap_or_default(),
    }
}

/// An event about an admission.
pub(super) fn of_admission(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::QuotaReserved { name, round, checks, .. } => EventView {
            kind: "quotaReserved".into(),
            message: format!("job {name} has its quota; round {round} asks {}", checks.join(", ")),
            job: name.clone(),
            ..view
        },
        EventKind::FlavorsAssigned { name, groups, .. } => EventView {
            kind: "flavorsAssigned".into(),
            message: format!("job {name} has its flavors: {}", flavors_text(groups)),
            job: name.clone(),
            ..view
        },
        EventKind::CheckChanged { name, class, attempt, state, message, wait_ms, .. } => {
            let separator = if message.is_empty() { "" } else { ": " };
            let wait = match wait_ms {
                0 => String::new(),
                wait_ms => format!("; again in {} s", wait_ms.div_ceil(1000)),
            };
            let what = match state.as_str() {
                "retry" => "failed",
                state => state,
            };
            EventView {
                kind: "checkChanged".into(),
                message: format!("check {class} of job {name} {what}, attempt {attempt}{separator}{message}{wait}"),
                job: name.clone(),
                state: state.clone(),
                reason: message.clone(),
                ..view
            }
        }
        EventKind::ChecksReady { name, .. } => EventView {
            kind: "checksReady".into(),
            message: format!("job {name} is ready to be placed: all its checks are"),
            job: name.clone(),
            ..view
        },
        _ => view,
    }
}

/// `workers cpu=spot, memory=any; ps cpu=any`
fn flavors_text(groups: &[(String, BTreeMap<String, String>)]) -> String {
    let group = |(name, flavors): &(String, BTreeMap<String, String>)| {
        let flavors: Vec<String> = flavors.iter().map(|(resource, flavor)| format!("{resource}={flavor}")).collect();
        format!("{name} {}", flavors.join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}
