//! Figures for Prometheus, from what entries cause.

use ohm_cell::Applied;
use ohm_log::Alarm;
use ohm_model::{EventKind, Index, NodeHealth};

/// Counts what happens on this server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter;

impl Meter {
    /// Counts what one entry caused.
    pub(crate) fn applied(self, index: Index, applied: &Applied) {
        metrics::gauge!("ohm_applied_index").set(index.0 as f64);
        metrics::counter!("ohm_entries_total").increment(1);
        metrics::counter!("ohm_commands_total").increment(applied.outcomes.len() as u64);
        for event in &applied.events {
            match &event.kind {
                EventKind::JobSubmitted { .. } => metrics::counter!("ohm_jobs_submitted_total").increment(1),
                EventKind::Placed { count, .. } => {
                    metrics::counter!("ohm_tasks_placed_total").increment(u64::from(*count));
                }
                EventKind::Started { .. } => metrics::counter!("ohm_runs_started_total").increment(1),
                EventKind::Ended { exit, .. } => {
                    let how = if exit.is_success() {
                        "success"
                    } else if exit.is_charged() {
                        "failure"
                    } else {
                        "lost"
                    };
                    metrics::counter!("ohm_runs_ended_total", "how" => how).increment(1);
                }
                EventKind::Conflicted { scheduler, reasons } => {
                    // Each is planned again on what the cell has become.
                    metrics::counter!("ohm_conflicted_plans_total", "scheduler" => scheduler.clone()).increment(1);
                    for (reason, count) in reasons {
                        let labels = [("scheduler", scheduler.clone()), ("reason", reason.name().to_string())];
                        metrics::counter!("ohm_conflicts_total", &labels).increment(u64::from(*count));
                    }
                }
                EventKind::NodeHealth { health: NodeHealth::Lost, .. } => {
                    metrics::counter!("ohm_nodes_lost_total").increment(1);
                }
                _ => {}
            }
        }
    }

    /// Counts an alarm of the log.
    pub(crate) fn alarm(self, alarm: &Alarm) {
        metrics::counter!("ohm_alarms_total").increment(1);
        match alarm {
            Alarm::DiskFull { .. } => metrics::gauge!("ohm_disk_full").set(1.0),
            Alarm::DiskRoom => metrics::gauge!("ohm_disk_full").set(0.0),
            Alarm::EngineLost { .. } => metrics::gauge!("ohm_etcd_lost").set(1.0),
            Alarm::EngineBack => metrics::gauge!("ohm_etcd_lost").set(0.0),
            Alarm::TailCut { .. }
            | Alarm::SnapshotDamaged { .. }
            | Alarm::OldEngine { .. }
            | Alarm::EventsMissed { .. } => {}
        }
    }
}
