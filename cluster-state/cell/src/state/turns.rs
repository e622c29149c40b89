//! The lines of queues: the jobs that wait to start, by priority, then by when they came to it, in each part of a queue
//! by itself (a subqueue, or what names the queue). One queue is planned by several schedulers at once, each of which
//! orders its own jobs; this is the order across them, by which the log judges quota. Which part comes first is told by
//! `rooms/order.rs`.
//!
//! Beside those who wait stand those who have quota of the queue, so that whoever looks for victims finds them.
//!
//! Invariants, swept: a job is in the line of its queue while it waits to start, see [`waits_to_start`], and only then;
//! it is among those who have quota while it has any, see [`has_quota`].

use crate::state::job_store::Jobs;
use crate::state::jobs::{Job, JobState};
use crate::state::shapes::Shapes;
use crate::state::subqueues::UsageKey;
use ohm_model::{FlavorResource, Index, JobId, ShapeId, Shard};
use std::cmp::{Ordering, Reverse};
use std::collections::btree_set::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The place of a job in the order of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    priority: Reverse<i32>,
    queued: Index,
    job: JobId,
}

impl Turn {
    pub(crate) fn of(job: &Job) -> Self {
        Turn { priority: Reverse(job.spec.priority), queued: job.queued, job: job.id }
    }
}

/// The place of a job in the order of its queue, once it is known what the subqueues have used: see `rooms/order.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) key: UsageKey,
    pub(crate) turn: Turn,
}

/// Whether `job` has a queue, and nothing of it stands, is reserved or is asked for, while something waits.
pub(crate) fn waits_to_start(job: &Job) -> bool {
    let waits = job.state == JobState::Active && !job.spec.queue.is_empty();
    waits && job.reserved.is_empty() && job.admission.round.is_none() && job.live() == 0 && job.pending() > 0
}

/// Whether `job` has quota of a queue: something of it stands or is reserved.
pub(crate) fn has_quota(job: &Job) -> bool {
    !job.spec.queue.is_empty() && (job.live() > 0 || !job.reserved.is_empty())
}

/// The jobs of one queue that wait to start, and those that have its quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    /// By subqueue; those that name the queue itself under no name. None is empty.
    parts: BTreeMap<String, BTreeSet<Turn>>,
    /// How many of them each shard has.
    shards: BTreeMap<Shard, u32>,
    /// What they may ask for together, spares with them, by flavor and resource; never rounded.
    asked: Vec<(FlavorResource, i128)>,
    /// The jobs that have quota.
    holders: BTreeSet<JobId>,
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
    lines: Lines,
    /// Closed jobs of which something stands still.
    closing: BTreeSet<JobId>,
}

impl Turns {
    /// What the jobs say.
    pub(crate) fn of(jobs: &Jobs, shapes: &Shapes) -> Self {
        let mut turns = Turns::default();
        for job in jobs.iter() {
            if waits_to_start(job) {
                turns.join(job, shapes);
            }
            if has_quota(job) {
                turns.hold(job);
            }
        }
        turns
    }

    /// What the jobs that wait in `queue` may ask for together, by flavor and resource.
    pub(crate) fn asked(&self, queue: &str) -> &[(FlavorResource, i128)] {
        self.lines.get(queue).map_or(&[], |line| &line.asked)
    }

    /// The queues of which jobs wait.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|(_, line)| !line.parts.is_empty()).map(|(queue, _)| queue.as_str())
    }

    /// The jobs that have quota of `queue`.
    pub(crate) fn holders(&self, queue: &str) -> impl Iterator<Item = JobId> + '_ {
        self.lines.get(queue).into_iter().flat_map(|line| line.holders.iter().copied())
    }

    /// Closed jobs that have quota.
    pub(crate) fn closing(&self) -> impl Iterator<Item = JobId> + '_ {
        self.closing.iter().copied()
    }

    /// The shards whose jobs wait in `queue`.
    pub(crate) fn shards(&self, queue: &str) -> impl Iterator<Item = Shard> + '_ {
        self.lines.get(queue).into_iter().flat_map(|line| line.shards.keys().copied())
    }

    /// The jobs of `queue` that come from `from` on and before `until`, in order, where each part has such a key.
    pub(crate) fn between(
        &self,
        queue: &str,
        key_of: &dyn Fn(&str) -> UsageKey,
        from: Option<Place>,
        until: Option<Place>,
    ) -> Merged<'_> {
        let any = !matches!((from, until), (Some(from), Some(until)) if from >= until);
        let parts = self.lines.get(queue).filter(|_| any).into_iter().flat_map(|line| &line.parts);
        let mut merged = Merged::default();
        for (name, turns) in parts {
            let key = key_of(name);
            let from = match from.map(|from| (key.cmp(&from.key), from.turn)) {
                Some((Ordering::Less, _)) => continue,
                Some((Ordering::Equal, turn)) => Bound::Included(turn),
                Some((Ordering::Greater, _)) | None => Bound::Unbounded,
            };
            let until = match until.map(|until| (key.cmp(&until.key), until.turn)) {
                Some((Ordering::Greater, _)) => continue,
                Some((Ordering::Equal, turn)) => Bound::Excluded(turn),
                Some((Ordering::Less, _)) | None => Bound::Unbounded,
            };
            merged.add(key, turns.range((from, until)));
        }
        merged
    }

    /// Whether the job waits in the line of its queue.
    pub(crate) fn contains(&self, job: &Job) -> bool {
        let part = self.lines.get(&job.spec.queue).and_then(|line| line.parts.get(&job.spec.subqueue));
        part.is_some_and(|turns| turns.contains(&Turn::of(job)))
    }

    /// Whether the job is among those who have quota of its queue, as it is now.
    pub(crate) fn holds(&self, job: &Job) -> bool {
        let is_closing = job.state != JobState::Active;
        let holder = self.lines.get(&job.spec.queue).is_some_and(|line| line.holders.contains(&job.id));
        holder && self.closing.contains(&job.id) == is_closing
    }

    /// The job has quota of the queue that it names.
    pub(crate) fn hold(&mut self, job: &Job) {
        line_of(&mut self.lines, &job.spec.queue).holders.insert(job.id);
        match job.state {
            JobState::Active => self.closing.remove(&job.id),
            JobState::Suspended | JobState::Finished(_) => self.closing.insert(job.id),
        };
    }

    /// The job has none.
    pub(crate) fn let_go(&mut self, job: &Job) {
        self.closing.remove(&job.id);
        if self.lines.get(&job.spec.queue).is_some_and(|line| line.holders.contains(&job.id)) {
            line_of(&mut self.lines, &job.spec.queue).holders.remove(&job.id);
            drop_empty(&mut self.lines, &job.spec.queue);
        }
    }

    /// The job waits from now on, in the line of the queue that it names.
    pub(crate) fn join(&mut self, job: &Job, shapes: &Shapes) {
        let line = line_of(&mut self.lines, &job.spec.queue);
        match line.parts.get_mut(&job.spec.subqueue) {
            Some(turns) => turns.insert(Turn::of(job)),
            None => line.parts.entry(job.spec.subqueue.clone()).or_default().insert(Turn::of(job)),
        };
        *line.shards.entry(job.shard).or_default() += 1;
        line.add(job, shapes, 1);
    }

    /// The job waits no more. It is as it was when it joined, as far as its queue, its priority, its shard and what it
    /// asks for go.
    pub(crate) fn leave(&mut self, job: &Job, shapes: &Shapes) {
        if !self.contains(job) {
            return;
        }
        let line = line_of(&mut self.lines, &job.spec.queue);
        if let Some(turns) = line.parts.get_mut(&job.spec.subqueue) {
            turns.remove(&Turn::of(job));
            if turns.is_empty() {
                line.parts.remove(&job.spec.subqueue);
            }
        }
        line.add(job, shapes, -1);
        if let Some(count) = line.shards.get_mut(&job.shard) {
            *count -= 1;
            if *count == 0 {
                line.shards.remove(&job.shard);
            }
        }
        drop_empty(&mut self.lines, &job.spec.queue);
    }
}

/// The jobs of several parts in one order. That of one part, as most queues have, is walked through as it is.
#[derive(Default)]
pub(crate) struct Merged<'a> {
    /// The parts that have more, each with its next job.
    parts: Vec<(Place, Range<'a, Turn>)>,
}

impl<'a> Merged<'a> {
    fn add(&mut self, key: UsageKey, mut turns: Range<'a, Turn>) {
        let next = turns.next();
        self.parts.extend(next.map(|turn| (Place { key, turn: *turn }, turns)));
    }
}

impl Iterator for Merged<'_> {
    type Item = JobId;

    fn next(&mut self) -> Option<JobId> {
        let first = (0..self.parts.len()).min_by_key(|at| self.parts[*at].0)?;
        let (place, turns) = &mut self.parts[first];
        let job = place.turn.job;
        match turns.next() {
            Some(turn) => place.turn = *turn,
            None => drop(self.parts.swap_remove(first)),
        }
        Some(job)
    }
}

type Lines = Arc<BTreeMap<String, Arc<Line>>>;

fn line_of<'a>(lines: &'a mut Lines, queue: &str) -> &'a mut Line {
    let lines = Arc::make_mut(lines);
    if !lines.contains_key(queue) {
        lines.insert(queue.to_string(), Arc::default());
    }
    Arc::make_mut(lines.get_mut(queue).expect("the line was made"))
}

fn drop_empty(lines: &mut Lines, queue: &str) {
    if lines.get(queue).is_some_and(|line| line.parts.is_empty() && line.holders.is_empty()) {
        Arc::make_mut(lines).remove(queue);
    }
}
