//! What a planner decided.

use crate::explain::Explanation;
use ohm_model::{
    FlavorChoice, Grain, GroupIndex, Guard, JobGuard, JobId, Nomination, Placement, RunRef, StopCause, Victim,
};

/// The outcome of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One per job looked at, in the order of the work; jobs without one were beyond the budget and come again.
    pub decisions: Vec<Decision>,
    /// Nodes looked at, summed over the jobs.
    pub examined: u64,
}

/// What was decided about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Something is to be committed.
    Planned(Box<PlannedJob>),
    /// Nothing can be done for it now.
    Unplaced(Box<Explanation>),
    /// It needs nothing.
    Nothing(JobId),
}

impl Decision {
    /// The job it is about.
    pub fn job(&self) -> JobId {
        match self {
            Decision::Planned(planned) => planned.job.job,
            Decision::Unplaced(explanation) => explanation.job,
            Decision::Nothing(job) => *job,
        }
    }
}

/// The parts of a transaction for one job. Rows of one group ascend by task.
///
/// A plan with only placements and a grain other than `AllOrNothing` may travel in one transaction with others like it;
/// its rows may also be cut where the entry size demands it, if no group of it starts. Any other plan travels alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedJob {
    /// The job, as [`crate::View::guard`] gives it.
    pub job: JobGuard,
    /// Other jobs that must be unchanged for the plan to make sense.
    pub others: Vec<JobGuard>,
    /// How much must hold. Plans that evict need `AllOrNothing`, or victims stop for nothing.
    pub grain: Grain,
    /// What must hold of the nodes.
    pub guard: Guard,
    /// The flavors that it is planned with, where it may have others.
    pub flavors: Vec<FlavorChoice>,
    /// Tasks to place; all of this job.
    pub place: Vec<Placement>,
    /// Runs to stop.
    pub evict: Vec<(RunRef, StopCause)>,
    /// Room to keep for this job.
    pub nominate: Vec<Nomination>,
    /// Whether its whole request is to be charged to its queue.
    pub reserve: bool,
    /// Its groups to which room is owed from now on.
    pub claim: Vec<GroupIndex>,
    /// Jobs to stop, whole or in part, for the quota or the room that they have. Such a plan places nothing.
    pub preempt: Vec<Victim>,
    /// How many of the tasks that stop so go beyond what disruption budgets allow: nothing else was found.
    pub breaks: u32,
    /// Why nothing more is planned for it, if something will still be missing after the commit.
    pub rest: Option<Box<Explanation>>,
}

impl PlannedJob {
    /// A plan that only places.
    pub fn placing(job: JobGuard, grain: Grain, place: Vec<Placement>) -> Self {
        PlannedJob {
            job,
            others: Vec::new(),
            grain,
            guard: Guard::Fits,
            flavors: Vec::new(),
            place,
            evict: Vec::new(),
            nominate: Vec::new(),
            reserve: false,
            claim: Vec::new(),
            preempt: Vec::new(),
            breaks: 0,
            rest: None,
        }
    }

    /// Whether it would change nothing.
    pub fn is_empty(&self) -> bool {
        let nothing_else = !self.reserve && self.claim.is_empty() && self.preempt.is_empty();
        self.place.is_empty() && self.evict.is_empty() && self.nominate.is_empty() && nothing_else
    }

    /// Whether it may share a transaction with others like it.
    pub fn is_mergeable(&self) -> bool {
        let alone = self.evict.is_empty() && self.nominate.is_empty() && self.others.is_empty();
        let only_places = alone && !self.reserve && self.claim.is_empty() && self.preempt.is_empty();
        only_places && self.grain != Grain::AllOrNothing
    }

    /// An upper bound of its bytes in a log entry: integers are encoded in at most nine bytes.
    pub fn bytes_max(&self) -> usize {
        let rows: usize = self.place.iter().map(row_bytes_max).sum();
        let others = self.flavors.len() * 18
            + self.others.len() * 24
            + self.evict.len() * 32
            + self.nominate.len() * 40
            + self.claim.len() * 12
            + self.preempt.iter().map(|victim| 24 + victim.runs.len() * 28).sum::<usize>();
        rows + others + 64
    }
}

/// An upper bound of the bytes of one placement row.
pub fn row_bytes_max(row: &Placement) -> usize {
    9 + 3 + 5 + 5 + 5 + 5 + 9 + row.devices.len() * 9
}
