//! Jobs, their groups and tasks.

use crate::state::admission::Admission;
use crate::state::flavors::Charges;
use crate::state::ready::Readiness;
use crate::state::repairs::Repairs;
use crate::state::rollouts::Rollouts;
use crate::state::runs::NO_RUN;
use ohm_model::{
    ClassKind, Exit, FlavorChoice, GroupSpec, Incarnation, Index, JobId, JobSpec, NodeId, ShapeId, Shard, StopCause,
};
use ohm_stdx::bug::{self, Bug};
use ohm_stdx::{Chunked, RangeSet};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Finish {
    /// Every task did what it was asked to.
    Succeeded,
    /// A task failed for good, or the job ran too long.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

/// What may happen to a job:
///
/// ```text
///           ┌── resume ──┐
/// submit ─▶ Active ─suspend─▶ Suspended
///             └──── cancel, fail, succeed ────▶ Finished   (for ever; runs may still be stopping)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobState {
    /// May be placed.
    Active,
    /// Kept from being placed.
    Suspended,
    /// Over.
    Finished(Finish),
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaskState {
    /// Waits to be placed.
    Pending,
    /// Waits for its back-off to pass.
    BackingOff,
    /// Waits until a rollout lets it be placed: tasks of another revision come first.
    Held,
    /// Has a live run.
    Live,
    /// Did what it was asked to.
    Succeeded,
    /// Failed for good.
    Failed,
    /// Never ran and never will: the group started without it.
    Skipped,
    /// Its job ended before it did.
    Stopped,
    /// Beyond the count of its group, since an update: it is over and counts for nothing.
    Removed,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What became of it.
    pub state: TaskState,
    /// The slot of its live run, or `NO_RUN`.
    pub run: u32,
    /// The attempt that stands, or stood last; 0 before the first.
    pub incarnation: Incarnation,
    /// The highest attempt made under this number, also by a task that an update has taken away. Higher than the one
    /// that stands where an earlier run came back with its node.
    pub attempts: Incarnation,
    /// How many attempts failed by themselves.
    pub failures: u32,
    /// How many attempts in a row their nodes could not start, or ended with their lease; never charged, but each waits
    /// longer than the last.
    pub refusals: u32,
    /// How the last attempt ended.
    pub exit: Option<Exit>,
    /// Where the last attempt stood.
    pub node: NodeId,
}

impl Task {
    /// A task that was never tried; attempts at it are numbered on from `floor`.
    pub(crate) fn new(floor: Incarnation) -> Self {
        Task {
            state: TaskState::Pending,
            run: NO_RUN,
            incarnation: floor,
            attempts: floor,
            failures: 0,
            refusals: 0,
            exit: None,
            node: NodeId(u32::MAX),
        }
    }

    /// Whether it was ever placed; one that came with an update may have a number of attempts before.
    pub fn was_placed(&self) -> bool {
        self.node != NodeId(u32::MAX)
    }
}

/// Equal tasks of a job, and their sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What a placement of it depends on from now on. Runs keep the shape that they were placed with.
    pub shape: ShapeId,
    /// The shapes that it may have instead while nothing of its job stands or is reserved, one for each way to take
    /// flavors of its queue, in the order of the queue; empty where the queue names no flavors or none suits it.
    pub offers: Vec<ShapeId>,
    /// Counts, from 1, how often an update has changed what its tasks are made of.
    pub revision: u32,
    /// Its tasks by rank. Longer than the count while runs of removed tasks stop.
    pub tasks: Chunked<Task>,
    /// Tasks that wait to be placed.
    pub pending: RangeSet,
    /// How many wait for their back-off.
    pub backing_off: u32,
    /// How many a rollout keeps from being placed.
    pub held: u32,
    /// How many have a live run.
    pub live: u32,
    /// How many of those were reported to run.
    pub running: u32,
    /// How many of those are not ready, by their probes.
    pub unready: u32,
    /// How many of the live ones have another shape than the group has now.
    pub reshaped: u32,
    /// How many of the live ones are to stop.
    pub stopping: u32,
    /// How many of those are driven away by their nodes: they are lost when they end.
    pub driven: u32,
    /// How many of those that stop are beyond the count, since an update: they end and don't come back.
    pub leaving: u32,
    /// How many succeeded.
    pub succeeded: u32,
    /// How many failed for good.
    pub failed: u32,
    /// How many were left out at the start.
    pub skipped: u32,
    /// Whether the group has started: it once stood with its minimum and has not been taken down whole since.
    pub started: bool,
    /// The required domain it stands in, as a key of its topology's level, while it has live runs.
    pub domain: Option<u32>,
    /// Whether a repair has left the domain asked for: then `domain` is one of the level `repair.widenTo`.
    pub widened: bool,
    /// Tasks that were lost with their nodes and wait to be placed again, in back-off or not.
    pub lost: RangeSet,
    /// Tasks that were lost, are placed again and don't run yet.
    pub replaced: RangeSet,
    /// Tasks that leave their nodes, with room reserved for each: they stop, or have ended and wait to be placed there.
    pub moving: RangeSet,
    /// For how many tasks room is held as spares.
    pub spares: u32,
}

impl Group {
    pub(crate) fn new(shape: ShapeId, revision: u32, count: u32, floor: Incarnation) -> Self {
        Group {
            shape,
            offers: Vec::new(),
            revision,
            tasks: (0..count).map(|_| Task::new(floor)).collect(),
            pending: RangeSet::all(count),
            backing_off: 0,
            held: 0,
            live: 0,
            running: 0,
            unready: 0,
            reshaped: 0,
            stopping: 0,
            driven: 0,
            leaving: 0,
            succeeded: 0,
            failed: 0,
            skipped: 0,
            started: false,
            domain: None,
            widened: false,
            lost: RangeSet::default(),
            replaced: RangeSet::default(),
            moving: RangeSet::default(),
            spares: 0,
        }
    }

    /// The shapes that it may start with.
    pub fn offers(&self) -> &[ShapeId] {
        if self.offers.is_empty() { std::slice::from_ref(&self.shape) } else { &self.offers }
    }

    /// How many tasks must be live together for the group to start now: its minimum less what is over already, at least
    /// one, but never more than are left.
    pub fn needed(&self, spec: &GroupSpec) -> u32 {
        let over = self.succeeded + self.failed;
        let left = spec.count.saturating_sub(over + self.skipped);
        spec.min_count.saturating_sub(over).max(1).min(left)
    }

    /// Whether each of its tasks has succeeded, or was left out at the start.
    pub fn is_over(&self, spec: &GroupSpec) -> bool {
        self.succeeded + self.skipped == spec.count
    }

    /// How many of its tasks run and are ready.
    pub fn ready(&self) -> u32 {
        self.running - self.unready
    }

    /// How many of its live runs count for the group: all but those of removed tasks.
    pub fn live_within_count(&self) -> u32 {
        self.live - self.leaving
    }

    /// How many of its tasks were driven away by their nodes, have no place held elsewhere, and still stop.
    pub fn driven_out(&self) -> u32 {
        if self.driven == 0 || bug::is_planted(Bug::PiecewiseRepair) {
            return 0;
        }
        let moving = self.moving.values();
        let with_room = moving.filter(|task| self.tasks[*task as usize].state == TaskState::Live).count();
        self.driven.saturating_sub(with_room as u32)
    }

    /// How many of its tasks don't run because of their nodes: those on the move, those that were lost, and those of
    /// both that are placed again and were not started yet.
    pub fn on_the_move(&self) -> u32 {
        let known = |(first, count)| self.lost.overlap(first, count) + self.replaced.overlap(first, count);
        let twice: u32 = self.moving.iter().map(known).sum();
        self.moving.len() + self.lost.len() + self.replaced.len() - twice
    }
}

/// An attempt that is over, kept for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRun {
    /// The group.
    pub group: u16,
    /// The task.
    pub task: u32,
    /// The attempt.
    pub incarnation: Incarnation,
    /// The revision of the group that it was started as.
    pub revision: u32,
    /// The node's name.
    pub node: String,
    /// Stamped time of its placement.
    pub placed_ms: u64,
    /// Stamped time of its end.
    pub ended_ms: u64,
    /// How it ended.
    pub exit: Exit,
    /// Why it was to stop, if it was.
    pub cause: Option<StopCause>,
    /// More for people.
    pub message: String,
}

/// Within this a node has seen to it that what it was told to stop is gone, beside the grace period.
pub const STOPS_WITHIN_MS: u64 = 2_000;

/// How many past runs a job keeps; older ones are dropped.
pub const PAST_RUNS_MAX: usize = 32;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its key.
    pub id: JobId,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// Who asked.
    pub owner: Arc<str>,
    /// What its class is like.
    pub kind: ClassKind,
    /// Which shard places it.
    pub shard: Shard,
    /// What may happen to it.
    pub state: JobState,
    /// Why it is in this state, for people; possibly empty.
    pub reason: String,
    /// Moves with spec, state, reservation and unhealthy nodes.
    pub version: Index,
    /// The entry that submitted it.
    pub submitted: Index,
    /// The entry by which it queues: that one, or the last one that stopped it because it was not ready in time.
    pub queued: Index,
    /// Stamped time of the entry that submitted it.
    pub submitted_ms: u64,
    /// Stamped time of its first placement; 0 before.
    pub started_ms: u64,
    /// Stamped time of its end; 0 before.
    pub finished_ms: u64,
    /// Since when it waits under a start deadline, in stamped time; 0 while it does not.
    pub waiting_since_ms: u64,
    /// When a run of it ended last, but for those that ended by themselves with 0; 0 before.
    pub last_end_ms: u64,
    /// The highest attempt that was made at a task which is gone since an update. Tasks that come later are numbered on
    /// from here, so that no two runs ever have the same name.
    pub floor: Incarnation,
    /// What still runs of it has no more than this from the polite signal on, if whoever cancelled it said so.
    pub grace_ms_max: Option<u64>,
    /// What is charged to its queue as a reservation; empty without one.
    pub reserved: Charges,
    /// Its groups in order.
    pub groups: Vec<Group>,
    /// Attempts that did not simply succeed, oldest first.
    pub past: Vec<PastRun>,
    /// What it lost with nodes, and how it became whole again.
    pub repairs: Repairs,
    /// What it asks for before it is placed, and what came of it.
    pub admission: Admission,
    /// Whether what is placed of it runs in time.
    pub readiness: Readiness,
    /// What it was made of before, and how it gets from one revision to the next; nothing where it was never changed.
    pub rollouts: Option<Box<Rollouts>>,
}

impl Job {
    /// Keeps a run that is over for people, in place of the oldest one when there are [`PAST_RUNS_MAX`].
    pub(crate) fn remember(&mut self, past: PastRun) {
        self.last_end_ms = past.ended_ms;
        if self.past.len() >= PAST_RUNS_MAX {
            self.past.remove(0);
        }
        self.past.push(past);
    }

    /// Whether its groups may take other flavors: nothing of it stands or is reserved.
    pub fn may_choose_flavors(&self) -> bool {
        self.reserved.is_empty() && self.live() == 0
    }

    /// The job as it is with these flavors; nothing where none of them is another one than it has.
    pub fn with_flavors(&self, choices: &[FlavorChoice]) -> Option<Job> {
        let differs = |choice: &&FlavorChoice| {
            let group = self.groups.get(usize::from(choice.group.0));
            choice.job == self.id && group.is_some_and(|group| group.shape != choice.shape)
        };
        let mut other = choices.iter().filter(differs).peekable();
        other.peek()?;
        let mut job = self.clone();
        other.for_each(|choice| job.groups[usize::from(choice.group.0)].shape = choice.shape);
        Some(job)
    }

    /// Tasks with live runs, over all groups.
    pub fn live(&self) -> u32 {
        self.groups.iter().map(|group| group.live).sum()
    }

    /// Tasks that wait to be placed, over all groups.
    pub fn pending(&self) -> u32 {
        self.groups.iter().map(|group| group.pending.len()).sum()
    }

    /// All tasks.
    pub fn count(&self) -> u32 {
        self.spec.groups.iter().map(|group| group.count).sum()
    }

    /// Whether everything that still runs of a job that starts whole is to stop: it starts anew, and what still stands
    /// of it does not count towards its minimum.
    pub fn is_down(&self) -> bool {
        self.starts_whole() && self.groups.iter().all(|group| group.live == group.stopping)
    }

    /// How many of the tasks of a group that wait have to be placed together at least: none of a service that has
    /// started.
    pub fn least_to_place(&self, at: usize) -> u32 {
        let (group, spec) = (&self.groups[at], &self.spec.groups[at]);
        let waits = if self.starts_whole() { !group.pending.is_empty() } else { !group.started };
        let live = if self.is_down() { 0 } else { group.live_within_count().saturating_sub(group.driven_out()) };
        if waits { group.needed(spec).saturating_sub(live) } else { 0 }
    }

    /// Whether its groups must start together.
    pub fn starts_whole(&self) -> bool {
        self.kind.starts_whole()
    }

    /// Whether nothing is left to do: every task has succeeded, or was left out at the start.
    pub fn is_done(&self) -> bool {
        self.groups.iter().zip(&self.spec.groups).all(|(group, spec)| group.is_over(spec))
    }

    /// The state in one word for people.
    pub fn phase(&self) -> &'static str {
        match self.state {
            JobState::Finished(Finish::Succeeded) => "succeeded",
            JobState::Finished(Finish::Failed) => "failed",
            JobState::Finished(Finish::Cancelled) => "cancelled",
            JobState::Suspended => "suspended",
            JobState::Active if self.live() > 0 => "running",
            JobState::Active => "pending",
        }
    }

    /// Whether something of it stands that is not to stop.
    pub(crate) fn stands(&self) -> bool {
        self.groups.iter().any(|group| group.live > group.stopping)
    }

    /// What binds group `group` to one domain now, as (topology name, level): the level it requires, or the one that a
    /// repair was allowed to go up to.
    #[inline]
    pub fn binding_level(&self, group: usize) -> Option<(&str, &str)> {
        let (topology, level) = required_level(&self.spec.groups[group])?;
        Some((topology, if self.is_widened(group) { self.spec.repair.widen_to.as_str() } else { level }))
    }

    /// The level up to which a repair of group `group` may leave its domain, if it may.
    pub fn widening_level(&self, group: usize) -> Option<&str> {
        let (state, policy) = (self.groups.get(group)?, self.spec.repair.policy);
        let may = policy == ohm_model::RepairPolicy::Widen && !self.is_widened(group) && !state.lost.is_empty();
        may.then_some(self.spec.repair.widen_to.as_str())
    }

    /// The group whose domain group `group` shares: the first one with the same `place_with`, or itself.
    pub fn domain_leader(&self, group: usize) -> usize {
        match self.spec.groups[group].place_with.as_str() {
            "" => group,
            label => self.spec.groups.iter().position(|spec| spec.place_with == label).unwrap_or(group),
        }
    }

    /// When it has run as long as `activeDeadlineSeconds` allows, in stamped time. Asked of a job that has started.
    pub fn deadline_ms(&self) -> Option<u64> {
        let seconds = self.spec.active_deadline_seconds;
        (seconds > 0).then(|| self.started_ms.saturating_add(seconds.saturating_mul(1000)))
    }

    /// When nothing of it runs any more for sure if it is placed now, in stamped time: its time is over, the last grace
    /// period has passed and its node has seen to that. Nothing where it may run as long as it likes.
    pub fn ends_by_ms(&self, now_ms: u64) -> Option<u64> {
        let seconds = self.spec.active_deadline_seconds;
        let begins_ms = if self.started_ms > 0 { self.started_ms } else { now_ms };
        let grace_ms = self.spec.groups.iter().map(|group| group.task.grace_ms).max().unwrap_or(0);
        let due_ms = begins_ms.saturating_add(seconds.saturating_mul(1000));
        (seconds > 0).then(|| due_ms.saturating_add(grace_ms).saturating_add(STOPS_WITHIN_MS))
    }

    /// When it fails unless it starts before, in stamped time; nothing while it does not wait under a start deadline.
    pub fn start_deadline_ms(&self) -> Option<u64> {
        let seconds = self.spec.pending_timeout_seconds;
        let waits = seconds > 0 && self.waiting_since_ms > 0;
        waits.then(|| self.waiting_since_ms.saturating_add(seconds.saturating_mul(1000)))
    }

    /// The groups that share one domain with group `group`, itself among them.
    pub fn partners(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let leader = self.domain_leader(group);
        (0..self.groups.len()).filter(move |&other| self.domain_leader(other) == leader)
    }

    /// The domain that group `group` and its partners stand in, while one of them has live runs.
    pub fn shared_domain(&self, group: usize) -> Option<u32> {
        self.partners(group).find_map(|other| self.groups[other].domain)
    }

    /// Whether a repair has taken group `group` and its partners to the wider level. One that lost all its runs itself
    /// comes back to where the others are.
    pub(crate) fn is_widened(&self, group: usize) -> bool {
        self.partners(group).any(|other| self.groups[other].widened && self.groups[other].domain.is_some())
    }
}

/// What is required of a group's topology, as (topology name, level).
#[inline]
pub(crate) fn required_level(spec: &GroupSpec) -> Option<(&str, &str)> {
    let request = &spec.topology;
    (request.mode == ohm_model::TopologyMode::Required).then_some((request.topology.as_str(), request.level.as_str()))
}

/// The name under which the outside is asked by `class` in the open round of `job`: the same whoever asks, another one
/// for every attempt.
pub fn request_id(job: &Job, class: &str) -> String {
    request_of(job, &job.admission.rounds, class)
}

/// The name under which the outside is asked by `class` for the request of a repair of `job` with this number.
pub fn repair_request_id(job: &Job, class: &str, number: u32) -> String {
    request_of(job, &format_args!("{}r{number}", job.admission.rounds), class)
}

fn request_of(job: &Job, occasion: &dyn std::fmt::Display, class: &str) -> String {
    // It is a label of nodes and a file name elsewhere; no name holds `_`.
    let name = job.spec.name.replace('/', "_");
    format!("{name}.{:x}.{occasion}.{class}", job.submitted_ms)
}
