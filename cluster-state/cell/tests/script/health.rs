//! Probes of groups, and what they say of runs.

use super::Script;
use super::parse::Words;
use ohm_cell::Run;
use ohm_model::{EventKind, OnUnhealthy, Probe, ProbeAction, Probes};

impl Words<'_> {
    /// `probes=startup,readiness,liveness[,ignore]`
    pub(super) fn probes(&mut self) -> Option<Box<Probes>> {
        let mut probes = Probes::default();
        for word in self.option("probes")?.split(',') {
            let probe = Some(Probe::of(ProbeAction::TcpSocket { port: 80, host: String::new() }));
            match word {
                "startup" => probes.startup = probe,
                "readiness" => probes.readiness = probe,
                "liveness" => probes.liveness = probe,
                "ignore" => probes.on_unhealthy = OnUnhealthy::Ignore,
                // One that no node could make.
                "never" => probes.liveness = probe.map(|probe| Probe { period_seconds: 0, ..probe }),
                other => panic!("{other} is no probe"),
            }
        }
        Some(Box::new(probes))
    }
}

impl Script {
    pub(super) fn health_event(&self, kind: &EventKind) -> String {
        match kind {
            EventKind::Readiness(told) => {
                let run = format!("{}/{}/{}#{}", self.job_name(told.job), told.group, told.task, told.incarnation);
                let what = if told.ready { "is ready" } else { "is not ready" };
                format!("{run} on {} {what} {}", self.node_name(told.node), told.message).trim_end().to_string()
            }
            EventKind::Unhealthy(told) => {
                let run = format!("{}/{}/{}#{}", self.job_name(told.job), told.group, told.task, told.incarnation);
                let (node, wait_ms) = (self.node_name(told.node), told.back_off_ms);
                format!("{run} starts again on {node} in {wait_ms} ms {}", told.message).trim_end().to_string()
            }
            _ => panic!("{kind:?} is not about probes"),
        }
    }
}

/// What probes say of a run.
pub(super) fn of_run(run: &Run) -> String {
    match (&run.health, run.starts_ms()) {
        (None, _) => String::new(),
        (_, Some(starts_ms)) => format!(", starts at {starts_ms}"),
        (Some(health), _) if health.ready => ", ready".to_string(),
        (Some(health), _) if health.message.is_empty() => ", not ready".to_string(),
        (Some(health), _) => format!(", not ready: {}", health.message),
    }
}
