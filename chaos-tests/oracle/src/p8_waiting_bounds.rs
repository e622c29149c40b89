//! P8, bounds on how many jobs of a queue wait (`maxWaitingJobs`): none is taken into a queue in which as many wait as
//! may, and none is refused where fewer do. A job waits while it is not over and nothing of it stands.
//!
//! Not judged are entries that put or remove the queue.

use crate::books::Books;
use crate::facts::{Fact, Rules, Taken};
use crate::history::Broken;
use crate::quota::QuotaTree;
use ohm_model::{Command, EventKind, Index, JobId, JobOutcome, Outcome, Refusal};
use std::collections::{BTreeMap, BTreeSet};

/// The books.
#[derive(Default)]
pub(crate) struct WaitingBounds {
    /// Jobs that are not over, with their queues.
    open: BTreeMap<JobId, String>,
    /// Of queues that refuse jobs in the entry at hand, those that may have waited by then.
    crowds: BTreeMap<String, BTreeSet<JobId>>,
}

impl WaitingBounds {
    /// Takes note of who waits before an entry in queues that refuse jobs in it. `books` knows nothing of it.
    pub(crate) fn before(&mut self, taken: &[Taken<'_>], books: &Books) {
        let queues: BTreeSet<&str> = refusals(taken).map(|(queue, ..)| queue).collect();
        let crowd = |queue: &str| (queue.to_string(), self.waiting(queue, books).collect());
        self.crowds = queues.into_iter().map(crowd).collect();
    }

    /// Judges one fact; `books` knows of it already, `tree` not of the rules of its entry.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        rules: &Rules<'_>,
        (books, tree): (&Books, &QuotaTree),
        broken: &mut Vec<Broken>,
    ) {
        let (job, spec) = match *fact {
            Fact::Submitted { job, spec, .. } | Fact::Updated { job, spec, .. } => (job, spec),
            Fact::Happened { kind: EventKind::JobState { job, state, .. }, .. } => {
                self.note_crowd(*job);
                if matches!(state.as_str(), "succeeded" | "failed" | "cancelled") {
                    self.open.remove(job);
                }
                return;
            }
            Fact::Happened { kind: EventKind::Placed { job, .. } | EventKind::Ended { job, .. }, .. } => {
                return self.note_crowd(*job);
            }
            Fact::Registered { .. } | Fact::Happened { .. } => return,
        };
        let former = self.open.insert(job, spec.queue.clone());
        self.note_crowd(job);
        let comes = former.is_none_or(|former| former != spec.queue) && books.live_of(job).next().is_none();
        let limit = tree.queue(&spec.queue).map_or(0, |queue| queue.max_waiting_jobs);
        if comes && limit > 0 && !rules.change_queue(&spec.queue) {
            let count = self.waiting(&spec.queue, books).count();
            if count > limit as usize {
                let (job, queue) = (&spec.name, &spec.queue);
                let what = format!("entry {index}: {job} is taken into queue {queue}: {count} jobs wait of {limit}");
                broken.push(Broken::new("P8", what));
            }
        }
    }

    /// Judges who is refused, when all of an entry is known but its rules.
    pub(crate) fn entry_over(
        &self,
        index: Index,
        (taken, rules): (&[Taken<'_>], &Rules<'_>),
        tree: &QuotaTree,
        broken: &mut Vec<Broken>,
    ) {
        for (queue, waiting, limit) in refusals(taken).filter(|(queue, ..)| !rules.change_queue(queue)) {
            let bound = tree.queue(queue).map_or(0, |queue| queue.max_waiting_jobs);
            let most = self.crowds.get(queue).map_or(0, BTreeSet::len);
            if bound != limit || waiting < limit || most < limit as usize {
                let what = format!(
                    "entry {index}: a job is refused by queue {queue} because {waiting} jobs wait of {limit}; of {bound} \
                     at most {most} do"
                );
                broken.push(Broken::new("P8", what));
            }
        }
    }

    fn note_crowd(&mut self, job: JobId) {
        if let Some(crowd) = self.open.get(&job).and_then(|queue| self.crowds.get_mut(queue)) {
            crowd.insert(job);
        }
    }

    fn waiting(&self, queue: &str, books: &Books) -> impl Iterator<Item = JobId> {
        let of_queue = self.open.iter().filter(move |(_, of)| *of == queue).map(|(job, _)| *job);
        of_queue.filter(|job| books.live_of(*job).next().is_none())
    }
}

/// The queues that refuse jobs because they are full, with how many wait and how many may.
fn refusals<'a>(taken: &'a [Taken<'a>]) -> impl Iterator<Item = (&'a str, u32, u32)> {
    let jobs = taken.iter().flat_map(|(command, outcome)| match (command, outcome) {
        (Command::SubmitJobs { .. } | Command::UpdateJob { .. }, Outcome::Jobs(jobs)) => jobs.as_slice(),
        _ => &[],
    });
    jobs.filter_map(|outcome| match outcome {
        JobOutcome::Refused(Refusal::QueueFull { queue, waiting, limit }) => Some((queue.as_str(), *waiting, *limit)),
        _ => None,
    })
}
