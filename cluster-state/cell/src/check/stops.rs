//! Stop policies: nothing stands where what runs is stopped, and nothing is kept for who may not start.

use crate::cell::Cell;
use crate::rooms::stops::{held_back, stop_policy};
use crate::state::jobs::{Job, JobState};
use ohm_model::StopPolicy;

pub(crate) fn check_stop(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let queue = cell.quota.find(&job.spec.queue);
    let (name, Some(policy)) = (&job.spec.name, stop_policy(cell, queue)) else { return };
    if job.state != JobState::Active {
        return;
    }
    if policy == StopPolicy::HoldAndDrain && (job.stands() || !job.reserved.is_empty()) {
        broken.push(format!("P8: job {name} stands or has quota reserved in a queue that is drained"));
    }
    let waits_for_others = cell.nominations.is_head(job.id) || cell.preemptions.get(job.id).is_some();
    if waits_for_others && held_back(cell, job, queue).is_some() {
        broken.push(format!("P10: room or quota is kept for job {name}, whose queue is held"));
    }
}
