//! The quota tree as it will be once all that stops for others has ended and those others stand: what P11 is judged by.
//!
//! What the log does not tell for sure is counted both ways: at least, and at most. A judge asks for the one that
//! speaks for the product.

use crate::amounts::{add, asks, take};
use crate::books::{Books, Standing};
use crate::p6_admission::Admissions;
use crate::p8_neighbours::Neighbourhoods;
use crate::p8_quota::Quotas;
use crate::quota::QuotaTree;
use crate::turns::Turns;
use crate::waiting::Waiting;
use ohm_model::{Amounts, Index, JobId, JobSpec, RunRef};
use std::collections::{BTreeMap, BTreeSet};

/// The books that it is counted from.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) books: &'a Books,
    pub(crate) waiting: &'a Waiting,
    pub(crate) turns: &'a Turns,
    pub(crate) admissions: &'a Admissions,
    pub(crate) quotas: &'a Quotas,
    pub(crate) neighbourhoods: &'a Neighbourhoods,
}

/// How what is not known for sure is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Nothing is reserved, and whatever stops has ended.
    Fewest,
    /// What may be reserved is, and only what stops for others has ended.
    Most,
}

/// For whom others stop, and who.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    /// With the runs that stop of each; none are named where it is the whole job.
    pub(crate) victims: BTreeMap<JobId, Vec<RunRef>>,
    /// Those of them that have not ended since.
    pub(crate) stopping: BTreeSet<JobId>,
    pub(crate) since: Index,
    /// Whether it is room that the job lacks.
    pub(crate) for_room: bool,
    /// For how many tasks of each group they stop; for all that it lacks where nothing is said.
    pub(crate) wanted: Option<Vec<u32>>,
    /// Whether anything of the job was placed since.
    pub(crate) got_some: bool,
}

/// The promises that last, by the job that waits.
pub(crate) type Promises = BTreeMap<JobId, Promise>;

impl<'a> Known<'a> {
    pub(crate) fn spec(&self, job: JobId) -> Option<&'a JobSpec> {
        self.books.jobs.get(&job)
    }

    pub(crate) fn name(&self, job: JobId) -> &'a str {
        self.spec(job).map_or("?", |spec| spec.name.as_str())
    }

    pub(crate) fn stands(&self, job: JobId) -> bool {
        self.books.live_of(job).next().is_some()
    }

    pub(crate) fn is_active(&self, job: JobId) -> bool {
        self.waiting.is_active(job)
    }

    /// What so many tasks of each group of a job that waits need of what its queue limits, all that it lacks where
    /// nothing is said. Nothing where that is given by flavor: the log does not
    /// tell which one a waiting job would get.
    pub(crate) fn ask(&self, job: JobId, wanted: Option<&[u32]>) -> Option<Amounts> {
        let queue = &self.spec(job)?.queue;
        let mut ask = self.lacks(job, wanted)?;
        ask.retain(|name, amount| *amount > 0 && self.quotas.tree().limits(queue, name));
        Some(ask)
    }

    /// What it needs of all that it asks for: what its queue does not limit is used of the cohort above it, too.
    fn lacks(&self, job: JobId, wanted: Option<&[u32]>) -> Option<Amounts> {
        let spec = self.spec(job).filter(|spec| !self.quotas.tree().gives_by_flavor(&spec.queue))?;
        let mut ask = Amounts::new();
        for (at, group) in (0u16..).zip(&spec.groups) {
            let there = self.books.done(job, at) + self.books.live(job, at).count() as u32;
            let most = wanted.map_or(u32::MAX, |wanted| wanted.get(usize::from(at)).copied().unwrap_or(0));
            add(&mut ask, &asks(group, group.count.saturating_sub(there).min(most)));
        }
        Some(ask)
    }

    /// The tree, as far as it binds `asker`. What is promised to less important jobs of its own queue does not.
    pub(crate) fn tree(&self, asker: JobId, promises: &Promises, count: Count) -> QuotaTree {
        let mut tree = self.quotas.tree().clone();
        let queued = self.books.jobs.iter().filter(|(_, spec)| !spec.queue.is_empty());
        for (job, spec) in queued {
            let mut change = self.charged(*job, promises, count);
            take(&mut change, &self.quotas.charged(*job, self.books));
            tree.charge(&spec.queue, &change, 1);
        }
        // Which tasks of a job that stands still wait is not told for sure, and what is reserved is charged already.
        let has_some = |job: JobId| self.stands(job) || self.admissions.reservation(job).is_some();
        let waits =
            |(job, promise): &(&JobId, &Promise)| count == Count::Most || !(promise.for_room || has_some(**job));
        let promised = promises.iter().filter(|(job, _)| self.binds(**job, asker)).filter(waits);
        for (job, promise) in promised {
            if let (Some(spec), Some(ask)) = (self.spec(*job), self.lacks(*job, promise.wanted.as_deref())) {
                tree.charge(&spec.queue, &ask, 1);
            }
        }
        tree
    }

    /// What a job has in that tree.
    pub(crate) fn charged(&self, job: JobId, promises: &Promises, count: Count) -> Amounts {
        if !self.is_active(job) {
            return Amounts::new();
        }
        let mut charged = self.quotas.charged(job, self.books);
        let reserved = self.admissions.reservation(job).filter(|_| count == Count::Most);
        let given_back = promises.values().filter_map(|promise| promise.victims.get(&job));
        match count {
            Count::Fewest => take(&mut charged, &self.stopping(job, |_, _| true)),
            // What is reserved stays so while a part stops.
            Count::Most if reserved.is_some() => {}
            Count::Most => given_back.for_each(|runs| {
                let is_named =
                    |group, task| runs.iter().any(|run| (run.task.group.0, run.task.task.0) == (group, task));
                take(&mut charged, &self.stopping(job, |group, task| runs.is_empty() || is_named(group, task)));
            }),
        }
        for (at, group) in (0u16..).zip(reserved.map_or(&[][..], |spec| &spec.groups)) {
            let live = self.books.live(job, at).count() as u32;
            add(&mut charged, &self.quotas.named(job, at, asks(group, group.count.saturating_sub(live))));
        }
        charged
    }

    /// What those tasks of a job hold that stop.
    fn stopping(&self, job: JobId, counts: impl Fn(u16, u32) -> bool) -> Amounts {
        let mut stopping = Amounts::new();
        for at in 0..self.spec(job).map_or(0, |spec| spec.groups.len()) as u16 {
            let stops = |(task, standing): &(u32, Standing)| standing.stopping && counts(at, *task);
            add(&mut stopping, &self.quotas.named(job, at, self.books.held(job, at, stops)));
        }
        stopping
    }

    /// Whether what is promised to `job` is kept from `asker`.
    fn binds(&self, job: JobId, asker: JobId) -> bool {
        let (Some(waiting), Some(asker_spec)) = (self.spec(job), self.spec(asker)) else { return false };
        let yields = waiting.queue == asker_spec.queue && waiting.priority < asker_spec.priority;
        job != asker && !yields
    }
}

/// Whether the tree has all that is asked of a queue.
pub(crate) fn has(tree: &QuotaTree, queue: &str, ask: &Amounts) -> bool {
    ask.iter().all(|(name, amount)| tree.left(queue, name) >= *amount)
}

/// Whether a queue or cohort takes all that is asked within what it has itself.
pub(crate) fn is_within_own(tree: &QuotaTree, name: &str, ask: &Amounts) -> bool {
    ask.iter().all(|(resource, amount)| tree.over_own(name, resource) + amount <= 0)
}
