//! Lines that several schedulers serve: what others place of them counts here, too, and when it is the turn of a line
//! that others are to serve first, they are given a moment to do it.
//!
//! ```text
//! it is the turn of a line of which only others have work, or have much older work
//!   ──▶ nothing of its tree is taken ──▶ they place something of it: go on
//!                                    └─▶ 200 ms pass: try ──▶ there is no room for ours either: wait on
//!                                                         └─▶ something of ours is placed: wait on; from the third
//!                                                             time in a row not for 1, 2, 4 … 30 s
//! ```
//! So schedulers of one cohort tree keep its shares and its order together, however fast each of them is, and none of
//! them stands still for one that is dead, or whose jobs fit nowhere.

use crate::cost::CellSize;
use crate::explain::Explanation;
use ohm_cell::{Cell, Job, others_come_first, waiting_queues, waits_elsewhere};
use ohm_model::{Epoch, Event, EventKind, GroupIndex, JobId, Shard};
use ohm_queueing::{Backlog, Others};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A line is waited for this long: several times what a scheduler takes to hear of room and to use it.
const TURN_MS: u64 = 200;
/// So often a line is waited for in vain before that has consequences: who is to serve it may have collided.
const TIMES_FREE: u32 = 2;
/// After that it is not waited for again for so long, twice as long each time.
const VAIN_MS: u64 = 1_000;
const VAIN_MS_MAX: u64 = 30_000;
/// A scheduler with so many jobs of others before its own in a line is ahead of them.
const AHEAD_MAX: usize = 32;
/// Whoever leaves quota to others is looked at again after this long.
const CEDED_MS: u64 = 1_000;

/// The shards that are held here.
type Shards = BTreeMap<Shard, Epoch>;

/// What others do with the lines.
#[derive(Debug, Default)]
pub(crate) struct Abroad {
    /// Others have work of these, each with the first job of it.
    lines: BTreeMap<Arc<str>, JobId>,
    /// These were waited for in vain.
    vain: BTreeMap<Arc<str>, Vain>,
    /// These were waited for as long as one is: what comes of our own jobs says whether it was in vain.
    tried: BTreeSet<Arc<str>>,
    /// By root: since when a line of its tree is waited for, on the own clock, and which it was last.
    waits: BTreeMap<Arc<str>, (u64, Arc<str>)>,
    /// Something has changed that `lines` follows from.
    changed: bool,
}

/// A line that was waited for in vain since others placed something of it.
#[derive(Clone, Copy, Debug, Default)]
struct Vain {
    times: u32,
    /// On the own clock.
    until_ms: u64,
}

impl Abroad {
    /// Others may have other work than before.
    pub(crate) fn change(&mut self) {
        self.changed = true;
    }

    fn is_waited_for(&self, line: &str, now_ms: u64) -> bool {
        let is_vain = self.vain.get(line).is_some_and(|vain| now_ms < vain.until_ms);
        !is_vain && !self.tried.contains(line)
    }

    /// Jobs of ours were placed, or none of them found a place.
    pub(crate) fn note_own(&mut self, placed: bool, now_ms: u64) {
        for line in std::mem::take(&mut self.tried) {
            self.changed = true;
            if !placed {
                continue;
            }
            let vain = self.vain.entry(line).or_default();
            vain.times += 1;
            let more = vain.times.saturating_sub(TIMES_FREE).min(6);
            let pause_ms = if more == 0 { 0 } else { (VAIN_MS << (more - 1)).min(VAIN_MS_MAX) };
            vain.until_ms = now_ms + pause_ms;
        }
    }

    /// Takes note of what others have done with jobs of queues.
    pub(crate) fn note(
        &mut self,
        backlog: &mut Backlog<Explanation>,
        (cell, shards, size): (&Cell, &Shards, &CellSize),
        (jobs, events): (&[JobId], &[Event]),
    ) {
        let queued = |job: JobId| cell.jobs().get(job).filter(|found| !found.spec.queue.is_empty());
        let is_foreign = |job: &Job| !shards.contains_key(&job.shard);
        // What one gives back may be what others wait for.
        self.changed |= jobs.iter().any(|job| cell.jobs().get(*job).is_none() || queued(*job).is_some());
        for event in events {
            let EventKind::Placed { job, group, first, count, .. } = event.kind else { continue };
            let counts = |job: &&Arc<Job>| is_foreign(job) && takes_turn(job, (group, first, count));
            let Some(found) = queued(job).filter(counts) else { continue };
            let line = Arc::from(found.spec.queue.as_str());
            self.vain.remove(&line);
            self.tried.remove(&line);
            self.waits.remove(cell.quota().root(&found.spec.queue));
            backlog.charge_abroad(&line, size.cost_of_tasks(cell, found, (GroupIndex(group), count)));
        }
    }

    /// Finds out which lines others are to serve first, and for how long one of them is waited for.
    pub(crate) fn look(&mut self, now_ms: u64, backlog: &mut Backlog<Explanation>, of: (&Cell, &Shards)) {
        if std::mem::take(&mut self.changed) {
            self.look_at_lines(now_ms, backlog, of);
        }
        let due = self.waits.extract_if(.., |_, (since_ms, _)| now_ms >= *since_ms + TURN_MS);
        for (_, (_, line)) in due {
            // Whoever else comes first in its tree had the same time.
            for line in backlog.lines().waited_for_with(&line) {
                backlog.set_others(&line, Others { have_work: true, are_passed: true, ..Others::default() });
                self.tried.insert(line);
            }
        }
    }

    /// Takes note of which lines are waited for, now that jobs were to be taken, and jobs of queues with these roots
    /// were.
    pub(crate) fn note_turn(&mut self, now_ms: u64, backlog: &Backlog<Explanation>, taken: &BTreeSet<&str>) {
        let since =
            |root: &Arc<str>| self.waits.get(root).filter(|_| !taken.contains(&**root)).map(|(since_ms, _)| *since_ms);
        let waits = backlog.lines().waits().into_iter();
        self.waits = waits.map(|(root, line)| (Arc::clone(&root), (since(&root).unwrap_or(now_ms), line))).collect();
    }

    fn look_at_lines(&mut self, now_ms: u64, backlog: &mut Backlog<Explanation>, (cell, shards): (&Cell, &Shards)) {
        let is_own = |shard| shards.contains_key(&shard);
        let first = |queue: &str| Some((Arc::from(queue), waits_elsewhere(cell, queue, is_own)?));
        let lines: BTreeMap<Arc<str>, JobId> = waiting_queues(cell).filter_map(first).collect();
        for gone in self.lines.keys().filter(|line| !lines.contains_key(*line)) {
            backlog.set_others(gone, Others::default());
        }
        for (line, elsewhere) in &lines {
            let first = backlog.first_of(line).and_then(|job| cell.jobs().get(job));
            let come_first = first.is_some_and(|job| others_come_first(cell, job, is_own, AHEAD_MAX));
            let are_passed = !self.is_waited_for(line, now_ms);
            backlog.set_others(line, Others { have_work: true, first: Some(*elsewhere), come_first, are_passed });
        }
        self.lines = lines;
    }
}

/// Whether these tasks were placed in the turn of their line: repairs and second passes go before all lines.
fn takes_turn(job: &Job, (group, first, count): (u16, u32, u32)) -> bool {
    let is_repair = job.groups.get(usize::from(group)).is_some_and(|group| group.replaced.overlap(first, count) > 0);
    !is_repair && job.admission.ready().is_none()
}

/// The roots of queues in which quota is left to jobs of others, and when that is looked at again on the own clock: it
/// ends with time, too.
#[derive(Debug, Default)]
pub(crate) struct Ceding(BTreeMap<Arc<str>, u64>);

impl Ceding {
    /// A job leaves quota to others.
    pub(crate) fn note(&mut self, root: &Arc<str>, now_ms: u64) {
        self.0.entry(Arc::clone(root)).or_insert(now_ms.saturating_add(CEDED_MS));
    }

    /// The roots that are to be looked at again.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Arc<str>> {
        self.0.extract_if(.., |_, due_ms| *due_ms <= now_ms).map(|(root, _)| root).collect()
    }
}
