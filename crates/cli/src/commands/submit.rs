//! `ohm submit`.

use super::documents::{Language, PART_BYTES, parts};
use super::progress::Progress;
use super::wait::wait_for;
use super::{Session, wait};
use crate::command::{Goal, Submit};
use crate::failure::{EXIT_DONE, Failure};
use crate::output::note;
use crate::text::{self, ListedVerdict};
use ohm_wire::api::{DocumentVerdict, JobSummary, SubmitAnswer, VerdictKind};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// How often a part is sent again after it got no answer. It is safe: a job that is there already stays as it is.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);

/// What is printed for programs.
#[derive(Serialize)]
struct Report<'r> {
    accepted: u64,
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
    for path in &args.files {
        let answer = submit_file(session, path, args.quiet && !args.wait, &progress)?;
        let file = if path == Path::new("-") { "standard input".to_string() } else { path.display().to_string() };
        let listed = answer.verdicts.iter().cloned();
        verdicts.extend(listed.map(|verdict| ListedVerdict { file: file.clone(), verdict }));
        totals.extend(SubmitAnswer { verdicts: Vec::new(), ..answer });
    }
    drop(progress);
    let jobs = if args.wait { wait_for_jobs(session, &verdicts)? } else { Vec::new() };
    if args.quiet {
        verdicts.retain(|listed| !listed.verdict.verdict.is_good());
    }
    let all_good = jobs.iter().all(|job| !job.is_finished() || job.state == "succeeded");
    let SubmitAnswer { accepted, unchanged, refused, unknown, .. } = totals;
    let lines: String = jobs.iter().map(text::job_line).collect();
    let report = Report { accepted, unchanged, refused, unknown, verdicts: &verdicts, jobs };
    session.output.print(&report, |style| {
        format!("{}{}\n{lines}", text::verdicts_text(&verdicts, style), text::verdict_totals(&totals))
    })?;
    if totals.is_good() && all_good { Ok(EXIT_DONE) } else { Err(Failure::Told) }
}

fn submit_file(
    session: &Session,
    path: &Path,
    only_refused: bool,
    progress: &Progress,
) -> Result<SubmitAnswer, Failure> {
    if path != Path::new("-") && Language::of(path, b"") == Language::Lines {
        return submit_lines(session, path, only_refused);
    }
    let bytes = read(path)?;
    let language = Language::of(path, &bytes);
    let limit = if language == Language::Yaml { PART_BYTES } else { usize::MAX };
    let mut whole = SubmitAnswer::default();
    let parts = parts(&bytes, limit);
    for (number, part) in parts.iter().enumerate() {
        progress.say(format!("submitting {}: part {} of {}", path.display(), number + 1, parts.len()));
        let send = || session.client.submit(part.bytes, language.content_type(), only_refused);
        let mut answer = send_again(send, number > 0)?;
        let documents_before = whole.accepted + whole.unchanged + whole.refused + whole.unknown;
        answer.verdicts.iter_mut().for_each(|verdict| shift(verdict, documents_before, part.lines_before));
        whole.extend(answer);
    }
    Ok(whole)
}

/// Sends a file of lines without ever holding it whole.
fn submit_lines(session: &Session, path: &Path, only_refused: bool) -> Result<SubmitAnswer, Failure> {
    let content_type = Language::Lines.content_type();
    let open = || File::open(path).map_err(|error| cannot_read(path, error));
    open()?;
    send_again(|| session.client.submit(open()?, content_type, only_refused), false)
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

/// Waits for every job that is in the cell now: until it is finished, or runs if it is a service.
fn wait_for_jobs(session: &Session, verdicts: &[ListedVerdict]) -> Result<Vec<JobSummary>, Failure> {
    let is_job = |verdict: &&DocumentVerdict| {
        verdict.kind == "Job" && matches!(verdict.verdict, VerdictKind::Accepted | VerdictKind::Unchanged)
    };
    let names: Vec<&String> =
        verdicts.iter().map(|listed| &listed.verdict).filter(is_job).map(|verdict| &verdict.name).collect();
    let progress = Progress::start(String::new());
    let mut jobs = Vec::new();
    for (number, name) in names.iter().enumerate() {
        progress.say(format!("waiting for {name} ({} of {})", number + 1, names.len()));
        let job = wait::look(session, name)?;
        let goal = if job.class == "service" { Goal::Running } else { Goal::Finished };
        jobs.push(wait_for(session, name, goal, None)?.job);
    }
    Ok(jobs)
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
}
