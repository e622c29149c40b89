//! `POST /v1/submit`: documents in, one verdict each.
//!
//! Jobs that follow each other travel in batches, each one command; everything else is a command of its own, in the
//! order of the input, so that a queue or a priority class stands before the jobs that name it. A document that was not
//! tried because an earlier one got no answer is `unknown`: whoever sends everything again gets `unchanged` for what is
//! there.

use super::answer::{Answer, Problem, json_with};
use super::bodies::{Documents, Parsed, broken_body};
use super::lanes::Client;
use super::lines::{LINE_BYTES_MAX, LineReader, Lines};
use super::params::{Caller, Params};
use super::verdicts::{Ticket, unreadable};
use super::{Shared, guard};
use crate::handle::Unanswered;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use ohm_cell::{Cell, JobState, QuotaNode, subqueues};
use ohm_log::ENTRY_BYTES_MAX;
use ohm_manifest::{Content, Document};
use ohm_model::{Command, GroupSpec, Index, JobOutcome, JobSpec, Outcome, Refusal, names};
use ohm_stdx::codec;
use ohm_wire::api::{DocumentVerdict, SubmitAnswer};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio_stream::StreamExt;

/// Most jobs of one command.
const BATCH_JOBS_MAX: usize = 1024;
/// A batch is sent when it has reached this size, which leaves room in an entry for others' commands.
const BATCH_BYTES: usize = ENTRY_BYTES_MAX / 4;
/// A job that takes more than this in the log would not leave room for what belongs around it.
const JOB_BYTES_MAX: usize = ENTRY_BYTES_MAX / 2;
/// How often a busy server is tried again, and the pause between two tries. Busy means that nothing was done.
const BUSY_TRIES: u32 = 40;
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// How long the last runs of a finished job that is replaced may take to stop.
const STOPPING_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Listed {
    #[default]
    All,
    Refused,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitQuery {
    #[serde(default)]
    verdicts: Listed,
    #[serde(default)]
    replace: bool,
    #[serde(default)]
    update: bool,
    namespace: Option<String>,
}

pub(super) async fn submit(
    caller: Caller,
    client: Client,
    Params(query): Params<SubmitQuery>,
    request: Request,
) -> Answer {
    let content_type = guard::content_type(request.headers());
    let mut submission = Submission::new(&caller, query.verdicts == Listed::All);
    (submission.replace, submission.update) = (query.replace, query.update);
    if let Some(namespace) = &query.namespace {
        let hint = "`namespace` is the one of jobs whose metadata name none";
        names::namespace(namespace).map_err(|error| Problem::invalid(format!("namespace {error}"), hint))?;
        submission.namespace = Some(namespace);
    }
    let body = request.into_body();
    match content_type.as_str() {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => submit_lines(submission, body).await,
        given => {
            let Shared { bodies, options, .. } = &caller.shared;
            let name = if given == "application/json" { "input.json" } else { "input.yaml" };
            let body = bodies.read(&client, body, options.body_bytes_max).await?;
            submit_whole(submission, bodies.parse(name, body)).await
        }
    }
}

async fn submit_whole(mut submission: Submission<'_>, mut documents: Documents) -> Answer {
    while let Some(chunk) = documents.next().await? {
        for document in chunk {
            submission.add(document, 0).await;
        }
    }
    submission.finish().await
}

async fn submit_lines(mut submission: Submission<'_>, body: Body) -> Answer {
    let mut pieces = body.into_data_stream();
    let mut reader = LineReader::default();
    loop {
        let piece = pieces.next().await.transpose().map_err(|error| broken_body(&error))?;
        let last = piece.is_none();
        let lines = reader.push(piece.as_deref());
        if !lines.is_empty() {
            // No piece of the network is long.
            for (lines_before, verdict) in parse_lines(lines) {
                match verdict {
                    Ok(document) => submission.add(document, lines_before).await,
                    Err(length) => submission.add_long_line(lines_before + 1, length),
                }
            }
        }
        if last {
            return submission.finish().await;
        }
    }
}

/// The documents of each line with the number of lines before it; of a line that was too long, its length.
fn parse_lines(lines: Lines) -> Vec<(u64, Result<Parsed, usize>)> {
    let mut parsed = Vec::new();
    lines.each(|number, line| match line {
        Ok(line) => {
            let documents = ohm_manifest::parse("line.json", line);
            parsed.extend(documents.into_iter().map(|document| (number - 1, Ok(document))));
        }
        Err(length) => parsed.push((number - 1, Err(length))),
    });
    parsed
}

/// What whoever submits `spec` should know, although it is no mistake: simulated nodes need no command, so that traces
/// and capacity questions can leave it out, but a real node can't start the job.
fn note_on(spec: &JobSpec) -> &'static str {
    let has_none = |group: &GroupSpec| group.task.command.is_empty();
    if spec.groups.iter().any(has_none) { "it has no command: only simulated nodes can run it" } else { "" }
}

/// The command that puts what is neither a job nor a node, and whether `cell` has it like that already.
fn putting(content: Content, cell: Option<&Cell>) -> Option<(Command, bool)> {
    let known = |is_same: &dyn Fn(&Cell) -> bool| cell.is_some_and(is_same);
    let found = match content {
        Content::Queue(spec) => {
            let is_same = |node: &QuotaNode| !node.is_implicit() && node.spec == spec;
            (known(&|cell| cell.quota().get(&spec.name).is_some_and(is_same)), Command::PutQueue(spec))
        }
        Content::Subqueue(subqueue) => {
            let was_there = known(&|cell| subqueues(cell).get(&subqueue.name) == Some(&subqueue));
            (was_there, Command::PutSubqueue(subqueue))
        }
        Content::ResourceFlavor(flavor) => {
            let was_there = known(&|cell| cell.quota().flavors().get(&flavor.name) == Some(&*flavor));
            (was_there, Command::PutResourceFlavor(flavor))
        }
        Content::Scheduling(scheduling) => {
            (known(&|cell| *cell.quota().scheduling() == scheduling), Command::PutScheduling(scheduling))
        }
        Content::Topology(spec) => {
            (known(&|cell| cell.topologies().iter().any(|known| known.spec == spec)), Command::PutTopology(spec))
        }
        Content::Namespace(namespace) => {
            let was_there = known(&|cell| ohm_cell::namespaces(cell).get(&namespace.name) == Some(&namespace));
            (was_there, Command::PutNamespace(namespace))
        }
        Content::Budget(budget) => {
            let was_there = known(&|cell| ohm_cell::budget(cell, &budget.name) == Some(&*budget));
            (was_there, Command::PutBudget(*budget))
        }
        Content::PriorityClass(class) => {
            let was_there = known(&|cell| cell.priority_classes().get(&class.name) == Some(&class));
            (was_there, Command::PutPriorityClass(class))
        }
        Content::ProvisioningClass(class) => {
            let is_same =
                |cell: &Cell| cell.provisioning_classes().get(&class.name).is_some_and(|known| **known == *class);
            (known(&is_same), Command::PutProvisioningClass(*class))
        }
        Content::SchedulingProfile(profile) => {
            let is_same =
                |cell: &Cell| cell.profiles().submitted(profile.class).is_some_and(|known| **known == *profile);
            (known(&is_same), Command::PutSchedulingProfile(profile))
        }
        Content::Job(_) | Content::Node(_) | Content::Allocation(_) | Content::Pod(_) => return None,
    };
    let (was_there, command) = found;
    Some((command, was_there))
}

/// The answers in the outcome of a command about jobs, or why there is none.
fn answers_in(outcome: Result<Outcome, String>) -> (Vec<JobOutcome>, String) {
    match outcome {
        Ok(Outcome::Jobs(outcomes)) => (outcomes, String::new()),
        Ok(Outcome::Refused(refusal)) => (Vec::new(), refusal.to_string()),
        Ok(_) => (Vec::new(), "the cell gave no answer to it; send it again".to_string()),
        Err(message) => (Vec::new(), message),
    }
}

/// A document behind the last one whose verdict was given out.
enum Waiting {
    /// It has its verdict, but earlier ones do not yet.
    Judged(DocumentVerdict),
    /// A job of the batch.
    Job(Ticket),
}

/// One request on its way.
struct Submission<'c> {
    caller: &'c Caller,
    answer: SubmitAnswer,
    list_good: bool,
    /// Finished jobs of the same names are forgotten first.
    replace: bool,
    /// Jobs of the same names that are not finished are changed.
    update: bool,
    /// The namespace of jobs that name none.
    namespace: Option<&'c str>,
    documents: u64,
    index: Index,
    waiting: Vec<Waiting>,
    jobs: Vec<JobSpec>,
    jobs_bytes: usize,
    stopped: Option<Unanswered>,
}

impl<'c> Submission<'c> {
    fn new(caller: &'c Caller, list_good: bool) -> Self {
        Submission {
            caller,
            answer: SubmitAnswer::default(),
            list_good,
            replace: false,
            update: false,
            namespace: None,
            documents: 0,
            index: *caller.shared.cells.applied().borrow(),
            waiting: Vec::new(),
            jobs: Vec::new(),
            jobs_bytes: 0,
            stopped: None,
        }
    }

    /// Takes the next document, which stands after `lines_before` lines.
    async fn add(&mut self, document: Parsed, lines_before: u64) {
        self.documents += 1;
        let mut document = match document {
            Ok(document) => document,
            Err(error) => return self.record(unreadable(&error, self.documents, lines_before)),
        };
        self.namespace.into_iter().for_each(|namespace| document.in_namespace(namespace));
        self.complete(&mut document).await;
        let ticket = Ticket::of(&document, self.documents, lines_before);
        if document.created_us.is_some() {
            let message = "is for `ohm plan`: a cell counts from when it gets the job; leave it out";
            return self.record(ticket.refused("metadata.creationTimestamp", message));
        }
        match document.content {
            Content::Job(job) => self.add_job(ticket, *job).await,
            Content::Node(_) => {
                let message = "nodes are not submitted: a node registers itself when `ohm agent` runs on it";
                self.record(ticket.refused("kind", message));
            }
            Content::Allocation(_) | Content::Pod(_) => {
                let message = "an Allocation belongs into the cell file of `ohm plan`; submit the job instead";
                self.record(ticket.refused("kind", message));
            }
            content => {
                let cell = self.caller.shared.cells.now().await.ok();
                if let Some((command, was_there)) = putting(content, cell.as_deref()) {
                    self.send_one(ticket, command, was_there).await;
                }
            }
        }
    }

    /// Fills in what a job of an operator's class leaves to that class. Of a class that the cell does not know the job
    /// is refused anyway.
    async fn complete(&self, document: &mut Document) {
        let (Content::Job(job), Some(_)) = (&document.content, &document.left_open) else { return };
        let class = job.class;
        if let Ok(cell) = self.caller.shared.cells.now().await
            && let Some(kind) = cell.profiles().kind(class)
        {
            document.for_class_like(kind);
        }
    }

    fn add_long_line(&mut self, line: u64, length: usize) {
        self.documents += 1;
        let message = format!("the line is {length} bytes long; at most {LINE_BYTES_MAX} may be: split the document");
        let verdict = Ticket::new(self.documents, line, 1).refused("", &message);
        self.record(verdict);
    }

    async fn add_job(&mut self, ticket: Ticket, spec: JobSpec) {
        let bytes = codec::encode(&spec).len();
        if bytes > JOB_BYTES_MAX {
            let message = format!("the job takes {bytes} bytes in the log; at most {JOB_BYTES_MAX} may be: split it");
            return self.record(ticket.refused("spec", &message));
        }
        if self.jobs.len() >= BATCH_JOBS_MAX || self.jobs_bytes + bytes > BATCH_BYTES {
            self.flush().await;
        }
        let ticket = ticket.with_note(note_on(&spec));
        self.jobs_bytes += bytes;
        self.jobs.push(spec);
        self.waiting.push(Waiting::Job(ticket));
    }

    /// Gives a verdict out, behind those of the batch, so that they come in the order of the documents.
    fn record(&mut self, verdict: DocumentVerdict) {
        if self.waiting.is_empty() {
            self.answer.add(verdict, self.list_good);
        } else {
            self.waiting.push(Waiting::Judged(verdict));
        }
    }

    async fn send_one(&mut self, ticket: Ticket, command: Command, was_there: bool) {
        self.flush().await;
        let verdict = match self.send(command).await {
            Ok(outcome) => ticket.of_outcome(&outcome, was_there),
            Err(message) => ticket.unknown(&message),
        };
        self.answer.add(verdict, self.list_good);
    }

    /// Sends the batch and gives its verdicts out.
    async fn flush(&mut self) {
        self.jobs_bytes = 0;
        let jobs = std::mem::take(&mut self.jobs);
        if jobs.is_empty() {
            return;
        }
        if self.replace {
            self.forget_finished(&jobs).await;
        }
        let (outcomes, message) = match self.update {
            true => self.put_jobs(jobs).await,
            false => self.submit_jobs(jobs).await,
        };
        // Who hears "unchanged" is told if the job is over already: nothing will run. Who hears "updated" is told of
        // its rollout.
        let says_more = |outcome: &JobOutcome| matches!(outcome, JobOutcome::Unchanged(_) | JobOutcome::Updated(_));
        let cell = if outcomes.iter().any(says_more) { self.caller.shared.cells.now().await.ok() } else { None };
        let mut outcomes = outcomes.into_iter();
        for waiting in std::mem::take(&mut self.waiting) {
            let verdict = match waiting {
                Waiting::Judged(verdict) => verdict,
                Waiting::Job(ticket) => match outcomes.next() {
                    Some(outcome) => ticket.of_job(outcome, cell.as_deref()),
                    None => ticket.unknown(&message),
                },
            };
            self.answer.add(verdict, self.list_good);
        }
    }

    /// The cell's answers to `jobs`, and why those at the end have none.
    async fn submit_jobs(&mut self, jobs: Vec<JobSpec>) -> (Vec<JobOutcome>, String) {
        let outcome = self.send(Command::SubmitJobs { jobs }).await;
        answers_in(outcome)
    }

    /// Submits the jobs, and changes those whose names are taken by something else; each of these by itself, in order.
    async fn put_jobs(&mut self, jobs: Vec<JobSpec>) -> (Vec<JobOutcome>, String) {
        let (mut outcomes, message) = self.submit_jobs(jobs.clone()).await;
        let mut changed = BTreeSet::new();
        for (at, job) in jobs.into_iter().enumerate().take(outcomes.len()) {
            let is_taken = matches!(outcomes[at], JobOutcome::Refused(Refusal::NameTaken { .. }));
            // A document before may have made something else of what this one found unchanged.
            if !is_taken && !changed.contains(&job.name) {
                continue;
            }
            changed.insert(job.name.clone());
            let update = Command::UpdateJob { spec: Box::new(job), version: None };
            let outcome = self.send(update).await;
            let (mut answer, message) = answers_in(outcome);
            match answer.pop() {
                Some(outcome) => outcomes[at] = outcome,
                None => {
                    outcomes.truncate(at);
                    return (outcomes, message);
                }
            }
        }
        (outcomes, message)
    }

    /// Forgets the finished jobs that have the names of `jobs`. One whose last runs still stop is waited for, for a
    /// while; if it stays, its name stays taken, and the verdict says so.
    async fn forget_finished(&mut self, jobs: &[JobSpec]) {
        let mut names: BTreeSet<&String> = jobs.iter().map(|job| &job.name).collect();
        let give_up = Instant::now() + STOPPING_PATIENCE;
        while let Ok(cell) = self.caller.shared.cells.now().await {
            let of = |name: &&String| {
                let job = cell.jobs().find(name)?;
                matches!(job.state, JobState::Finished(_)).then(|| job.live() > 0)
            };
            names.retain(|name| of(name).is_some());
            let over: Vec<String> =
                names.iter().filter(|name| of(name) == Some(false)).map(ToString::to_string).collect();
            drop(cell);
            for name in over {
                names.remove(&name);
                if self.send(Command::ForgetJob { name }).await.is_err() {
                    return;
                }
            }
            if names.is_empty() || Instant::now() > give_up {
                return;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// Sends one command; what comes back as an error is said of every document in it.
    async fn send(&mut self, command: Command) -> Result<Outcome, String> {
        if let Some(stopped) = &self.stopped {
            return Err(format!("not tried, since an earlier document got no answer ({stopped}); send it again"));
        }
        let mut tries = 0;
        let unanswered = loop {
            tries += 1;
            match self.caller.command(command.clone()).await {
                Ok((index, outcome)) => {
                    self.index = self.index.max(index);
                    return Ok(outcome);
                }
                Err(Unanswered::Busy(_)) if tries < BUSY_TRIES => tokio::time::sleep(BUSY_PAUSE).await,
                Err(unanswered) => break unanswered,
            }
        };
        let message = unanswered.to_string();
        self.stopped = Some(unanswered);
        Err(message)
    }

    async fn finish(mut self) -> Answer {
        self.flush().await;
        let status = match &self.stopped {
            Some(Unanswered::Unknown(_)) => StatusCode::GATEWAY_TIMEOUT,
            Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            None if self.answer.is_good() => StatusCode::OK,
            None => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Ok(json_with(status, self.index, &self.answer))
    }
}
