//! `ohm run -- CMD`: one command as a batch job, as if it ran here.

use super::Session;
use super::logs::{Source, copy};
use super::progress::Progress;
use super::wait::wait_for;
use crate::client::{Client, path_of};
use crate::command::{Goal, Run};
use crate::failure::{EXIT_DONE, EXIT_FAILED, Failure};
use crate::globals::OutputFormat;
use crate::output::note;
use crate::text;
use nix::sys::signal::{SigSet, Signal};
use ohm_wire::api::{JobSummary, JobView, TaskView};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Of how many tasks the output is printed as it comes.
const SHOWN_TASKS: u32 = 16;
/// How long the end of the output is waited for once the job is over.
const LAST_OUTPUT: Duration = Duration::from_secs(10);
/// How often in a row the output of one attempt may break off, with a pause that grows.
const BROKEN_MAX: u32 = 30;
/// Between two looks for the next attempt of a task.
const PAUSE: Duration = Duration::from_millis(300);

pub(crate) fn run(session: &Session, args: &Run) -> Result<u8, Failure> {
    let name = args.name.clone().unwrap_or_else(|| format!("run-{:08x}", ohm_runtime::dice::random_u64() as u32));
    let document = document(&name, args);
    let name = session.job(&name);
    cancel_on_signals(&session.client, &name)?;
    submit(session, &document)?;
    let progress = Progress::start(format!("{name} waits for room; `ohm explain {name}` says why"));
    let started = Instant::now();
    let left = || args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
    let has_started = wait_for(session, &name, Goal::Running, left())?.reached;
    drop(progress);
    if !has_started {
        return give_up(session, &name, args.timeout);
    }
    let shown = args.count.min(SHOWN_TASKS);
    if shown < args.count {
        note(&format!("printing the output of the first {shown} of {} tasks", args.count));
    }
    let (done, ended) = mpsc::channel();
    for task in 0..shown {
        for stderr in [false, true] {
            let source = Source { job: name.clone(), group: None, task, stderr, follow: true };
            let (client, done) = (session.client.clone(), done.clone());
            let prefix = if args.count > 1 { format!("[{task}] ") } else { String::new() };
            // Standard output is for programs when they asked for it.
            let to_stderr = stderr || session.output.format != OutputFormat::Table;
            thread::spawn(move || {
                let whole = print_output(&client, &source, &prefix, to_stderr);
                // Nobody listens any more when the job was over long ago.
                let _ = done.send(whole);
            });
        }
    }
    drop(done);
    let answer = wait_for(session, &name, Goal::Finished, left())?;
    if !answer.reached {
        return give_up(session, &name, args.timeout);
    }
    // Each thread says once that it is done; one that hangs is left behind.
    let mut left = 2 * shown;
    let mut is_whole = true;
    while let Ok(whole) = ended.recv_timeout(LAST_OUTPUT) {
        (left, is_whole) = (left - 1, is_whole && whole);
    }
    if left > 0 {
        note(&format!("the end of the output did not come within {} s", LAST_OUTPUT.as_secs()));
    }
    match finish(session, &answer.job)? {
        EXIT_DONE if left > 0 || !is_whole => {
            let message = format!("{name} has succeeded, but not all of its output could be read");
            Err(Failure::Hinted { message, hint: format!("`ohm logs {name}` tries again") })
        }
        code => Ok(code),
    }
}

/// Ends a job that took too long.
fn give_up(session: &Session, name: &str, timeout: Option<Duration>) -> Result<u8, Failure> {
    let job: JobSummary = session.client.post(&format!("{}/cancel", path_of("jobs", name)))?;
    note(text::job_line(&job).trim_end());
    let seconds = timeout.unwrap_or_default().as_secs();
    Err(Failure::Failed(format!("{name} was not over after {seconds} s and is cancelled")))
}

fn submit(session: &Session, document: &Value) -> Result<(), Failure> {
    let query = [("namespace", session.namespace.clone())];
    let answer = session.client.submit(document.to_string().into_bytes(), "application/json", &query)?;
    if answer.is_good() {
        return Ok(());
    }
    let problems = answer.verdicts.iter().flat_map(|verdict| &verdict.problems);
    let problems = problems.map(|problem| format!("{}: {}", problem.field, problem.message));
    Err(Failure::Failed(problems.collect::<Vec<_>>().join("\n")))
}

/// The job document that `args` describe.
fn document(name: &str, args: &Run) -> Value {
    let named = [("cpu", &args.cpu), ("memory", &args.memory)];
    let named = named.into_iter().filter_map(|(name, amount)| Some((name.to_string(), Value::from(amount.clone()?))));
    let given = |(name, amount): &(String, String)| (name.clone(), Value::from(amount.as_str()));
    let requests: Map<String, Value> = named.chain(args.request.iter().map(given)).collect();
    let limits: Map<String, Value> = args.limit.iter().map(given).collect();
    let selector = args.node_selector.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let env = args.env.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let mut group = json!({
        "name": "main",
        "count": args.count,
        "requests": requests,
        "limits": limits,
        "command": args.command,
        "env": env.collect::<Vec<_>>(),
        "nodeSelector": selector.collect::<Map<_, _>>(),
    });
    if let Some(folder) = &args.working_dir {
        group["workingDir"] = folder.as_str().into();
    }
    let mut spec = json!({"class": "batch", "priority": args.priority, "retries": args.retries, "groups": [group]});
    if let Some(queue) = &args.queue {
        spec["queue"] = queue.as_str().into();
    }
    json!({"apiVersion": "ohm/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}

/// Ctrl-C and SIGTERM cancel the job and end this process. Called before any thread is started, so that all of them
/// leave the signals to the one that waits here.
fn cancel_on_signals(client: &Client, name: &str) -> Result<(), Failure> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block().map_err(|error| Failure::io("blocking signals", error.into()))?;
    let (client, path) = (client.clone(), format!("{}/cancel", path_of("jobs", name)));
    thread::spawn(move || {
        let Ok(signal) = signals.wait() else { return };
        match client.post::<JobSummary>(&path) {
            Ok(_) => note("cancelled"),
            Err(failure) => note(&format!("not cancelled: {failure}")),
        }
        std::process::exit(128 + signal as i32);
    });
    Ok(())
}

/// Prints one output of a task through all of its attempts, until the job is over; whether all of it came. A stream
/// that breaks off, because the server was restarted, is taken up again where it broke off.
fn print_output(client: &Client, source: &Source, prefix: &str, to_stderr: bool) -> bool {
    let (mut attempt, mut is_printed, mut is_whole) = (0, true, true);
    let mut lines = Prefixed::new(prefix, to_stderr);
    let (mut taken_bytes, mut broken) = (0, 0);
    loop {
        let Ok(job) = client.get::<JobView<Value>>(&path_of("jobs", &source.job), &task_window(source.task)) else {
            thread::sleep(PAUSE);
            continue;
        };
        let incarnation = first_task(&job).map_or(0, |task| task.incarnation);
        if incarnation > attempt {
            lines.end();
            (attempt, is_printed, taken_bytes, broken) = (incarnation, false, 0, 0);
        }
        if is_printed {
            if job.summary.is_finished() {
                lines.end();
                return is_whole;
            }
            thread::sleep(PAUSE);
            continue;
        }
        match print_rest(client, source, &mut lines, &mut taken_bytes) {
            Ok(()) => is_printed = true,
            Err(failure) if broken < BROKEN_MAX && failure.may_go_on() => {
                broken += 1;
                thread::sleep(PAUSE * broken);
            }
            Err(failure) => {
                note(&format!("{prefix}{failure}"));
                (is_printed, is_whole) = (true, false);
            }
        }
    }
}

/// Prints what comes after the first `taken_bytes` bytes of the output, and counts on.
fn print_rest(
    client: &Client,
    source: &Source,
    lines: &mut Prefixed<'_>,
    taken_bytes: &mut u64,
) -> Result<(), Failure> {
    let mut stream = source.open(client, None)?;
    let mut known = *taken_bytes;
    copy(&mut stream, &mut |piece| {
        let fresh = &piece[piece.len().min(usize::try_from(known).unwrap_or(usize::MAX))..];
        known = known.saturating_sub(piece.len() as u64);
        lines.print(fresh)?;
        *taken_bytes += fresh.len() as u64;
        Ok(())
    })
}

fn task_window(task: u32) -> [(&'static str, String); 2] {
    [("tasks", "1".to_string()), ("firstTask", task.to_string())]
}

fn first_task(job: &JobView<Value>) -> Option<&TaskView> {
    job.groups.first()?.tasks.first()
}

/// Prints lines with a prefix, so that the output of several tasks stays readable.
struct Prefixed<'p> {
    prefix: &'p str,
    stderr: bool,
    at_start: bool,
}

impl<'p> Prefixed<'p> {
    fn new(prefix: &'p str, stderr: bool) -> Self {
        Prefixed { prefix, stderr, at_start: true }
    }

    fn print(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let bytes = self.prefixed(piece);
        let written = match self.stderr {
            true => io::stderr().lock().write_all(&bytes),
            false => {
                let mut out = io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush())
            }
        };
        written.map_err(|error| Failure::io("writing the output", error))
    }

    fn prefixed(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.prefix.is_empty() {
            self.at_start = true;
            return piece.to_vec();
        }
        let mut bytes = Vec::with_capacity(piece.len() + 64);
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.at_start {
                bytes.extend_from_slice(self.prefix.as_bytes());
            }
            bytes.extend_from_slice(line);
            self.at_start = line.ends_with(b"\n");
        }
        bytes
    }

    fn end(&mut self) {
        if !self.at_start {
            // What cannot be written now could not be written before either.
            let _ = self.print(b"\n");
        }
    }
}

/// The exit code of the job: that of its first task which failed.
fn finish(session: &Session, job: &JobSummary) -> Result<u8, Failure> {
    if session.output.format != OutputFormat::Table {
        session.output.print(job, |_| String::new())?;
    }
    if job.state == "succeeded" {
        return Ok(EXIT_DONE);
    }
    note(text::job_line(job).trim_end());
    let query = [("tasks", "100000".to_string())];
    let view: JobView<Value> = session.client.get(&path_of("jobs", &job.name), &query)?;
    Ok(first_failure(view.groups.iter().flat_map(|group| &group.tasks)))
}

/// The exit code of the first task that failed. Those that were stopped because of it say nothing about the job.
fn first_failure<'t>(tasks: impl Iterator<Item = &'t TaskView>) -> u8 {
    let mut codes = tasks.filter(|task| task.state == "failed").map(exit_code);
    codes.find(|code| *code != EXIT_DONE).unwrap_or(EXIT_FAILED)
}

/// What a shell would say of the end of a task.
fn exit_code(task: &TaskView) -> u8 {
    match (task.exit_code, task.exit_signal) {
        (Some(code), _) => (code & 0xff) as u8,
        (_, Some(signal)) => (128 + (signal & 0x7f)) as u8,
        _ => EXIT_DONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: Run,
    }

    #[test]
    fn a_command_line_makes_a_job_that_the_manifest_reads() {
        let line = "run --cpu 500m --request nvidia.com/gpu=1 --limit cpu=2 --limit memory=1Gi --env A=b=c --count 2 \
                    --priority -3 -- sh -c exit";
        let args = Line::try_parse_from(line.split(' ')).ok().unwrap().run;
        let document = document("run-1", &args).to_string();
        let verdicts = ohm_manifest::parse("run.json", document.as_bytes());
        let ohm_manifest::Content::Job(job) = &verdicts[0].as_ref().unwrap().content else { panic!("no job") };
        let spec = job;
        assert_eq!((spec.name.as_str(), spec.priority, spec.groups[0].count), ("run-1", -3, 2));
        let gpu = ("nvidia.com/gpu".into(), 1000);
        assert_eq!(spec.groups[0].requests, [("cpu".into(), 500), ("memory".into(), 1 << 30), gpu].into());
        assert_eq!(spec.groups[0].limits, [("cpu".into(), 2000), ("memory".into(), 1 << 30)].into());
        assert_eq!(spec.groups[0].task.command, ["sh", "-c", "exit"]);
        assert_eq!(spec.groups[0].task.env, [("A".to_string(), "b=c".to_string())]);
    }

    #[test]
    fn prefixes_begin_lines_whatever_pieces_they_come_in() {
        let mut lines = Prefixed::new("[3] ", false);
        let pieces = ["one\ntw", "o\n", "\nend"].map(|piece| lines.prefixed(piece.as_bytes()));
        assert_eq!(String::from_utf8(pieces.concat()).unwrap(), "[3] one\n[3] two\n[3] \n[3] end");
        assert_eq!(Prefixed::new("", false).prefixed(b"\xff"), b"\xff");
    }

    #[test]
    fn the_first_failed_task_says_how_the_job_ended() {
        let task = |state: &str, exit_code, exit_signal| TaskView {
            state: state.into(),
            exit_code,
            exit_signal,
            ..TaskView::default()
        };
        let stopped = task("stopped", None, Some(15));
        let tasks = [stopped.clone(), task("succeeded", Some(0), None), task("failed", Some(7), None), stopped.clone()];
        assert_eq!(first_failure(tasks.iter()), 7);
        assert_eq!(first_failure([stopped].iter()), EXIT_FAILED, "the job was cancelled, or ran out of time");
        assert_eq!(first_failure([task("failed", None, None)].iter()), EXIT_FAILED, "it never started");
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let task = |exit_code, exit_signal| TaskView { exit_code, exit_signal, ..TaskView::default() };
        assert_eq!(exit_code(&task(Some(3), None)), 3);
        assert_eq!(exit_code(&task(Some(-1), None)), 255);
        assert_eq!(exit_code(&task(None, Some(9))), 137);
        assert_eq!(exit_code(&task(None, None)), 0);
    }
}
