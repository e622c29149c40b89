//! The order in which the jobs of a queue start: by priority, then by age. One queue is planned by several schedulers
//! at once, each of which orders its own jobs; this is the order across them, by which the log judges quota.
//!
//! Invariant, swept: a job is in the line of its queue while it waits to start, see [`waits_to_start`], and only then.

use crate::state::job_store::Jobs;
use crate::state::jobs::{Job, JobState};
use crate::state::shapes::Shapes;
use ohm_model::{FlavorResource, Index, JobId, ShapeId, Shard};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The place of a job in the order of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    priority: Reverse<i32>,
    submitted: Index,
    job: JobId,
}

impl Turn {
    pub(crate) fn of(job: &Job) -> Self {
        Turn { priority: Reverse(job.spec.priority), submitted: job.submitted, job: job.id }
    }
}

/// Whether `job` has a queue, and nothing of it stands, is reserved or is asked for, while something waits.
pub(crate) fn waits_to_start(job: &Job) -> bool {
    let waits = job.state == JobState::Active && !job.spec.queue.is_empty();
    waits && job.reserved.is_empty() && job.admission.round.is_none() && job.live() == 0 && job.pending() > 0
}

/// The jobs of one queue that wait to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    turns: BTreeSet<Turn>,
    /// How many of them each shard has.
    shards: BTreeMap<Shard, u32>,
    /// What they may ask for together, spares with them, by flavor and resource; never rounded.
    asked: Vec<(FlavorResource, i128)>,
}

impl Line {
    /// Adds what `job` may ask for, so many times: a group to which several flavors are offered, each of them.
    fn add(&mut self, job: &Job, shapes: &Shapes, times: i128) {
        for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
            let tasks = (i128::from(spec.count) + i128::from(spec.spares)) * times;
            let charges = |shape: &ShapeId| shapes.get(*shape).map_or(&[][..], |shape| &shape.charges);
            let offers = group.offers();
            for (at, offer) in offers.iter().enumerate() {
                for &(column, request) in charges(offer) {
                    let known = |shape: &ShapeId| charges(shape).iter().any(|(known, _)| *known == column);
                    if !offers[..at].iter().any(known) {
                        add(&mut self.asked, column, i128::from(request) * tasks);
                    }
                }
            }
        }
        self.asked.retain(|(_, sum)| *sum != 0);
        self.asked.sort_unstable();
    }
}

fn add(sums: &mut Vec<(FlavorResource, i128)>, column: FlavorResource, amount: i128) {
    match sums.iter_mut().find(|(known, _)| *known == column) {
        Some((_, sum)) => *sum += amount,
        None => sums.push((column, amount)),
    }
}

/// The jobs that wait to start, by queue and in order. Derived from the jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    lines: Arc<BTreeMap<String, Arc<Line>>>,
}

impl Turns {
    /// What the jobs say.
    pub(crate) fn of(jobs: &Jobs, shapes: &Shapes) -> Self {
        let mut turns = Turns::default();
        jobs.iter().filter(|job| waits_to_start(job)).for_each(|job| turns.join(job, shapes));
        turns
    }

    /// What the jobs that wait in `queue` may ask for together, by flavor and resource.
    pub(crate) fn asked(&self, queue: &str) -> &[(FlavorResource, i128)] {
        self.lines.get(queue).map_or(&[], |line| &line.asked)
    }

    /// The queues of which jobs wait.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &str> {
        self.lines.keys().map(String::as_str)
    }

    /// The shards whose jobs wait in `queue`.
    pub(crate) fn shards(&self, queue: &str) -> impl Iterator<Item = Shard> + '_ {
        self.lines.get(queue).into_iter().flat_map(|line| line.shards.keys().copied())
    }

    /// The jobs of `queue` that come from `from` on and before `until`, in order.
    pub(crate) fn between(
        &self,
        queue: &str,
        from: Option<Turn>,
        until: Option<Turn>,
    ) -> impl Iterator<Item = JobId> + '_ {
        let any = !matches!((from, until), (Some(from), Some(until)) if from >= until);
        let line = self.lines.get(queue).filter(|_| any).into_iter();
        let range = (from.map_or(Bound::Unbounded, Bound::Included), until.map_or(Bound::Unbounded, Bound::Excluded));
        line.flat_map(move |line| line.turns.range(range)).map(|turn| turn.job)
    }

    /// Whether the job waits in the line of its queue.
    pub(crate) fn contains(&self, job: &Job) -> bool {
        self.lines.get(&job.spec.queue).is_some_and(|line| line.turns.contains(&Turn::of(job)))
    }

    /// The job waits from now on, in the line of the queue that it names.
    pub(crate) fn join(&mut self, job: &Job, shapes: &Shapes) {
        let lines = Arc::make_mut(&mut self.lines);
        if !lines.contains_key(&job.spec.queue) {
            lines.insert(job.spec.queue.clone(), Arc::default());
        }
        if let Some(line) = lines.get_mut(&job.spec.queue) {
            let line = Arc::make_mut(line);
            line.turns.insert(Turn::of(job));
            *line.shards.entry(job.shard).or_default() += 1;
            line.add(job, shapes, 1);
        }
    }

    /// The job waits no more. It is as it was when it joined, as far as its queue, its priority, its shard and what it
    /// asks for go.
    pub(crate) fn leave(&mut self, job: &Job, shapes: &Shapes) {
        if !self.contains(job) {
            return;
        }
        let lines = Arc::make_mut(&mut self.lines);
        let Some(line) = lines.get_mut(&job.spec.queue) else { return };
        let line = Arc::make_mut(line);
        line.turns.remove(&Turn::of(job));
        line.add(job, shapes, -1);
        if let Some(count) = line.shards.get_mut(&job.shard) {
            *count -= 1;
            if *count == 0 {
                line.shards.remove(&job.shard);
            }
        }
        if line.turns.is_empty() {
            lines.remove(&job.spec.queue);
        }
    }
}
