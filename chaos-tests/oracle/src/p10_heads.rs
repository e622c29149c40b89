//! P10 for heads of lines. Room that is promised to a head is left to it: later work that is not more important takes
//! none of it that it has not given back for sure when the head is to start: its deadline and its grace period are over
//! by then. And nobody starves: a job that waits for room while others of its line start, none of which was due
//! before it, becomes the head of the line before long. Books: promises from what transactions asked for and were
//! granted (`claims`), who is due when (`turns`), and what stands where.
//!
//! Of promised room the amounts are counted, not ports nor which devices, and not where somebody who may pass a head
//! was placed beside. Who starves is judged for jobs of one group, without slices, in the line of their class, of which
//! nothing stands: with a queue, quota may be what they wait for. Nobody is taken to run for longer than an hour, which
//! is as far ahead as planners look.

use crate::books::Books;
use crate::claims::{Claims, HeadRoom};
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p7_repairs::Repairs;
use crate::p10_ledger::Ledger;
use crate::p10_liveness::fits_in_time;
use crate::turns::Turn;
use ohm_model::{Class, Command, EventKind, GroupSpec, Index, JobId, JobSpec, NodeId, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// So long others of the line may go on to start after a job has waited as long as its profile says: whoever plans it
/// may be gone, and another one has to take over.
const STARVING_MS: u64 = 25_000;
/// So much of the time between two that pass a job counts at most.
const PAUSE_MS_MAX: u64 = 2_000;
/// So long after its deadline and its grace period a run is counted on to have ended.
const STOPS_WITHIN_MS: u64 = 2_000;
/// In larger cells nobody looks who starves.
const NODES_MAX: usize = 200;

/// A job that waits.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// How much had happened to it when it was seen to wait.
    changes: u64,
    since_ms: u64,
    /// When others were placed last although its patience was over, and for how long they have been: a cell in which
    /// nothing happens passes nobody over.
    passed_ms: u64,
    passed_for_ms: u64,
}

impl Waits {
    /// Others that were not due before it start.
    fn pass(&mut self, now_ms: u64) {
        self.passed_for_ms += now_ms - self.passed_ms.max(now_ms.saturating_sub(PAUSE_MS_MAX));
        self.passed_ms = now_ms;
    }
}

/// The books.
#[derive(Default)]
pub(crate) struct Heads {
    waits: BTreeMap<JobId, Waits>,
    /// How many tasks of which groups the entry at hand placed as new work, by node.
    new: BTreeMap<NodeId, BTreeMap<(JobId, u16), u32>>,
    /// Nodes where it placed repairs, moves or runs that returned, or whose state it changed.
    changed: BTreeSet<NodeId>,
    /// When jobs began that were placed once: they were placed first, or resumed.
    began_ms: BTreeMap<JobId, u64>,
    suspended: BTreeSet<JobId>,
    /// For how long something of jobs may run.
    spans_ms: BTreeMap<JobId, u64>,
    /// Jobs that the entry at hand gave more time, and when nothing of them would have run any more.
    longer: BTreeMap<JobId, u64>,
}

impl Heads {
    /// Takes note of the profiles that an entry puts or removes.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>]) {
        self.new.clear();
        self.changed.clear();
        self.longer.clear();
        let is_profile = |(command, outcome): &Taken<'_>| {
            let named = matches!(command, Command::PutSchedulingProfile(_) | Command::RemoveSchedulingProfile { .. });
            named && matches!(outcome, Outcome::Done)
        };
        if taken.iter().any(is_profile) {
            self.waits.clear();
        }
    }

    /// Takes note of one fact; `books` knows of it already, `repairs` and `claims` do not.
    pub(crate) fn note(&mut self, fact: &Fact<'_>, (books, repairs, claims): (&Books, &Repairs, &Claims)) {
        self.changed.extend(fact.changed_node());
        if let Fact::Submitted { job, .. } | Fact::Updated { job, .. } = *fact {
            self.note_span(job, books);
        }
        let Fact::Happened { at_ms, kind } = *fact else { return };
        if let EventKind::JobState { job, state, .. } = kind {
            self.note_state(*job, state, at_ms);
        }
        let EventKind::Placed { job, group, first, count, node } = kind else { return };
        self.began_ms.entry(*job).or_insert(at_ms);
        let goes_before = |task| repairs.was_lost(*job, *group, task) || books.has_returned(*job, *group, task);
        if claims.moves(*job) || (*first..first + count).any(goes_before) {
            self.changed.insert(*node);
        } else {
            *self.new.entry(*node).or_default().entry((*job, *group)).or_default() += count;
        }
    }

    fn note_span(&mut self, job: JobId, books: &Books) {
        let Some(span_ms) = books.jobs.get(&job).map(span_ms) else { return };
        let former_ms = self.spans_ms.insert(job, span_ms).filter(|former_ms| *former_ms < span_ms);
        if let (Some(former_ms), Some(began_ms)) = (former_ms, self.began_ms.get(&job)) {
            self.longer.entry(job).or_insert(began_ms.saturating_add(former_ms));
        }
    }

    /// A job that is resumed has its whole time again.
    fn note_state(&mut self, job: JobId, state: &str, at_ms: u64) {
        match state {
            "suspended" => _ = self.suspended.insert(job),
            _ if self.suspended.remove(&job) => {
                self.began_ms.get_mut(&job).into_iter().for_each(|began_ms| *began_ms = at_ms);
            }
            _ => {}
        }
    }

    /// When nothing of the job runs any more, if it has a deadline.
    fn ends_ms(&self, job: JobId, books: &Books) -> Option<u64> {
        let spec = books.jobs.get(&job).filter(|spec| spec.active_deadline_seconds > 0)?;
        Some(self.began_ms.get(&job)?.saturating_add(span_ms(spec)))
    }

    /// Judges an entry, when all of it is known.
    pub(crate) fn judge(&mut self, index: Index, ledger: &Ledger<'_>) -> Vec<Broken> {
        let mut broken = self.outstaying(index, ledger);
        if self.new.is_empty() {
            return broken;
        }
        broken.extend(self.taken_promises(index, ledger));
        broken.extend(self.starving(index, ledger));
        broken
    }

    /// Who stands in a head's room, was to be gone in time, and was given more time: the head has to know.
    fn outstaying(&self, index: Index, ledger: &Ledger<'_>) -> Vec<Broken> {
        let mut broken = Vec::new();
        for (job, former_ms) in &self.longer {
            let ends_ms = self.ends_ms(*job, ledger.books).unwrap_or(u64::MAX);
            let is_outstayed = |head: &HeadRoom| {
                head.since < index
                    && former_ms.saturating_add(STOPS_WITHIN_MS) <= head.start_ms
                    && ends_ms > head.start_ms
                    && head.job != *job
            };
            let nodes: BTreeSet<NodeId> =
                ledger.books.live_of(*job).filter(|run| !run.stopping).map(|run| run.node).collect();
            let heads = nodes.iter().flat_map(|node| ledger.claims.of_heads(*node)).filter(is_outstayed);
            if let Some(head) = heads.last() {
                let (job, head, late_ms) = (ledger.title(*job), ledger.title(head.job), ends_ms - head.start_ms);
                let what = format!(
                    "entry {index}: {job} is given more time, until {late_ms} ms after {head} is to start where it runs"
                );
                broken.push(Broken::new("P10", what));
            }
        }
        broken
    }

    /// What was taken of the room that is promised to heads.
    fn taken_promises(&self, index: Index, ledger: &Ledger<'_>) -> Vec<Broken> {
        let priority = |job: JobId| ledger.books.jobs.get(&job).map_or(i32::MAX, |spec| spec.priority);
        let mut broken = Vec::new();
        let has_heads = |node: NodeId| ledger.claims.of_heads(node).next().is_some();
        for (node, groups) in self.new.iter().filter(|(node, _)| !self.changed.contains(node) && has_heads(**node)) {
            let promised = |by: JobId| {
                let ends_ms = self.ends_ms(by, ledger.books);
                let outranks = move |head: &HeadRoom| head.job != by && priority(head.job) >= priority(by);
                let is_needed = move |head: &HeadRoom| ends_ms.is_none_or(|ends_ms| ends_ms > head.start_ms);
                ledger.claims.of_heads(*node).filter(move |head| outranks(head) && is_needed(head))
            };
            // What may pass one head takes what the others have less of.
            let passes = |by: JobId| promised(by).count() < ledger.claims.of_heads(*node).count();
            let passed = groups.iter().filter(|((by, _), _)| passes(*by));
            let passed: Vec<_> =
                passed.filter_map(|((by, group), count)| Some((group_of(ledger, *by, *group)?, count))).collect();
            let is_bound = |by: JobId| !passes(by) && promised(by).all(|head| head.since < index);
            for (by, group) in groups.keys().filter(|(by, _)| is_bound(*by)) {
                let room = ledger.room_beside_runs(*node);
                let mut promises: BTreeMap<&str, i64> = BTreeMap::new();
                for head in promised(*by) {
                    let spec = group_of(ledger, head.job, head.group);
                    for (name, amount) in spec.into_iter().flat_map(|group| &group.requests) {
                        *promises.entry(name).or_default() += amount * i64::from(head.count);
                    }
                }
                let amount_of = |group: &GroupSpec, name: &str| group.requests.get(name).copied().unwrap_or(0);
                let left = |name: &str| {
                    let passed = passed.iter().map(|(group, count)| amount_of(group, name) * i64::from(**count));
                    room.free(name) + passed.sum::<i64>()
                };
                let asks = |name: &str| group_of(ledger, *by, *group).is_some_and(|group| amount_of(group, name) > 0);
                let short = promises.iter().find(|(name, amount)| asks(name) && left(name) < **amount);
                if let Some((name, amount)) = short {
                    let heads: Vec<&str> = promised(*by).map(|head| ledger.title(head.job)).collect();
                    let what = format!(
                        "entry {index}: {} takes room on {node}, where {amount} of {name} are promised to {} and {} \
                         are left",
                        ledger.title(*by),
                        heads.join(", "),
                        left(name)
                    );
                    broken.push(Broken::new("P10", what));
                }
            }
        }
        broken
    }

    /// Who waits in vain while others of its line start.
    fn starving(&mut self, index: Index, ledger: &Ledger<'_>) -> Vec<Broken> {
        if ledger.books.nodes.len() > NODES_MAX {
            return Vec::new();
        }
        let now_ms = ledger.waiting.now_ms;
        let last = self.last_turns(ledger);
        let (mut waits, mut broken) = (BTreeMap::new(), Vec::new());
        for (job, wait) in ledger.waiting.active() {
            let Some(spec) = ledger.books.jobs.get(&job).filter(|spec| may_starve(ledger, job, spec)) else { continue };
            let fresh = Waits { changes: wait.changes, since_ms: now_ms, passed_ms: 0, passed_for_ms: 0 };
            let known = self.waits.get(&job).copied().filter(|known| known.changes == fresh.changes);
            let mut known = known.unwrap_or(fresh);
            let is_due = now_ms > known.since_ms.saturating_add(ledger.turns.patience_ms(spec.class));
            if is_due && last.get(&spec.class).is_some_and(|last| ledger.turns.of(job, spec) < *last) {
                known.pass(now_ms);
                let (waited_ms, passed_for_ms) = (now_ms - known.since_ms, known.passed_for_ms);
                let fits = fits_in_time(ledger, job, spec, wait);
                if !fits || passed_for_ms > STARVING_MS {
                    known.passed_for_ms = 0;
                }
                if fits && passed_for_ms > STARVING_MS {
                    let what = format!(
                        "entry {index}: {} has waited for {waited_ms} ms, has been passed over for {passed_for_ms} ms, \
                         and is not the head of its line",
                        spec.name
                    );
                    broken.push(Broken::new("P10", what));
                }
            }
            waits.insert(job, known);
        }
        self.waits = waits;
        broken
    }

    /// The last turn of each class of which the entry placed new work.
    fn last_turns(&self, ledger: &Ledger<'_>) -> BTreeMap<Class, Turn> {
        let mut last = BTreeMap::new();
        for (by, _) in self.new.values().flat_map(BTreeMap::keys) {
            let Some(spec) = ledger.books.jobs.get(by).filter(|spec| spec.queue.is_empty()) else { continue };
            let turn = ledger.turns.of(*by, spec);
            let last = last.entry(spec.class).or_insert(turn);
            *last = turn.max(*last);
        }
        last
    }
}

fn group_of<'a>(ledger: &Ledger<'a>, job: JobId, group: u16) -> Option<&'a GroupSpec> {
    ledger.books.jobs.get(&job)?.groups.get(usize::from(group))
}

/// For how long something of the job may run at most; without end where it has no deadline.
fn span_ms(spec: &JobSpec) -> u64 {
    if spec.active_deadline_seconds == 0 {
        return u64::MAX;
    }
    let grace_ms = spec.groups.iter().map(|group| group.task.grace_ms).max().unwrap_or(0);
    spec.active_deadline_seconds.saturating_mul(1000).saturating_add(grace_ms)
}

/// Whether nothing of the job stands, no room is promised to it, and it may become the head of the line of its class.
fn may_starve(ledger: &Ledger<'_>, job: JobId, spec: &JobSpec) -> bool {
    let is_ahead = |head: JobId| {
        let other = ledger.books.jobs.get(&head);
        let same_line = |other: &&JobSpec| other.queue.is_empty() && other.class == spec.class;
        other.filter(same_line).is_some_and(|other| other.priority >= spec.priority)
    };
    spec.queue.is_empty()
        && spec.groups.len() == 1
        && spec.groups[0].slices().is_empty()
        && ledger.books.live_of(job).next().is_none()
        && !ledger.claims.has(job)
        && !ledger.claims.heads().any(is_ahead)
}
