//! `ohm submit`.

use super::documents::{Language, PART_BYTES, parts};
use super::progress::Progress;
use super::wait::wait_for;
use super::{Session, wait};
use crate::client::Query;
use crate::command::{Goal, Submit};
use crate::failure::{EXIT_DONE, Failure};
use crate::globals::OutputFormat;
use crate::output::note;
use crate::text::{self, ListedVerdict};
use ohm_wire::api::{DocumentVerdict, JobSummary, SubmitAnswer, VerdictKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a part is sent again after it got no answer. It is safe: a job that is there already stays as it is.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);

/// What is printed for programs.
#[derive(Serialize)]
struct Report<'r> {
    accepted: u64,
    updated: u64,
    unchanged: u64,
    refused: u64,
    unknown: u64,
    verdicts: &'r [ListedVerdict],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<JobSummary>,
}

pub(crate) fn submit(session: &Session, args: &Submit) -> Result<u8, Failure> {
    let mut totals = SubmitAnswer::default();
    let mut verdicts = Vec::new();
    let progress = Progress::start("submitting".to_string());
    let query = query(session, args);
    for path in &args.files {
        let answer = submit_file(session, path, &query, &progress)?;
        let file = if path == Path::new("-") { "standard input".to_string() } else { path.display().to_string() };
        let listed = answer.verdicts.iter().cloned();
        verdicts.extend(listed.map(|verdict| ListedVerdict { file: file.clone(), verdict }));
        totals.extend(SubmitAnswer { verdicts: Vec::new(), ..answer });
    }
    drop(progress);
    let waited = if args.wait { wait_for_jobs(session, &verdicts, args.timeout)? } else { Vec::new() };
    let late = waited.iter().filter(|waited| !waited.is_over).count();
    let jobs: Vec<JobSummary> = waited.into_iter().map(|waited| waited.job).collect();
    let before: BTreeMap<String, u64> = finished_before(&verdicts).collect();
    if args.quiet {
        verdicts.retain(|listed| !listed.verdict.verdict.is_good());
    }
    let all_good = jobs.iter().all(|job| !job.is_finished() || job.state == "succeeded");
    let SubmitAnswer { accepted, updated, unchanged, refused, unknown, .. } = totals;
    let style = session.output.style;
    let line = |job: &JobSummary| match before.get(&job.name) {
        Some(at_ms) => text::job_over_line(job, *at_ms, &style),
        None => text::wrapped(&text::job_line(job), style.width, 2),
    };
    let lines: String = jobs.iter().map(line).collect();
    let report = Report { accepted, updated, unchanged, refused, unknown, verdicts: &verdicts, jobs };
    session.output.print(&report, |style| {
        format!("{}{}\n{lines}", text::verdicts_text(&verdicts, style), text::verdict_totals(&totals))
    })?;
    if !before.is_empty() && session.output.format == OutputFormat::Table {
        let what = "hint: a job that is over keeps its name; --replace runs it again, `ohm remove NAME` forgets it";
        note(what);
    }
    if let (1.., Some(timeout)) = (late, args.timeout) {
        let jobs = if late == 1 { "1 job is".to_string() } else { format!("{late} jobs are") };
        return Err(Failure::Failed(format!("{jobs} not there yet after {} s", timeout.as_secs())));
    }
    if totals.is_good() && all_good { Ok(EXIT_DONE) } else { Err(Failure::Told) }
}

fn query(session: &Session, args: &Submit) -> Vec<(&'static str, String)> {
    let mut query = vec![("namespace", session.namespace.clone())];
    if args.quiet && !args.wait {
        query.push(("verdicts", "refused".to_string()));
    }
    if args.replace {
        query.push(("replace", "true".to_string()));
    }
    if args.update {
        query.push(("update", "true".to_string()));
    }
    query
}

/// The jobs that were over already when they were submitted, with when they ended.
fn finished_before(verdicts: &[ListedVerdict]) -> impl Iterator<Item = (String, u64)> {
    let finished = verdicts.iter().map(|listed| &listed.verdict).filter(|verdict| verdict.finished_ms > 0);
    finished.map(|verdict| (verdict.name.clone(), verdict.finished_ms))
}

fn submit_file(session: &Session, path: &Path, query: Query<'_>, progress: &Progress) -> Result<SubmitAnswer, Failure> {
    if path != Path::new("-") && Language::of(path, b"") == Language::Lines {
        return submit_lines(session, path, query);
    }
    let bytes = read(path)?;
    let language = Language::of(path, &bytes);
    let limit = if language == Language::Yaml { PART_BYTES } else { usize::MAX };
    let mut whole = SubmitAnswer::default();
    let parts = parts(&bytes, limit);
    for (number, part) in parts.iter().enumerate() {
        progress.say(format!("submitting {}: part {} of {}", path.display(), number + 1, parts.len()));
        let send = || session.client.submit(part.bytes, language.content_type(), query);
        let mut answer = send_again(send, number > 0)?;
        let documents_before = whole.accepted + whole.updated + whole.unchanged + whole.refused + whole.unknown;
        answer.verdicts.iter_mut().for_each(|verdict| shift(verdict, documents_before, part.lines_before));
        whole.extend(answer);
    }
    Ok(whole)
}

/// Sends a file of lines without ever holding it whole.
fn submit_lines(session: &Session, path: &Path, query: Query<'_>) -> Result<SubmitAnswer, Failure> {
    let content_type = Language::Lines.content_type();
    let open = || File::open(path).map_err(|error| cannot_read(path, error));
    open()?;
    send_again(|| session.client.submit(open()?, content_type, query), false)
}

/// Sends until there is an answer about every document, a few times. At the very first, a server that is not there is
/// not waited for.
fn send_again(send: impl Fn() -> Result<SubmitAnswer, Failure>, was_there: bool) -> Result<SubmitAnswer, Failure> {
    let mut was_there = was_there;
    let mut tries = 1;
    loop {
        match send() {
            Ok(answer) if answer.unknown > 0 && tries < TRIES => {
                note(&format!("{} documents got no answer{}; sending them again", answer.unknown, reason_of(&answer)));
                was_there = true;
            }
            Err(failure @ Failure::Unreachable { .. }) if !was_there => return Err(failure),
            Err(failure) if failure.is_passing() && tries < TRIES => note(&format!("{failure}; sending again")),
            answer => return answer,
        }
        tries += 1;
        std::thread::sleep(PAUSE);
    }
}

/// Why the first document without an answer got none, to follow a sentence.
fn reason_of(answer: &SubmitAnswer) -> String {
    let unknown = answer.verdicts.iter().find(|verdict| verdict.verdict == VerdictKind::Unknown);
    let problem = unknown.and_then(|verdict| verdict.problems.first());
    problem.map_or_else(String::new, |problem| format!(" ({})", problem.message))
}

/// Puts a verdict of a part at its place in the file.
fn shift(verdict: &mut DocumentVerdict, documents: u64, lines: u64) {
    verdict.document += documents;
    verdict.line += lines;
    verdict.problems.iter_mut().for_each(|problem| problem.line += lines);
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|error| Failure::io("reading standard input", error));
    }
    fs::read(path).map_err(|error| cannot_read(path, error))
}

fn cannot_read(path: &Path, error: io::Error) -> Failure {
    Failure::Usage(format!("cannot read {}: {error}", path.display()))
}

/// Waits for every job that is in the cell now: until it is finished, or runs if it is a service; at most `limit`.
fn wait_for_jobs(
    session: &Session,
    verdicts: &[ListedVerdict],
    limit: Option<Duration>,
) -> Result<Vec<Waited>, Failure> {
    let started = Instant::now();
    let is_job = |verdict: &&DocumentVerdict| verdict.kind == "Job" && verdict.verdict.is_good();
    let names: Vec<&String> =
        verdicts.iter().map(|listed| &listed.verdict).filter(is_job).map(|verdict| &verdict.name).collect();
    let names_count = names.len();
    let progress = Progress::start(String::new());
    let mut waits: Vec<Waited> = names.into_iter().map(|name| Waited::new(name.clone())).collect();
    let mut answered = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        let open: Vec<&mut Waited> = waits.iter_mut().filter(|waited| !waited.is_over).collect();
        let Some(first) = open.first() else { break };
        progress.say(format!("waiting for {} ({} of {} jobs left)", first.job.name, open.len(), names_count));
        // The last one may be asked about with one long question; among several each has its turn, since a job can be
        // forgotten while another one is waited for.
        let (is_last, mut is_out) = (open.len() == 1, false);
        for waited in open {
            let looked = waited.look(session, if is_last { left } else { Some(Duration::ZERO) });
            match looked {
                Ok(()) => answered = Instant::now(),
                Err(failure) if failure.is_passing() && answered.elapsed() < wait::OUTAGE_MAX => {
                    is_out = true;
                    break;
                }
                Err(failure) => return Err(failure),
            }
        }
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        if is_out || !is_last {
            std::thread::sleep(wait::PAUSE);
        }
    }
    Ok(waits)
}

/// A job that is waited for, as it was seen last.
struct Waited {
    job: JobSummary,
    is_over: bool,
}

impl Waited {
    fn new(name: String) -> Self {
        Waited { job: JobSummary { name, ..JobSummary::default() }, is_over: false }
    }

    fn look(&mut self, session: &Session, limit: Option<Duration>) -> Result<(), Failure> {
        let found = wait::look(session, &self.job.name).and_then(|job| {
            let goal = if job.class == "service" { Goal::Ready } else { Goal::Finished };
            wait_for(session, &job.name, goal, limit)
        });
        self.take(found.map(|answer| (answer.reached, answer.job)))
    }

    /// Notes what was seen. A job that was in the cell and is not any more has finished: only those are forgotten.
    fn take(&mut self, found: Result<(bool, JobSummary), Failure>) -> Result<(), Failure> {
        match found {
            Ok((reached, job)) => (self.is_over, self.job) = (reached, job),
            Err(Failure::Refused(error)) if error.code == "not_found" => {
                self.is_over = true;
                self.job.state = "forgotten".to_string();
                self.job.reason = "it finished, and its ttlSecondsAfterFinished has passed".to_string();
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_got_no_answer_is_sent_again() {
        let sent = Cell::new(0);
        let send = || {
            sent.set(sent.get() + 1);
            Ok(SubmitAnswer { unknown: u64::from(sent.get() == 1), unchanged: 1, ..SubmitAnswer::default() })
        };
        assert_eq!(send_again(send, false).unwrap().unknown, 0);
        assert_eq!(sent.get(), 2);
        let unreachable = || Err(Failure::Unreachable { server: String::new(), reason: String::new() });
        assert!(matches!(send_again(unreachable, false), Err(Failure::Unreachable { .. })));
    }

    #[test]
    fn a_job_that_is_forgotten_while_another_one_is_waited_for_is_over() {
        let mut waited = Waited::new("b".into());
        let running = JobSummary { name: "b".into(), state: "running".into(), ..JobSummary::default() };
        waited.take(Ok((false, running))).unwrap();
        assert!(!waited.is_over);
        let error = |code: &str| Failure::Refused(ohm_wire::api::ApiError { code: code.into(), ..Default::default() });
        assert!(waited.take(Err(error("internal"))).is_err() && !waited.is_over);
        waited.take(Err(error("not_found"))).unwrap();
        assert!(waited.is_over && !waited.job.is_finished());
        assert!(text::job_line(&waited.job).starts_with("b is forgotten: it finished"));
    }
}
