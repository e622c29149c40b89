//! What a scheduler of one class must be able to do; the framework does the rest.

use crate::plan::Plan;
use crate::view::{Board, View};
use ohm_cell::{Cell, Group, Job, JobState, goes_on, runs_to_move, stop_policy_of};
use ohm_model::{Class, GroupIndex, GroupSpec, JobId, NodeId};
use ohm_stdx::Prng;
use serde::{Deserialize, Serialize};

/// Decides where jobs of one class go. A planner is a pure function of what it was shown: no clock, no hidden dice.
///
/// A planner may keep tables of its own (free columns, candidate lists). They are right after `reset`, and stay right
/// as long as every `changed` is followed: it comes after entries were applied, after the framework took or gave back
/// holds, and after each `plan` for every node that a returned row names, whether the row was sent or not. So a planner
/// may lower its own numbers while it plans; the framework puts them right afterwards.
pub trait Planner {
    /// The class of jobs it places.
    fn class(&self) -> Class;

    /// Decides about the jobs of `work`, in their order, as far as the budget goes: it stops before the first job that
    /// it can't look at any more, but always decides about the first. The planner lays what it plans on the board, so
    /// that later jobs of the pass see it, and takes it back before it returns.
    fn plan(&mut self, board: &mut Board<'_>, work: &Work, dice: &mut Prng) -> Plan;

    /// Something about these nodes or jobs is other than before; lists may repeat. Read it again from `view`.
    fn changed(&mut self, view: &View<'_>, nodes: &[NodeId], jobs: &[JobId]);

    /// Everything is other than before: the copy was replaced, or a topology came or went.
    fn reset(&mut self, view: &View<'_>);

    /// Whether `job` needs this planner's attention, and why. Asked whenever the job changed.
    fn need(&self, cell: &Cell, job: &Job) -> Option<Need> {
        need_of(cell, job)
    }
}

/// Why a job is looked at. Earlier ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Need {
    /// It stands and lost a part: before all new work.
    Repair,
    /// Something of it has to leave its node: before all new work too. Places for it are sought on a board on which it
    /// has left (`Overlay::leave`), so planners make no difference to a repair.
    Move,
    /// It has not started.
    Start,
    /// It stands with its minimum and may grow.
    Grow,
    /// It stands whole and lacks spares: after all work, and without stopping anybody.
    Spare,
}

/// The need that follows from the tasks alone: some wait to be placed, or have to leave their nodes, or spares are
/// missing.
pub fn need_of(cell: &Cell, job: &Job) -> Option<Need> {
    // A gang of which everything is to stop starts anew when the last run has ended; what its nodes drive away is
    // repaired as one loss when all of it has ended.
    let stops = job.starts_whole() && job.live() > 0 && (job.is_down() || job.awaits_ends());
    // What came back of a gang takes its tasks again, together, once the last of its replacements has ended.
    let returns = job.starts_whole() && cell.kept().of_job(job.id).any(|(_, kept)| kept.back.is_some());
    if job.state != JobState::Active || stops || returns {
        return None;
    }
    let is_broken = |(group, spec): (&Group, &GroupSpec)| {
        group.started && (group.live_within_count() < group.needed(spec) || !group.lost.is_empty())
    };
    if waiting(cell, job).any(is_broken) {
        return Some(Need::Repair);
    }
    // What else waits may find no place for long: that keeps nobody on a node that has to be left.
    if !job.repairs.unhealthy.is_empty() && !runs_to_move(cell, job).is_empty() {
        return Some(Need::Move);
    }
    need_of_waiting(cell, job)
}

/// What the tasks of an active job that wait to be placed need, or its spares, whatever has to leave its node.
pub(crate) fn need_of_waiting(cell: &Cell, job: &Job) -> Option<Need> {
    if waiting(cell, job).next().is_none() {
        return (job.seeks_spares() && stop_policy_of(cell, job).is_none()).then_some(Need::Spare);
    }
    let lacks = waiting(cell, job).any(|(group, spec)| group.started && (!spec.elastic || !group.lost.is_empty()));
    let starts = waiting(cell, job).any(|(group, _)| !group.started);
    Some(match (lacks, starts) {
        (true, _) => Need::Repair,
        (false, true) => Need::Start,
        (false, false) => Need::Grow,
    })
}

/// The groups of which tasks wait that may be placed.
fn waiting<'j>(cell: &Cell, job: &'j Job) -> impl Iterator<Item = (&'j Group, &'j GroupSpec)> {
    let groups = job.groups.iter().zip(&job.spec.groups).enumerate();
    groups.filter(|(at, _)| goes_on(cell, job, GroupIndex(*at as u16))).map(|(_, group)| group)
}

/// The jobs to look at in one pass, most urgent first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Each job once.
    pub jobs: Vec<WorkItem>,
    /// How much may be done about them.
    pub budget: Budget,
}

/// One job to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The job.
    pub job: JobId,
    /// Why.
    pub need: Need,
    /// How many plans of it were refused in a row by conflicts; 0 at first. A planner spreads wider when it is not 0.
    pub attempt: u32,
    /// Whether room is nominated for it: that room is looked at first and alone, then all nodes.
    pub nominated: bool,
    /// Whether nodes are counted for the explanation where it finds no room.
    pub counted: bool,
}

/// Bounds of one pass, counted in work and never in time, so that equal inputs give equal plans on any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Nodes that may be looked at, summed over the jobs.
    pub nodes: u64,
    /// Placement rows that may be returned, summed over the jobs. A gang that can't grow later is never cut: it may
    /// take more.
    pub rows: usize,
}

impl Budget {
    /// No bound: for answers to a single question.
    pub const UNBOUNDED: Budget = Budget { nodes: u64::MAX, rows: usize::MAX };
}
