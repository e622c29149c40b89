//! What probes say of the runs of a job, for people.

use ohm_cell::{Cell, Job, Run};

/// So many tasks are told of one by one.
const TASKS_TOLD: usize = 5;

/// Sentences about the tasks of `job` that run and are not ready, or wait in place because they failed their probes.
pub(crate) fn health_text(cell: &Cell, job: &Job) -> Vec<String> {
    let mut told = Vec::new();
    let mut more = 0;
    for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
        if group.unready == 0 && group.running == group.live {
            continue;
        }
        let runs = group.tasks.iter().filter_map(|task| cell.runs().get(task.run));
        for sentence in runs.filter_map(|run| sentence(cell, &spec.name, run)) {
            if told.len() < TASKS_TOLD {
                told.push(sentence);
            } else {
                more += 1;
            }
        }
    }
    if more > 0 {
        told.push(format!("{more} more tasks are not ready; `ohm job` lists them."));
    }
    told
}

fn sentence(cell: &Cell, group: &str, run: &Run) -> Option<String> {
    let health = run.health.as_ref().filter(|_| run.stop.is_none())?;
    let (task, node) = (run.run.task.task, cell.nodes().name(run.node));
    if let Some(starts_ms) = run.starts_ms() {
        let seconds = starts_ms.saturating_sub(cell.now_ms()).div_ceil(1000);
        return Some(format!("Task {group}/{task} was unhealthy and starts again on {node} in {seconds} s."));
    }
    let why = if health.message.is_empty() { "no probe has succeeded yet" } else { &health.message };
    run.is_unready().then(|| format!("Task {group}/{task} on {node} is not ready: {why}."))
}
