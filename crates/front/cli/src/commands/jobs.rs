//! Questions and orders about jobs.

use super::Session;
use crate::client::{encode, path_of};
use crate::command::{Job, Jobs, Scale};
use crate::failure::{EXIT_DONE, EXIT_FAILED, Failure};
use crate::globals::OutputFormat;
use crate::output::note;
use crate::text;
use ohm_wire::api::{ExplainView, JobList, JobSummary, JobView};
use serde_json::{Value, json};

/// Most jobs that are asked for at once.
const PAGE: usize = 10_000;

pub(crate) fn list(session: &Session, args: &Jobs) -> Result<u8, Failure> {
    let filters = [("state", &args.state), ("class", &args.class), ("queue", &args.queue), ("owner", &args.owner)];
    let mut list = JobList::default();
    loop {
        let wanted = args.limit.saturating_sub(list.jobs.len()).clamp(1, PAGE);
        let mut query = vec![("limit", wanted.to_string()), ("after", list.next.clone())];
        if !args.all_namespaces {
            query.push(("namespace", session.namespace.clone()));
        }
        query.extend(filters.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?.clone()))));
        let page: JobList = session.client.get("/v1/jobs", &query)?;
        list.jobs.extend(page.jobs);
        (list.total, list.next) = (page.total, page.next);
        if list.next.is_empty() || list.jobs.len() >= args.limit {
            break;
        }
    }
    session.output.print(&list, |style| text::jobs_table(&list, style))?;
    Ok(EXIT_DONE)
}

pub(crate) fn show(session: &Session, args: &Job) -> Result<u8, Failure> {
    let query = [("tasks", args.tasks.to_string())];
    let job: JobView<Value> = session.client.get(&path_of("jobs", &session.job(&args.name)), &query)?;
    if args.spec {
        // A document is no table: it comes as YAML unless JSON is asked for.
        let mut output = session.output;
        if output.format == OutputFormat::Table {
            output.format = OutputFormat::Yaml;
        }
        output.print(&job.spec, |_| String::new())?;
    } else {
        session.output.print(&job, |style| text::job_text(&job, style))?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn explain(session: &Session, name: &str) -> Result<u8, Failure> {
    let view: ExplainView = session.client.get(&format!("{}/explain", path_of("jobs", name)), &[])?;
    session.output.print(&view, |style| text::explanation(&view, style))?;
    Ok(EXIT_DONE)
}

/// Forgets finished jobs; one that can't be forgotten does not keep the others from it.
pub(crate) fn remove(session: &Session, names: &[String]) -> Result<u8, Failure> {
    let (mut removed, mut code) = (Vec::new(), EXIT_DONE);
    for name in names {
        match session.client.delete(&path_of("jobs", name)) {
            Ok(()) => removed.push(name),
            Err(failure @ Failure::Refused(_)) if names.len() > 1 => {
                note(&format!("error: {failure}"));
                code = EXIT_FAILED;
            }
            Err(failure) => return Err(failure),
        }
    }
    let lines = |_: &_| removed.iter().map(|name| format!("{name} is forgotten\n")).collect();
    session.output.print(&json!({"removed": removed}), lines)?;
    Ok(code)
}

/// Changes the count of one group.
pub(crate) fn scale(session: &Session, args: &Scale) -> Result<u8, Failure> {
    // Two parts are a job and its group; the namespace of three is that of the job.
    let (name, group) = match args.target.rsplit_once('/') {
        Some((name, group)) => (name, group),
        None => (args.target.as_str(), ""),
    };
    let mut path = format!("{}/scale?count={}", path_of("jobs", &session.job(name)), args.count);
    if !group.is_empty() {
        path.push_str(&format!("&group={}", encode(group)));
    }
    let job: JobSummary = session.client.post(&path)?;
    session.output.print(&job, |style| text::wrapped(&text::job_line(&job), style.width, 2))?;
    Ok(EXIT_DONE)
}

/// Does `action` to each job; one that fails does not keep the others from it.
pub(crate) fn change(session: &Session, names: &[String], action: &str) -> Result<u8, Failure> {
    let mut jobs: Vec<JobSummary> = Vec::new();
    let mut code = EXIT_DONE;
    for name in names {
        match session.client.post::<JobSummary>(&format!("{}/{action}", path_of("jobs", name))) {
            Ok(job) => jobs.push(job),
            Err(failure @ Failure::Refused(_)) if names.len() > 1 => {
                note(&format!("error: {failure}"));
                code = EXIT_FAILED;
            }
            Err(failure) => return Err(failure),
        }
    }
    let width = session.output.style.width;
    let lines: String = jobs.iter().map(|job| text::wrapped(&text::job_line(job), width, 2)).collect();
    match jobs.as_slice() {
        [job] if names.len() == 1 => session.output.print(job, |_| lines)?,
        jobs => session.output.print(&jobs, |_| lines)?,
    }
    Ok(code)
}
