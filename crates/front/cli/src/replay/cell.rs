//! What a replay asks of the cell, all of it through the public API, with patience: a server that restarts is waited
//! for, and everything asked here may be asked twice.

use super::documents::RunName;
use super::figures::{Conflicts, conflicts};
use crate::client::{Client, path_of};
use crate::failure::Failure;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::api::{ExplainView, JobList, JobSummary, NodeList, NodeSummary, StatusView};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a server may be away, and the pause between two tries.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);
/// How often a sleeper looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);
/// How many requests are under way at a time: enough that commands share a write to the disk.
const WORKERS: usize = 16;
/// How many items a page has.
const PAGE: usize = 5000;
/// Longest text of metrics that is read.
const METRICS_BYTES_MAX: u64 = 64 << 20;

/// The cell, and when to stop asking.
pub(super) struct CellClient<'s> {
    client: &'s Client,
    shutdown: Shutdown,
    submitted: AtomicUsize,
}

impl<'s> CellClient<'s> {
    /// Questions that end with [`interrupted`] once `shutdown` has begun.
    pub(super) fn new(client: &'s Client, shutdown: Shutdown) -> Self {
        CellClient { client, shutdown, submitted: AtomicUsize::new(0) }
    }

    /// The cell in numbers, without patience: for the first question.
    pub(super) fn first_status(&self) -> Result<StatusView, Failure> {
        self.client.get("/v1/status", &[])
    }

    /// The cell in numbers.
    pub(super) fn status(&self) -> Result<StatusView, Failure> {
        self.patiently(|| self.client.get("/v1/status", &[]))
    }

    /// Conflicts of all schedulers since the server started.
    pub(super) fn conflicts(&self) -> Result<BTreeMap<String, Conflicts>, Failure> {
        let text = self.patiently(|| {
            let mut text = String::new();
            let stream = self.client.stream("/metrics", &[])?;
            let read = stream.take(METRICS_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|error| Failure::io("reading the metrics", error))?;
            Ok(text)
        })?;
        Ok(conflicts(&text))
    }

    /// The nodes of `run`, by name.
    pub(super) fn nodes(&self, run: &RunName) -> Result<Vec<NodeSummary>, Failure> {
        let ask = |after: &str| {
            let query = [("limit", PAGE.to_string()), ("after", after.to_string())];
            let page: NodeList = self.client.get("/v1/nodes", &query)?;
            Ok((page.nodes, page.next))
        };
        self.pages(run, ask, |node: &NodeSummary| &node.name)
    }

    /// The jobs of `run`, by name; those in `state` only, if one is given.
    pub(super) fn jobs(&self, run: &RunName, state: Option<&str>) -> Result<Vec<JobSummary>, Failure> {
        let ask = |after: &str| {
            let mut query = vec![("limit", PAGE.to_string()), ("after", after.to_string())];
            query.extend(state.map(|state| ("state", state.to_string())));
            let page: JobList = self.client.get("/v1/jobs", &query)?;
            Ok((page.jobs, page.next))
        };
        self.pages(run, ask, |job: &JobSummary| &job.name)
    }

    /// What `ask` lists, once that is at least `least` things, or after a while in any case: a server that has just
    /// started may not know yet what was acknowledged before.
    pub(super) fn at_least<T>(
        &self,
        least: usize,
        ask: impl Fn() -> Result<Vec<T>, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let started = Instant::now();
        loop {
            let things = ask()?;
            if things.len() >= least || started.elapsed() > PATIENCE {
                return Ok(things);
            }
            self.pause(PAUSE)?;
        }
    }

    /// How many jobs were submitted and acknowledged.
    pub(super) fn submitted(&self) -> usize {
        self.submitted.load(Ordering::Relaxed)
    }

    /// All things of `run`, which stand together in the order of names.
    fn pages<T>(
        &self,
        run: &RunName,
        ask: impl Fn(&str) -> Result<(Vec<T>, String), Failure>,
        name: impl Fn(&T) -> &str,
    ) -> Result<Vec<T>, Failure> {
        let prefix = run.prefix();
        let (mut found, mut after) = (Vec::new(), prefix.clone());
        loop {
            let (page, next) = self.patiently(|| ask(&after))?;
            found.extend(page.into_iter().filter(|thing| name(thing).starts_with(&prefix)));
            if next.is_empty() || !next.starts_with(&prefix) {
                return Ok(found);
            }
            after = next;
        }
    }

    /// Submits job documents.
    ///
    /// # Errors
    /// Beside the usual ones, the first problem of a refused document.
    pub(super) fn submit(&self, documents: &[Value]) -> Result<(), Failure> {
        let body: String = documents.iter().map(|document| format!("{document}\n")).collect();
        let only_refused = [("verdicts", "refused".to_string())];
        let mut tries_end = Instant::now() + PATIENCE;
        loop {
            let answer = self.patiently(|| self.client.submit(body.as_str(), "application/x-ndjson", &only_refused))?;
            let refused = answer.verdicts.iter().find_map(|verdict| Some((verdict, verdict.problems.first()?)));
            if let Some((verdict, problem)) = refused.filter(|_| answer.refused > 0) {
                let message = format!("job {} was refused: {}", verdict.name, problem.message);
                return Err(Failure::Failed(message));
            }
            if answer.unknown == 0 {
                self.submitted.fetch_add(documents.len(), Ordering::Relaxed);
                return Ok(());
            }
            if answer.accepted > 0 {
                tries_end = Instant::now() + PATIENCE;
            }
            if Instant::now() > tries_end {
                return Err(Failure::Failed(format!("{} jobs got no answer", answer.unknown)));
            }
            self.pause(PAUSE)?;
        }
    }

    /// Why each of `jobs` is in its state.
    pub(super) fn explain(&self, jobs: &[String], done: impl Fn() + Sync) -> Result<Vec<ExplainView>, Failure> {
        self.each(jobs, |job| self.client.get(&format!("{}/explain", path_of("jobs", job)), &[]), done)
    }

    /// Cancels `jobs`; those that are over or forgotten already are fine.
    pub(super) fn cancel(&self, jobs: &[String], done: impl Fn() + Sync) -> Result<(), Failure> {
        let cancel = |job: &String| {
            let cancelled = self.client.post::<Value>(&format!("{}/cancel", path_of("jobs", job)));
            unless_gone(cancelled.map(drop))
        };
        self.each(jobs, cancel, done).map(drop)
    }

    /// Forgets `jobs`, so that nothing of the replay stays in the list; those that are gone already are fine, and those
    /// whose runs still stop are left to their time.
    pub(super) fn forget(&self, jobs: &[String], done: impl Fn() + Sync) -> Result<(), Failure> {
        let forget = |job: &String| match self.client.delete(&path_of("jobs", job)) {
            Err(Failure::Refused(error)) if matches!(error.code.as_str(), "not_found" | "wrong_state") => Ok(()),
            forgotten => forgotten,
        };
        self.each(jobs, forget, done).map(drop)
    }

    /// Removes `nodes`; those that are not there are fine.
    pub(super) fn remove_nodes(&self, nodes: &[String], done: impl Fn() + Sync) -> Result<(), Failure> {
        let remove = |node: &String| match self.client.delete(&path_of("nodes", node)) {
            Err(Failure::Refused(error)) if error.code == "not_found" => Ok(()),
            removed => removed,
        };
        self.each(nodes, remove, done).map(drop)
    }

    /// Asks about each of `items`, several at a time; the answers in their order. `done` is called after each.
    fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        ask: impl Fn(&T) -> Result<R, Failure> + Sync,
        done: impl Fn() + Sync,
    ) -> Result<Vec<R>, Failure> {
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(Ok(BTreeMap::new()));
        let lock = || answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(number) else { return };
                let answer = self.patiently(|| ask(item));
                let mut answers = lock();
                match (&mut *answers, answer) {
                    (Ok(answers), Ok(answer)) => drop(answers.insert(number, answer)),
                    (Ok(_), Err(failure)) => *answers = Err(failure),
                    (Err(_), _) => return,
                }
                done();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..WORKERS.min(items.len()) {
                scope.spawn(work);
            }
        });
        let answers = answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        answers.map(|answers| answers.into_values().collect())
    }

    /// Asks until there is an answer, for a while.
    fn patiently<T>(&self, ask: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        let started = Instant::now();
        loop {
            if self.shutdown.is_started() {
                return Err(interrupted());
            }
            match ask() {
                Err(failure) if failure.is_passing() && started.elapsed() < PATIENCE => self.pause(PAUSE)?,
                answer => return answer,
            }
        }
    }

    /// Sleeps.
    ///
    /// # Errors
    /// An interruption ends the sleep.
    pub(super) fn pause(&self, length: Duration) -> Result<(), Failure> {
        let until = Instant::now() + length;
        loop {
            if self.shutdown.is_started() {
                return Err(interrupted());
            }
            match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => std::thread::sleep(left.min(LOOK)),
            }
        }
    }
}

/// Somebody pressed ctrl-C.
fn interrupted() -> Failure {
    Failure::Failed("interrupted: nothing is reported".to_string())
}

fn unless_gone(done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Err(Failure::Refused(error)) if matches!(error.code.as_str(), "not_found" | "wrong_state") => Ok(()),
        done => done,
    }
}
