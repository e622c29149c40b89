//! Questions about jobs.

use super::answer::{Answer, Problem, json};
use super::params::{Name, Params};
use super::shared::Shared;
use super::views::{self, TaskWindow};
use axum::extract::State;
use ohm_cell::{Cell, Job};
use ohm_model::split_job_name;
use ohm_wire::api::JobList;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many items a page has unless it says otherwise.
pub(super) const PAGE_DEFAULT: usize = 500;
/// Most items of a page.
pub(super) const PAGE_MAX: usize = 10_000;
/// How many tasks or runs are listed unless the request says otherwise.
pub(super) const LISTED_DEFAULT: usize = 1000;
/// Most tasks or runs that are listed.
pub(super) const LISTED_MAX: usize = 100_000;

const STATES: [&str; 6] = ["pending", "running", "suspended", "succeeded", "failed", "cancelled"];
const CLASSES: [&str; 3] = ["batch", "service", "tas"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    namespace: Option<String>,
    state: Option<String>,
    class: Option<String>,
    queue: Option<String>,
    owner: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

impl ListQuery {
    fn check(&self) -> Result<(), Problem> {
        let known = |name: &str, given: &Option<String>, known: &[&str]| match given {
            Some(given) if !known.contains(&given.as_str()) => Err(Problem::invalid(
                format!("no {name} is called \"{given}\""),
                format!("known: {}", known.join(", ")),
            )),
            _ => Ok(()),
        };
        known("state", &self.state, &STATES)?;
        known("class", &self.class, &CLASSES)
    }

    fn matches(&self, job: &Job) -> bool {
        let same = |given: &Option<String>, value: &str| given.as_deref().is_none_or(|given| given == value);
        same(&self.namespace, split_job_name(&job.spec.name).0)
            && same(&self.state, job.phase())
            && same(&self.class, job.spec.class.name())
            && same(&self.queue, &job.spec.queue)
            && same(&self.owner, &job.owner)
    }
}

pub(super) async fn list(State(shared): State<Shared>, Params(query): Params<ListQuery>) -> Answer {
    query.check()?;
    let cell = shared.cells.now().await?;
    let list = page_of_jobs(&cell, &query);
    Ok(json(cell.applied(), &list))
}

fn page_of_jobs(cell: &Cell, query: &ListQuery) -> JobList {
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let after = query.after.as_deref().unwrap_or_default();
    let mut total = 0;
    let mut page: BTreeMap<&str, &Arc<Job>> = BTreeMap::new();
    let mut more = false;
    for job in cell.jobs().iter().filter(|job| query.matches(job)) {
        total += 1;
        if job.spec.name.as_str() > after {
            more |= insert_bounded(&mut page, &job.spec.name, job, limit);
        }
    }
    let next = page.last_key_value().filter(|_| more).map_or_else(String::new, |(name, _)| name.to_string());
    JobList { jobs: page.into_values().map(|job| views::job_summary(cell, job)).collect(), total, next }
}

/// Keeps the first `limit` names; returns whether one was left out.
pub(super) fn insert_bounded<'a, V>(page: &mut BTreeMap<&'a str, V>, name: &'a str, value: V, limit: usize) -> bool {
    if page.len() >= limit && page.last_key_value().is_some_and(|(last, _)| *last < name) {
        return true;
    }
    page.insert(name, value);
    page.len() > limit && page.pop_last().is_some()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ShowQuery {
    tasks: Option<usize>,
    #[serde(default)]
    first_task: usize,
}

pub(super) async fn show(State(shared): State<Shared>, Name(name): Name, Params(query): Params<ShowQuery>) -> Answer {
    let cell = shared.cells.now().await?;
    let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
    let count = query.tasks.unwrap_or(LISTED_DEFAULT).min(LISTED_MAX);
    let view = views::job(&cell, job, TaskWindow { first: query.first_task, count });
    Ok(json(cell.applied(), &view))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

pub(super) async fn explain(State(shared): State<Shared>, Name(name): Name, _: Params<NoQuery>) -> Answer {
    let cell = shared.cells.now().await?;
    let index = cell.applied();
    let answer = tokio::task::spawn_blocking(move || {
        let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
        Ok::<_, Problem>(super::explain::explain(&cell, job))
    });
    let failed = |_| Problem::from(crate::handle::Unanswered::NotServing("the explanation failed".into()));
    Ok(json(index, &answer.await.map_err(failed)??))
}
