//! Preemptions under way: whoever waits for others still is the job that they were told to stop for.

use crate::cell::Cell;
use crate::policy::preemptions::{SLACK_MS, has_or_awaits, may_stop_in_vain, waits_as_told};
use crate::state::preemptions::BACK_OFF_MAX_MS;
use ohm_model::GRACE_MS_MAX;

pub(crate) fn check_preemptions(cell: &Cell, broken: &mut Vec<String>) {
    for (id, preemption) in cell.preemptions.iter() {
        let Some(job) = cell.jobs.get(id) else {
            broken.push(format!("P11: others stop for job {id}, which is gone"));
            continue;
        };
        let name = &job.spec.name;
        if !waits_as_told(cell, id, preemption) {
            broken.push(format!("P11: others stop for {name}, which is not as it was, or waits no more"));
        }
        if preemption.victims.is_empty() || preemption.victims.contains_key(&id) {
            broken.push(format!("P11: nobody, or {name} itself, stops for {name}"));
        }
        // A victim runs on for its delay, then for its grace period.
        if preemption.until_ms > cell.now_ms.saturating_add(2 * GRACE_MS_MAX).saturating_add(SLACK_MS) {
            broken.push(format!("P11: what others gave back is kept for {name} for too long"));
        }
    }
    for (id, known) in cell.preemptions.all_in_vain() {
        let for_long = known.until_ms > cell.now_ms.saturating_add(BACK_OFF_MAX_MS);
        if for_long || !may_stop_in_vain(cell, id) {
            broken.push(format!("P11: job {id} may stop nobody for too long, or waits for nothing"));
        }
    }
    for id in cell.preemptions.takers().filter(|id| !has_or_awaits(cell, *id)) {
        broken.push(format!("P11: job {id} is said to have what others gave back, and has nothing"));
    }
}
