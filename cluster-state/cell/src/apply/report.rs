//! Agents report how their runs start and end, and whether they are ready.

use crate::apply::Tx;
use crate::apply::steps::health::run_ready;
use crate::apply::steps::kept::kept_ended;
use crate::apply::steps::run_end::end_run;
use crate::apply::steps::runs::run_started;
use crate::policy::repair::settle_losses;
use crate::rooms::reads::live_slot;
use crate::state::repairs::Losses;
use ohm_model::{NodeId, Outcome, RunReport, RunReportKind};

pub(crate) fn report(tx: &mut Tx<'_>, node: NodeId, reports: &[RunReport]) -> Outcome {
    let mut losses = Losses::default();
    for report in reports {
        let Some(slot) = live_slot(tx, report.run) else {
            if let RunReportKind::Ended { .. } = report.kind {
                kept_ended(tx, report.run, node);
            }
            continue;
        };
        if tx.runs.get(slot).is_none_or(|run| run.node != node) {
            continue;
        }
        match &report.kind {
            RunReportKind::Started { pid } => run_started(tx, slot, *pid),
            RunReportKind::Ready { ready, number, message } => run_ready(tx, slot, *ready, *number, message),
            RunReportKind::Ended { exit, message } => end_run(tx, slot, *exit, message, &mut losses),
        }
    }
    settle_losses(tx, losses);
    Outcome::Done
}
