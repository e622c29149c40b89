//! What follows from the probes of runs: readiness, and starting again in place.

use crate::apply::Tx;
use crate::apply::steps::budgets::note_healthy;
use crate::apply::steps::repairs::end_repair_of;
use crate::rooms::reads::live_slot;
use crate::state::budgets::health::is_healthy;
use crate::state::health::RunHealth;
use crate::state::jobs::Job;
use ohm_model::{EventKind, Exit, MESSAGE_CHARS_MAX, OnUnhealthy, ReadinessEvent, RunRef};

/// The run in `slot` runs now. Says whether it is ready with that; where probes have to say so it is not.
pub(crate) fn begin_health(tx: &mut Tx<'_>, slot: u32) -> bool {
    let (task, revision) = (tx.run(slot).run.task, tx.run(slot).revision);
    let spec = tx.job(task.job).content(usize::from(task.group.0), revision);
    let gates = spec.task.probes.as_ref().is_some_and(|probes| probes.gates_readiness());
    if gates || tx.run(slot).health.is_some() {
        tx.run_mut(slot).health = gates.then(Box::default);
    }
    if gates {
        tx.job_mut(task.job).groups[usize::from(task.group.0)].unready += 1;
    }
    !gates
}

/// The node of the run in `slot` says that it is ready, or why it is not. What is older than what was said before says
/// nothing.
pub(crate) fn run_ready(tx: &mut Tx<'_>, slot: u32, ready: bool, number: u64, message: &str) {
    let run = tx.run(slot);
    let Some(known) = run.health.as_ref().filter(|known| run.started_ms != 0 && known.number < number) else { return };
    let was_healthy = is_healthy(run);
    let (run, node, was_ready, was_silent) = (run.run, run.node, known.ready, known.message.is_empty());
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).filter(|_| !ready).collect();
    let is_news = was_ready != ready || (was_silent && !message.is_empty());
    let starts_ms = known.starts_ms;
    let since_ms = if was_ready { known.ready_ms } else { tx.now_ms };
    let ready_ms = if ready { since_ms } else { 0 };
    let health = RunHealth { ready, ready_ms, number, message: message.clone(), starts_ms };
    tx.run_mut(slot).health = Some(Box::new(health));
    note_healthy(tx, slot, was_healthy);
    if !is_news {
        return;
    }
    let (job, group, task) = (run.task.job, run.task.group.0, run.task.task.0);
    if was_ready != ready {
        let found = &mut tx.job_mut(job).groups[usize::from(group)];
        found.unready = if ready { found.unready - 1 } else { found.unready + 1 };
        tx.touch_job(job);
    }
    let incarnation = run.incarnation;
    tx.tell(EventKind::Readiness(ReadinessEvent { job, group, task, incarnation, node, ready, message }));
    if ready {
        end_repair_of(tx, job, group, task, true);
    }
}

/// Whether the end of a task of group `at`, which was of this revision, counts against its retries.
pub(crate) fn counts(job: &Job, (at, revision): (usize, u32), exit: Exit) -> bool {
    let probes = job.content(at, revision).task.probes.as_ref();
    let is_ignored = exit == Exit::Unhealthy && probes.is_some_and(|probes| probes.on_unhealthy == OnUnhealthy::Ignore);
    exit.is_charged() && !is_ignored
}

/// A run that waits in place has waited for long enough: its node gets to know how to start it.
pub(crate) fn end_wait_in_place(tx: &mut Tx<'_>, run: RunRef) {
    // It may be over by now.
    let Some(slot) = live_slot(tx, run) else { return };
    let (waits, node) = (tx.run(slot).starts_ms().is_some(), tx.run(slot).node);
    if waits {
        tx.run_mut(slot).health = None;
        tx.touch_node(node);
    }
}
