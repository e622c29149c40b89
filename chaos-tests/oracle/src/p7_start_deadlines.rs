//! P7 for start deadlines (`pendingTimeoutSeconds`), in stamped time: a job fails by its own only when it has waited
//! for so long, and one that waits for longer fails.
//!
//! It waits while it is neither over nor suspended, nothing of it stands, moves or backs off, and it does not wait
//! because it was not ready in time; each such wait has the
//! whole time. Who may back off, move, or live on behind a lost node is not taken to wait. How late a job is counts by
//! what the log shows of the time: where nobody writes to the log, nobody is late.

use crate::books::Books;
use crate::claims::Claims;
use crate::facts::Fact;
use crate::history::Broken;
use crate::waiting::{GroupWait, Waiting};
use ohm_model::{EventKind, Index, JobId, JobSpec, OnDisconnect};
use std::collections::{BTreeMap, BTreeSet};

/// The word with which a job says that it failed so.
const REASON: &str = "StartDeadlineExceeded";
/// A job that is so late has missed its deadline by far.
const LATE_MS_MAX: u64 = 10_000;
/// So much of the time between two entries counts at most.
const PAUSE_MS_MAX: u64 = 1_000;

/// What is known of one job.
#[derive(Debug, Default)]
struct Deadline {
    /// When it surely did not wait last.
    busy_ms: u64,
    is_suspended: bool,
    was_placed: bool,
    /// Since when it surely waits.
    waits_ms: Option<u64>,
    /// For how long it has been late.
    late_ms: u64,
}

/// The books.
#[derive(Default)]
pub(crate) struct StartDeadlines {
    jobs: BTreeMap<JobId, Deadline>,
    /// Jobs with a start deadline.
    timed: BTreeSet<JobId>,
    now_ms: u64,
}

impl StartDeadlines {
    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(
        &mut self,
        (index, now_ms): (Index, u64),
        fact: &Fact<'_>,
        books: &Books,
        out: &mut Vec<Broken>,
    ) {
        let kind = match *fact {
            Fact::Registered { .. } => return,
            Fact::Submitted { job, spec, .. } => {
                self.time(job, spec);
                let deadline = Deadline { busy_ms: now_ms, is_suspended: spec.suspended, ..Deadline::default() };
                self.jobs.insert(job, deadline);
                return;
            }
            Fact::Updated { job, spec, .. } => {
                self.time(job, spec);
                let known = self.jobs.entry(job).or_default();
                return known.waits_ms = None;
            }
            Fact::Happened { kind, .. } => kind,
        };
        match kind {
            EventKind::Placed { job, .. } | EventKind::Ended { job, .. } => {
                let known = self.jobs.entry(*job).or_default();
                (known.busy_ms, known.waits_ms, known.was_placed) = (now_ms, None, true);
            }
            EventKind::ReadyTimeout(late) => {
                let known = self.jobs.entry(late.job).or_default();
                (known.busy_ms, known.waits_ms) = (late.until_ms.max(now_ms), None);
            }
            EventKind::JobState { job, state, reason, .. } => {
                if state == "failed" && reason.starts_with(REASON) {
                    out.extend(self.failed((index, now_ms), *job, books));
                }
                let known = self.jobs.entry(*job).or_default();
                if known.is_suspended || state == "suspended" {
                    known.busy_ms = now_ms;
                }
                (known.is_suspended, known.waits_ms) = (state == "suspended", None);
            }
            _ => {}
        }
    }

    fn time(&mut self, job: JobId, spec: &JobSpec) {
        match spec.pending_timeout_seconds {
            0 => self.timed.remove(&job),
            _ => self.timed.insert(job),
        };
    }

    /// What is wrong about a job that fails by its start deadline.
    fn failed(&self, (index, now_ms): (Index, u64), job: JobId, books: &Books) -> Option<Broken> {
        let (spec, known) = (books.jobs.get(&job)?, self.jobs.get(&job)?);
        let (name, seconds, waited_ms) =
            (&spec.name, spec.pending_timeout_seconds, now_ms.saturating_sub(known.busy_ms));
        let broken =
            |what: String| Some(Broken::new("P7", format!("entry {index}: {name} fails by its start deadline {what}")));
        if seconds == 0 {
            return broken("and has none".into());
        }
        if books.live_of(job).next().is_some() {
            return broken("although it runs".into());
        }
        let is_early = waited_ms < seconds.saturating_mul(1000);
        if is_early { broken(format!("of {seconds} s after it has waited for {waited_ms} ms")) } else { None }
    }

    /// Judges who is late, when all of an entry is known.
    pub(crate) fn entry_over(
        &mut self,
        index: Index,
        (books, waiting, claims): (&Books, &Waiting, &Claims),
        broken: &mut Vec<Broken>,
    ) {
        let passed_ms = waiting.now_ms.saturating_sub(self.now_ms).min(PAUSE_MS_MAX);
        self.now_ms = waiting.now_ms;
        for job in &self.timed {
            let (Some(spec), Some(known)) = (books.jobs.get(job), self.jobs.get_mut(job)) else { continue };
            if !waits(*job, (spec, known), (books, waiting, claims)) {
                (known.waits_ms, known.late_ms) = (None, 0);
                continue;
            }
            let since_ms = *known.waits_ms.get_or_insert(self.now_ms);
            let due_ms = since_ms.saturating_add(spec.pending_timeout_seconds.saturating_mul(1000));
            known.late_ms = if self.now_ms > due_ms { known.late_ms + passed_ms } else { 0 };
            if known.late_ms > LATE_MS_MAX {
                let (name, seconds, waited_ms) = (&spec.name, spec.pending_timeout_seconds, self.now_ms - since_ms);
                let what = format!("entry {index}: {name} has waited for {waited_ms} ms and had {seconds} s to start");
                broken.push(Broken::new("P7", what));
                known.late_ms = 0;
            }
        }
    }
}

/// Whether the job surely waits.
fn waits(
    job: JobId,
    (spec, known): (&JobSpec, &Deadline),
    (books, waiting, claims): (&Books, &Waiting, &Claims),
) -> bool {
    let may_back_off = |state: &GroupWait| state.backing_off(waiting.now_ms).next().is_some();
    let may_live_on = known.was_placed && spec.on_disconnect == OnDisconnect::Keep;
    waiting.is_active(job)
        && !may_live_on
        && books.live_of(job).next().is_none()
        && !claims.moves(job)
        && !waiting.is_timed_out(job)
        && !waiting.groups_of(job).any(may_back_off)
}
