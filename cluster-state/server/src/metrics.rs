//! Figures for Prometheus, from what entries cause.

use ohm_cell::{Applied, Cell};
use ohm_log::Alarm;
use ohm_model::{Class, ConflictReason, EventKind, Index, NodeHealth, PreemptionChange, PreemptionEvent};
use ohm_replica::TimeWord;
use std::collections::{BTreeMap, BTreeSet};

/// How many schedulers are counted by name. A scheduler that was given no name has a new one after each restart, and a
/// label must not take a value more each time.
const SCHEDULERS_MAX: usize = 64;

/// What became of the transactions of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// How many were judged.
    pub(crate) transactions: u64,
    /// In how many of them something was refused.
    pub(crate) conflicted: u64,
    /// Refused rows by reason.
    pub(crate) conflicts: BTreeMap<&'static str, u64>,
}

/// Counts what happens on this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    schedulers: BTreeSet<String>,
    /// Since the server started.
    judged: BTreeMap<Class, Judged>,
    /// Whether time was held when it was last told.
    is_held: bool,
}

impl Meter {
    /// Counts what one entry caused.
    pub(crate) fn applied(&mut self, index: Index, applied: &Applied, cell: &Cell) {
        metrics::gauge!("ohm_applied_index").set(index.0 as f64);
        metrics::counter!("ohm_entries_total").increment(1);
        metrics::counter!("ohm_commands_total").increment(applied.outcomes.len() as u64);
        for class in &applied.judged {
            self.judged.entry(*class).or_default().transactions += 1;
            metrics::counter!("ohm_transactions_total", "class" => class.to_string()).increment(1);
        }
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
                EventKind::Conflicted { scheduler, class, reasons } => self.conflicted(scheduler, *class, reasons),
                EventKind::NodeHealth { health: NodeHealth::Lost, .. } => {
                    metrics::counter!("ohm_nodes_lost_total").increment(1);
                }
                EventKind::Preemption(event) => preempted(event, cell),
                _ => {}
            }
        }
    }

    /// Counts what was refused of one transaction. It is planned again on what the cell has become.
    fn conflicted(&mut self, scheduler: &str, class: Class, reasons: &[(ConflictReason, u32)]) {
        let labels = [("scheduler", self.label_of(scheduler)), ("class", class.to_string())];
        metrics::counter!("ohm_conflicted_plans_total", &labels).increment(1);
        let judged = self.judged.entry(class).or_default();
        judged.conflicted += 1;
        for (reason, count) in reasons {
            let count = u64::from(*count);
            *judged.conflicts.entry(reason.name()).or_default() += count;
            let [scheduler, class] = labels.clone();
            metrics::counter!("ohm_conflicts_total", &[scheduler, class, ("reason", reason.name().to_string())])
                .increment(count);
        }
    }

    /// What became of transactions, by class.
    pub(crate) fn judged(&self) -> &BTreeMap<Class, Judged> {
        &self.judged
    }

    /// The name a scheduler is counted under.
    fn label_of(&mut self, scheduler: &str) -> String {
        if !self.schedulers.contains(scheduler) {
            if self.schedulers.len() >= SCHEDULERS_MAX {
                return "others".to_string();
            }
            self.schedulers.insert(scheduler.to_string());
        }
        scheduler.to_string()
    }

    /// Shows how far the wall clock is from the time of the cell, and says when that begins to hold time and when it
    /// no longer does.
    pub(crate) fn time(&mut self, word: TimeWord) {
        metrics::gauge!("ohm_clock_offset_ms").set(word.offset_ms as f64);
        metrics::gauge!("ohm_time_held").set(if word.is_held { 1.0 } else { 0.0 });
        if std::mem::replace(&mut self.is_held, word.is_held) == word.is_held {
            return;
        }
        match word.is_held {
            true => tracing::warn!(
                ahead_ms = word.offset_ms,
                "the wall clock of this server is ahead of the time of the cell and is not believed: deadlines and the \
                 like go on by the time that has surely passed. Set the clock right; if it is right, \
                 `ohm server believe-clock` moves time"
            ),
            false => tracing::info!("the wall clock of this server is close to the time of the cell again"),
        }
    }

    /// Counts an alarm of the log.
    pub(crate) fn alarm(&self, alarm: &Alarm) {
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

/// Counts a job that is stopped for another one, by its queue.
fn preempted(event: &PreemptionEvent, cell: &Cell) {
    let PreemptionChange::Stopped { need, reason, .. } = &event.change else { return };
    let queue = cell.jobs().get(event.job).map(|job| job.spec.queue.clone()).unwrap_or_default();
    let labels = [("queue", queue), ("need", need.name().to_string()), ("reason", reason.name().to_string())];
    metrics::counter!("ohm_jobs_preempted_total", &labels).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_that_restart_take_no_label_each() {
        let mut meter = Meter::default();
        let labels: BTreeSet<String> = (0..1000).map(|pid| meter.label_of(&format!("batch-{pid}"))).collect();
        assert_eq!(labels.len(), SCHEDULERS_MAX + 1);
        assert_eq!(meter.label_of("batch-3"), "batch-3");
    }
}
