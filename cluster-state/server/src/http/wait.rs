//! Waiting for a job, as a long poll.

use super::answer::{Answer, Problem, json};
use super::params::{Name, Params};
use super::shared::Shared;
use super::views;
use axum::extract::State;
use ohm_cell::{Group, Job, JobState};
use ohm_wire::api::WaitAnswer;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

const TIMEOUT_DEFAULT_SECONDS: u64 = 30;
const TIMEOUT_MAX_SECONDS: u64 = 300;
/// The pause between two looks grows between these while the cell is busy, so that many who wait don't slow it down;
/// on an idle cell the first entry that is applied is looked at at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What is waited for.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Goal {
    #[default]
    Finished,
    Running,
    Ready,
}

impl Goal {
    fn is_reached(self, job: &Job) -> bool {
        let finished = matches!(job.state, JobState::Finished(_));
        match self {
            Goal::Finished => finished,
            Goal::Running => finished || (job.live() > 0 && has_started(job, |group| group.running)),
            Goal::Ready => finished || (job.live() > 0 && has_started(job, Group::ready)),
        }
    }
}

/// Whether every group runs, or is ready, with its minimum, or is past it. What is to stop does not count: as long as
/// it stops, those that run may be fewer than said, never more. The minimum is the one that is asked for, whatever a
/// rollout places beside it.
fn has_started(job: &Job, counted: impl Fn(&Group) -> u32) -> bool {
    let mut groups = job.groups.iter().zip(&job.declared().groups);
    groups.all(|(group, spec)| {
        let gone_through = counted(group).saturating_sub(group.stopping) + group.succeeded + group.failed;
        group.started && gone_through >= spec.min_count.min(spec.count)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    #[serde(default, rename = "for")]
    goal: Goal,
    timeout: Option<u64>,
}

pub(super) async fn wait(State(shared): State<Shared>, Name(name): Name, Params(query): Params<WaitQuery>) -> Answer {
    let seconds = query.timeout.unwrap_or(TIMEOUT_DEFAULT_SECONDS).min(TIMEOUT_MAX_SECONDS);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut applied = shared.cells.applied();
    let mut pause = PAUSE_MIN;
    let mut cell = shared.cells.now().await?;
    loop {
        applied.mark_unchanged();
        if *applied.borrow() > cell.applied() {
            applied.mark_changed();
        }
        let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
        let reached = query.goal.is_reached(job);
        if reached || Instant::now() >= deadline {
            return Ok(json(cell.applied(), &WaitAnswer { reached, job: views::job_summary(&cell, job) }));
        }
        let index = cell.applied();
        // While somebody waits, no copy of the cell is kept: it would make writers copy what they touch.
        drop(cell);
        match timeout_at(deadline, applied.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(crate::handle::Unanswered::NotServing("its replica has stopped".into()).into()),
            Err(_) => tracing::trace!(%name, "the time is up"),
        }
        sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        cell = shared.cells.recent(pause).await?;
        if cell.applied() <= index {
            cell = shared.cells.now().await?;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
