//! Provisioning classes, reports about checks, and where an admission stands, as text.

use super::Script;
use super::parse::{Words, pair, toleration};
use ohm_cell::{Job, Standing, request_id};
use ohm_model::{CheckReport, Command, Epoch, EventKind, Lease, Provisioner, ProvisioningClass, RequestChange};
use std::fmt::Write;

impl Words<'_> {
    /// `provisioning-class NAME sim|URL|PROGRAM [base=…] [factor=…] [max=…] [limit=…] [booking=…] [timeout=…]
    /// [idle=…] [exclusive] [param:KEY=VALUE…]`, all times in seconds.
    pub(super) fn provisioning_class(&mut self) -> ProvisioningClass {
        let name = self.need("name").to_string();
        let provisioner = match self.need("provisioner") {
            "sim" => Provisioner::Sim,
            url if url.contains("://") => Provisioner::Webhook { url: url.into() },
            program => Provisioner::Command { command: vec![program.trim_matches('"').to_string()] },
        };
        let mut class = ProvisioningClass::of(name, provisioner);
        class.retry.base_seconds = self.parsed("base", 60);
        class.retry.factor = self.parsed("factor", 2);
        class.retry.max_seconds = self.parsed("max", 1800);
        class.retry.limit = self.parsed("limit", 3);
        class.booking_seconds = self.parsed("booking", 0);
        class.timeout_seconds = self.parsed("timeout", 0);
        class.idle_seconds = self.parsed("idle", 60);
        class.exclusive = self.take("exclusive");
        class.parameters = self.all("param:").into_iter().map(pair).collect();
        class
    }
}

impl Script {
    /// `check JOB CLASS pending|ready|failed|expired|revoked [message=WORD] [select:KEY=VALUE…] [tolerate:KEY=VALUE…]
    /// [round=N] [repair=N] [epoch=N] [by=SESSION]`
    pub(super) fn check(&mut self, words: &mut Words) -> (String, Command) {
        let job = self.job_id(words.need("job"));
        let class = words.need("class").to_string();
        let kind = words.need("report");
        let known = self.cell.jobs().get(job).map_or(0, |job| job.admission.rounds);
        let round = words.parsed("round", known);
        let epoch = Epoch(words.parsed("epoch", self.cell.sessions().lease(Lease::Provisioning).epoch.0));
        let session = words.option("by").unwrap_or("provisioner").to_string();
        let repair = words.parsed("repair", 0);
        let message = words.option("message").unwrap_or_default().to_string();
        let report = match kind {
            "pending" => CheckReport::Pending { message },
            "ready" => CheckReport::Ready {
                node_selector: words.all("select:").into_iter().map(pair).collect(),
                tolerations: words.all("tolerate:").into_iter().map(toleration).collect(),
                message,
            },
            "failed" => CheckReport::Failed { message },
            "expired" => CheckReport::BookingExpired { message },
            "revoked" => CheckReport::CapacityRevoked { message },
            other => panic!("{other} is no report"),
        };
        (session, Command::ReportCheck { epoch, job, round, class, repair, report })
    }

    /// `released NODE… [epoch=N]`: those nodes were taken back, as far as they go back by now.
    pub(super) fn released(&mut self, words: &mut Words) -> (String, Command) {
        let held = self.cell.sessions().lease(Lease::Provisioning).epoch.0;
        let epoch = Epoch(words.parsed("epoch", held));
        let mut nodes = Vec::new();
        while let Some(name) = words.next() {
            let node = self.node_id(name);
            let since = self.cell.nodes().get(node).and_then(|record| record.releasing());
            nodes.push((node, since.unwrap_or_default()));
        }
        ("provisioner".to_string(), Command::ReportReleased { epoch, nodes })
    }

    pub(super) fn admission_text(&self, job: &Job, text: &mut String) {
        let standing = self.cell.standing(job);
        if job.admission == Default::default() && standing == Standing::Free {
            return;
        }
        write!(text, "\n    admission: {standing:?}, {} rounds", job.admission.rounds).unwrap();
        if job.admission.round.as_ref().is_some_and(|round| round.admitted) {
            text.push_str(", admitted");
        }
        for check in job.admission.round.iter().flat_map(|round| &round.checks) {
            write!(text, "\n      {}: {:?}, attempt {}", check.class, check.state, check.attempt).unwrap();
            write!(text, " as {}", request_id(job, &check.class)).unwrap();
            if !check.message.is_empty() {
                write!(text, ": {}", check.message).unwrap();
            }
        }
        for (at, group) in job.groups.iter().enumerate() {
            let Some(shape) = self.cell.shapes().get(group.shape) else { continue };
            let (own, name) = (&job.spec.groups[at], &job.spec.groups[at].name);
            if (&shape.node_selector, &shape.tolerations) != (&own.node_selector, &own.tolerations) {
                let taints: Vec<&str> = shape.tolerations.iter().map(|one| one.key.as_str()).collect();
                write!(text, "\n      {name} is placed on {:?}, tolerates {taints:?}", shape.node_selector).unwrap();
            }
        }
        if let Some(failed) = &job.admission.failed {
            write!(text, "\n      failed: {} attempt {}: {}", failed.class, failed.attempt, failed.message).unwrap();
        }
    }
}

/// An event about an admission.
pub(super) fn event_text(kind: &EventKind) -> String {
    match kind {
        EventKind::QuotaReserved { name, round, checks, .. } => {
            format!("{name} has its quota, round {round} asks {}", checks.join(", "))
        }
        EventKind::CheckChanged { name, class, attempt, state, message, wait_ms, .. } => {
            let wait = if *wait_ms > 0 { format!(", again in {wait_ms} ms") } else { String::new() };
            format!("check {class} of {name}, attempt {attempt}: {state} {message:?}{wait}")
        }
        EventKind::RepairRequest { name, change, .. } => {
            let RequestChange { class, number, attempt, state, tasks, message, wait_ms } = change;
            let wait = if *wait_ms > 0 { format!(", again in {wait_ms} ms") } else { String::new() };
            format!("repair of {name} asks {class}, {number} for {tasks}, attempt {attempt}: {state} {message:?}{wait}")
        }
        EventKind::ChecksReady { name, round, .. } => format!("{name} is ready to be placed, round {round}"),
        other => panic!("{other:?} is not about an admission"),
    }
}
