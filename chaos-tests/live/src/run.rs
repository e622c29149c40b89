//! One run: start the cell, let the timeline happen, heal, wait until quiet, stop, judge.

use crate::cell::Cell;
use crate::client::{Book, Submitter};
use crate::disk::SmallDisk;
use crate::error::LiveError;
use crate::evidence;
use crate::history::History;
use crate::outage::{SubmitRequest, longest_waits};
use crate::repairs::Repairs;
use crate::replay;
use crate::report::{JobCounts, Report, Strike};
use crate::scenario::Scenario;
use crate::starts::Starts;
use crate::timeline::{Action, Timeline};
use crate::verdict::{Finding, expected, judge};
use ohm_runtime::clock::boot_ms;
use ohm_runtime::recorder::Recorder;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::api::JobSummary;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Between two looks at everything.
const LOOK: Duration = Duration::from_millis(20);
/// Between two words about how far it is.
const SAY: Duration = Duration::from_secs(5);
/// Between two questions whether all is quiet.
const ASK: Duration = Duration::from_millis(500);
/// How long the cell may take after the last fault until it has taken every job, in milliseconds.
const SUBMITTING_MS: u64 = 120_000;
/// Jobs named when something is wrong with many.
const NAMED_MAX: usize = 5;

/// Runs the timeline of a scenario in `folder` and judges it.
pub(crate) fn run(
    scenario: &Scenario,
    name: &str,
    mut timeline: Timeline,
    folder: &Path,
    shutdown: &Shutdown,
) -> Result<Report, LiveError> {
    let started = Instant::now();
    let mut skipped = Vec::new();
    let disk = mount(scenario, folder, &mut timeline, &mut skipped);
    say(started, &format!("starting {} processes in {}", scenario.cell.processes().len(), folder.display()));
    let mut cell = Cell::start(folder, &scenario.cell, &timeline.disturbed(), disk)?;
    let book = Book::default();
    let mut drive = Drive { cell: &mut cell, timeline: &timeline, book: &book, shutdown, started };
    let Lived { strikes, jobs, mut findings } = drive.live(scenario.quiet_ms)?;
    let ended_by_themselves = cell.ended_by_themselves();
    say(started, "stopping the cell");
    for stubborn in cell.stop() {
        findings.push(Finding::alone("stop", format!("{stubborn} did not stop when it was asked to and was killed")));
    }
    findings.extend(book.refused().into_iter().map(|refused| Finding::alone("submit", format!("refused: {refused}"))));
    findings.extend(unsuccessful(&jobs, &timeline));
    say(started, "judging");
    let judged = judge_all(&cell, scenario, &timeline, folder, &mut findings)?;
    let (hits, findings) = expected(&scenario.expectations, findings);
    let requests = book.requests();
    Ok(Report {
        scenario: name.to_string(),
        seed: 0,
        about: scenario.about.clone(),
        seconds: started.elapsed().as_secs(),
        strikes: told(&strikes, &requests, &judged.history),
        jobs: JobCounts {
            planned: timeline.jobs(),
            acknowledged: book.acknowledged.load(Ordering::Relaxed),
            ended: jobs.iter().filter(|job| job.is_finished()).count(),
            succeeded: jobs.iter().filter(|job| has_succeeded(job, &timeline)).count(),
            requests: requests.iter().map(|request| u64::from(request.tries)).sum(),
        },
        history: evidence::counts(&judged.history, judged.files),
        repairs: judged.repairs,
        starts: judged.starts,
        ended_by_themselves,
        verified: judged.verified,
        skipped,
        expected: hits,
        findings,
        evidence: None,
    })
}

/// What was judged.
struct Judged {
    history: History,
    repairs: Repairs,
    starts: Starts,
    files: usize,
    verified: String,
}

/// Hands everything that the stopped cell left to the judges. `history.txt` is written whatever they say.
fn judge_all(
    cell: &Cell,
    scenario: &Scenario,
    timeline: &Timeline,
    folder: &Path,
    findings: &mut Vec<Finding>,
) -> Result<Judged, LiveError> {
    let folders = cell.server_folders();
    let replayed = replay::replay(&folders, cell.etcd(), timeline.strikes_nodes_only())?;
    findings.extend(replayed.findings);
    let mut verified = Vec::new();
    for folder in &folders {
        let (said, finding) = log_verify(folder, cell.etcd());
        verified.push(said);
        findings.extend(finding);
    }
    let tapes = evidence::tapes(&cell.records())?;
    let history = History::merge(&tapes, &replayed.log, evidence::signs(&cell.signs())?);
    findings.extend(judge(&history, timeline, &scenario.expectations));
    let (starts, needless) = Starts::of(&history, timeline);
    findings.extend(needless);
    evidence::write_history(&folder.join("history.txt"), &history)?;
    // A small disk goes with the run.
    for server in folders.iter().filter(|server| server.parent() != Some(folder)) {
        evidence::copy(server, &folder.join(server.file_name().unwrap_or_default()))?;
    }
    let repairs = Repairs::of(&history, replayed.longest_idle_ms);
    Ok(Judged { history, repairs, starts, files: tapes.len(), verified: verified.join("; ") })
}

/// Faults with what clients and tasks felt of them.
fn told(strikes: &[(u64, Action)], requests: &[SubmitRequest], history: &History) -> Vec<Strike> {
    let moments: Vec<u64> = strikes.iter().map(|(at_ms, _)| *at_ms).collect();
    let first_ms = moments.first().copied().unwrap_or(0);
    let felt = longest_waits(&moments, requests).into_iter().zip(evidence::longest_silences(&moments, history));
    let one = |((at_ms, action), (longest_wait_ms, longest_silence_ms)): (&(u64, Action), _)| Strike {
        after_ms: at_ms - first_ms,
        kind: action.fault().unwrap_or_default(),
        what: action.to_string(),
        longest_wait_ms,
        longest_silence_ms,
    };
    strikes.iter().zip(felt).map(one).collect()
}

/// The file system the scenario wants, or a timeline without what needs it.
fn mount(scenario: &Scenario, folder: &Path, timeline: &mut Timeline, skipped: &mut Vec<String>) -> Option<SmallDisk> {
    match SmallDisk::mount(&folder.join("disk"), scenario.cell.disk_bytes?) {
        Ok(disk) => Some(disk),
        Err(reason) => {
            let before = timeline.steps.len();
            timeline.steps.retain(|step| !matches!(step.action, Action::FillDisk | Action::MakeRoom));
            let count = (before - timeline.steps.len()) / 2;
            skipped.push(format!("full disk, {count} times: no file system can be mounted here ({reason})"));
            None
        }
    }
}

/// What the part with the cell alive brings.
struct Lived {
    strikes: Vec<(u64, Action)>,
    jobs: Vec<JobSummary>,
    findings: Vec<Finding>,
}

/// The part with the cell alive.
struct Drive<'d> {
    cell: &'d mut Cell,
    timeline: &'d Timeline,
    book: &'d Book,
    shutdown: &'d Shutdown,
    started: Instant,
}

impl Drive<'_> {
    /// Clients submit while the timeline happens; then all is healed and waited for.
    fn live(&mut self, quiet_ms: u64) -> Result<Lived, LiveError> {
        let (timeline, book) = (self.timeline, self.book);
        let (mut strikes, mut submitters) = (Vec::new(), Vec::new());
        for number in 1..=timeline.submissions.len() {
            let recorder = Recorder::open(&self.cell.records(), "client", &format!("client-{number}"));
            let recorder = recorder.map_err(|error| LiveError::Io("records".into(), error))?;
            submitters.push(Submitter { client: self.cell.far_client(), recorder, signs: self.cell.signs() });
        }
        let quiet = scope(|scope| {
            let start = Instant::now();
            for (mut submitter, submissions) in submitters.into_iter().zip(&timeline.submissions) {
                scope.spawn(move || submitter.run(submissions, start, book));
            }
            let quiet = self.happen(start, &mut strikes).and_then(|untaken| {
                let (late, jobs) = self.wait_until_quiet(quiet_ms)?;
                Ok((untaken.into_iter().chain(late).collect(), jobs))
            });
            // Whatever became of it, nobody tries any longer.
            book.give_up.store(true, Ordering::Relaxed);
            quiet
        });
        quiet.map(|(findings, jobs)| Lived { strikes, jobs, findings })
    }

    /// Lets the timeline happen until every job is taken; every strike is noted with its moment.
    fn happen(&mut self, start: Instant, strikes: &mut Vec<(u64, Action)>) -> Result<Option<Finding>, LiveError> {
        let mut steps = self.timeline.steps.iter().peekable();
        let (jobs, mut said) = (self.timeline.jobs(), Instant::now());
        loop {
            let now_ms = start.elapsed().as_millis() as u64;
            while let Some(step) = steps.next_if(|step| step.at_ms <= now_ms) {
                let Some(action) = self.cell.resolve(&step.action)? else {
                    say(self.started, "nobody leads: nobody to kill");
                    continue;
                };
                say(self.started, &action.to_string());
                if action.fault().is_some() {
                    strikes.push((boot_ms(), action.clone()));
                }
                self.cell.perform(&action)?;
            }
            let done = self.book.acknowledged.load(Ordering::Relaxed) + self.book.refused().len();
            if steps.peek().is_none() && done >= jobs {
                self.cell.heal();
                return Ok(None);
            }
            if now_ms > self.timeline.length_ms() + SUBMITTING_MS {
                self.cell.heal();
                let what = format!("{done} of {jobs} jobs were acknowledged {SUBMITTING_MS} ms after the last fault");
                return Ok(Some(Finding::alone("P10", what)));
            }
            if said.elapsed() > SAY {
                said = Instant::now();
                say(self.started, &format!("{done} of {jobs} jobs acknowledged"));
            }
            self.breathe()?;
        }
    }

    /// Waits until every job has ended: P10, as far as a clock can tell. What has not ended in time is found.
    fn wait_until_quiet(&mut self, quiet_ms: u64) -> Result<(Vec<Finding>, Vec<JobSummary>), LiveError> {
        let (healed, mut asked, mut said) = (Instant::now(), Instant::now(), Instant::now());
        let mut last = Vec::new();
        loop {
            let is_late = healed.elapsed() > Duration::from_millis(quiet_ms);
            if asked.elapsed() > ASK || is_late {
                asked = Instant::now();
                if let Ok(jobs) = self.cell.client().jobs() {
                    last = jobs;
                }
                let open: Vec<&JobSummary> = last.iter().filter(|job| !job.is_finished()).collect();
                for job in self.done_their_part(&open) {
                    self.cell.client().cancel(&job.name);
                }
                let missing = self.book.acknowledged.load(Ordering::Relaxed).saturating_sub(last.len());
                if open.is_empty() && missing == 0 {
                    return Ok((Vec::new(), last));
                }
                if is_late {
                    return Ok((too_late(&open, missing, quiet_ms), last));
                }
                if said.elapsed() > SAY {
                    said = Instant::now();
                    say(self.started, &format!("healed; {} jobs have not ended", open.len() + missing));
                }
            }
            self.breathe()?;
        }
    }

    /// Services never end by themselves; one that runs again after all that has done its part. Gangs that run until the
    /// end make no room for each other: all must be whole first.
    fn done_their_part<'j>(&self, open: &[&'j JobSummary]) -> Vec<&'j JobSummary> {
        let is_whole = |job: &&&JobSummary| job.state == "running" && job.tasks.running == job.tasks.total;
        let mut done: Vec<&JobSummary> =
            open.iter().copied().filter(|job| self.timeline.is_service(&job.name)).collect();
        done.retain(|job| job.state == "running");
        let until_the_end = open.iter().filter(|job| self.timeline.is_until_the_end(&job.name));
        if until_the_end.clone().all(|job| is_whole(&job)) {
            done.extend(until_the_end);
        }
        done
    }

    fn breathe(&mut self) -> Result<(), LiveError> {
        if self.shutdown.is_started() {
            return Err(LiveError::Interrupted);
        }
        self.cell.look()?;
        sleep(LOOK);
        Ok(())
    }
}

fn too_late(open: &[&JobSummary], missing: usize, quiet_ms: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !open.is_empty() {
        let named = open.iter().take(NAMED_MAX).map(|job| format!("{} is {} ({})", job.name, job.state, job.reason));
        let named = named.collect::<Vec<_>>().join(", ");
        let what = format!("{} jobs have not ended {quiet_ms} ms after everything was healed: {named}", open.len());
        findings.push(Finding::alone("P10", what));
    }
    if missing > 0 {
        let what = format!("the server lists {missing} jobs fewer than were acknowledged");
        findings.push(Finding::alone("P3", what));
    }
    findings
}

/// Whether the job ended as it should.
fn has_succeeded(job: &JobSummary, timeline: &Timeline) -> bool {
    job.state == "succeeded"
        || (job.state == "cancelled" && (timeline.is_service(&job.name) || timeline.is_until_the_end(&job.name)))
}

/// No task of these loads fails by itself, and what faults end is never charged to it.
fn unsuccessful(jobs: &[JobSummary], timeline: &Timeline) -> Option<Finding> {
    let failed: Vec<&JobSummary> =
        jobs.iter().filter(|job| job.is_finished() && !has_succeeded(job, timeline)).collect();
    let named = failed.iter().take(NAMED_MAX).map(|job| format!("{} {} ({})", job.name, job.state, job.reason));
    let named = named.collect::<Vec<_>>().join(", ");
    (!failed.is_empty()).then(|| Finding::alone("P7", format!("{} jobs did not succeed: {named}", failed.len())))
}

/// Asks `ohm log verify`: what it says last, and a finding unless it is content.
fn log_verify(server_folder: &Path, etcd: &[String]) -> (String, Option<Finding>) {
    let mut command = Command::new("/proc/self/exe");
    command.args(["log", "verify", "--data-dir"]).arg(server_folder);
    if !etcd.is_empty() {
        command.args(["--engine", "etcd", "--etcd", &etcd.join(",")]);
    }
    let output = command.output();
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let last = text.lines().last().unwrap_or_default().to_string();
            let wrong =
                || Finding::alone("ohm log verify", format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
            (last, (!output.status.success()).then(wrong))
        }
        Err(error) => (String::new(), Some(Finding::alone("ohm log verify", error.to_string()))),
    }
}

/// A line for whoever watches.
pub(crate) fn say(started: Instant, text: &str) {
    eprintln!("{:>7.1} s  {text}", started.elapsed().as_secs_f64());
}
