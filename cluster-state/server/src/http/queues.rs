//! One queue with its jobs: who waits for what, and who has how much.

use super::answer::{Answer, Problem, json};
use super::params::{Name, Params};
use super::shared::Shared;
use super::views;
use axum::extract::State;
use ohm_cell::{Cell, HeldUsage, Job, JobState, NO_RUN, QuotaNode, UsageKey, charged, usage_key};
use ohm_model::resources::display;
use ohm_wire::api::{ActiveJobView, QueueDetail, WaitingJobView};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many jobs are listed unless the request says otherwise.
const LISTED_DEFAULT: usize = 20;
/// Most jobs that are listed: each that waits is planned to say why it does.
const LISTED_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    limit: Option<usize>,
}

pub(super) async fn show(State(shared): State<Shared>, Name(name): Name, Params(query): Params<ShowQuery>) -> Answer {
    let cell = shared.cells.now().await?;
    let (index, limit) = (cell.applied(), query.limit.unwrap_or(LISTED_DEFAULT).min(LISTED_MAX));
    let answer = tokio::task::spawn_blocking(move || {
        let node = cell.quota().get(&name).ok_or_else(|| Problem::no_queue(&name))?;
        Ok::<_, Problem>(detail(&cell, node, limit))
    });
    let failed = |_| Problem::from(crate::handle::Unanswered::NotServing("looking at the queue failed".into()));
    Ok(json(index, &answer.await.map_err(failed)??))
}

fn detail(cell: &Cell, node: &QuotaNode, limit: usize) -> QueueDetail {
    let jobs = || cell.jobs().iter().filter(|job| !node.spec.is_cohort && job.spec.queue == node.spec.name);
    let mut summary = views::queue(cell, node);
    summary.suspended = jobs().filter(|job| job.state == JobState::Suspended && job.live() == 0).count() as u64;
    let mut waiting: Vec<&Arc<Job>> = jobs().filter(|job| job.phase() == "pending").collect();
    let parts: BTreeSet<&str> = waiting.iter().map(|job| job.spec.subqueue.as_str()).collect();
    let key = |part| (part, usage_key(cell, &node.spec.name, part, &HeldUsage::new()));
    let keys: BTreeMap<&str, UsageKey> = parts.into_iter().map(key).collect();
    waiting.sort_by_key(|job| (keys[job.spec.subqueue.as_str()], Reverse(job.spec.priority), job.queued, job.id));
    summary.subqueues = views::subqueues(cell, &node.spec.name);
    let mut active: Vec<(u64, &Arc<Job>)> =
        jobs().filter(|job| job.live() > 0).map(|job| (stands_since_ms(cell, job), job)).collect();
    active.sort_by_key(|(since_ms, job)| (Reverse(job.spec.priority), *since_ms, job.id));
    summary.pending = waiting.len() as u64;
    summary.running = active.len() as u64;
    let strategy = if node.spec.is_cohort { "" } else { node.spec.queueing_strategy.name() };
    let waiting = (1..).zip(waiting).take(limit).map(|(position, job)| waiting_job(cell, position, job));
    let active = active.into_iter().take(limit).map(|(since_ms, job)| active_job(cell, since_ms, job));
    QueueDetail {
        summary,
        queueing_strategy: strategy.to_string(),
        waiting: waiting.collect(),
        active: active.collect(),
    }
}

fn waiting_job(cell: &Cell, position: u64, job: &Job) -> WaitingJobView {
    WaitingJobView {
        position,
        name: job.spec.name.clone(),
        subqueue: job.spec.subqueue.clone(),
        class: job.spec.class.name().to_string(),
        priority: job.spec.priority,
        submitted_ms: job.submitted_ms,
        reason: super::explain::explain(cell, job).summary,
    }
}

fn active_job(cell: &Cell, since_ms: u64, job: &Job) -> ActiveJobView {
    let is_limited = |column| cell.quota().available(&job.spec.queue, column).is_some();
    let charges = charged(cell, job).into_iter().filter(|(column, amount)| *amount != 0 && is_limited(*column));
    let quota = charges.map(|(column, amount)| {
        let resource = cell.resources().name(cell.quota().columns().resource(column));
        (ohm_cell::column_name(cell, column), display(resource, amount))
    });
    ActiveJobView {
        name: job.spec.name.clone(),
        class: job.spec.class.name().to_string(),
        priority: job.spec.priority,
        since_ms,
        live: job.live().into(),
        quota: quota.collect(),
    }
}

/// When the oldest of its live runs was placed, in stamped time.
fn stands_since_ms(cell: &Cell, job: &Job) -> u64 {
    let tasks = job.groups.iter().flat_map(|group| group.tasks.iter()).filter(|task| task.run != NO_RUN);
    tasks.filter_map(|task| cell.runs().get(task.run)).map(|run| run.placed_ms).min().unwrap_or(0)
}
