//! Transactions: what a scheduler wants to be true, and what the log said to it (Omega, EuroSys 2013, section 3.4).

use crate::budget::BudgetRef;
use crate::host_port::HostPort;
use crate::ids::{ClassId, Epoch, GroupIndex, Index, JobId, NodeId, ResourceId, RunRef, ShapeId, TaskIndex};
use crate::lease::Shard;
use crate::preemption::Victim;
use crate::run::StopCause;
use serde::{Deserialize, Serialize};

/// How much of a transaction must hold for any of it to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grain {
    /// What fits is taken, task by task. A group that has not started still starts with its minimum or not at all.
    PerTask,
    /// Per group: live and accepted tasks together reach its minimum, else nothing of its job is taken.
    Minimum,
    /// Everything or nothing.
    AllOrNothing,
}

/// What must still be true of a node. Omega compares both (section 5.2): `Fits` is its fine-grained detection of
/// conflicts, `Unchanged` the coarse-grained one by sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Guard {
    /// Every hard constraint holds at commit.
    #[default]
    Fits,
    /// As `Fits`, and nothing about the node moved since `seen`, own commits apart.
    Unchanged,
}

/// What the `conflicts` of a profile may be.
pub const GUARDS: [(&str, Guard); 2] = [("fit", Guard::Fits), ("version", Guard::Unchanged)];

impl Guard {
    /// The word that profiles have for it.
    pub fn name(self) -> &'static str {
        match self {
            Guard::Fits => GUARDS[0].0,
            Guard::Unchanged => GUARDS[1].0,
        }
    }
}

/// What must still be true of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGuard {
    /// The job.
    pub job: JobId,
    /// Its version when the plan was made: it moves with spec, lifecycle, reservation and unhealthy nodes.
    pub version: Index,
    /// Whether the plan builds on a quota reservation, which then must still stand.
    pub reserved: bool,
}

/// `count` consecutive tasks of a group onto one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupIndex,
    /// The first task.
    pub first: TaskIndex,
    /// How many tasks, from `first` on; at least 1.
    pub count: u32,
    /// The node.
    pub node: NodeId,
    /// The class the node had when the plan was made.
    pub class: ClassId,
    /// Which devices: for each task, for each device resource of the group in resource order, a mask of the node's
    /// devices. Empty when the group asks for none.
    pub devices: Vec<u64>,
}

/// What room is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purpose {
    /// For a job that waits until others have stopped there.
    Preemptor {
        /// Ends at this stamped time, in milliseconds, if not used before.
        expires_ms: u64,
    },
    /// For tasks that the same transaction tells to leave their nodes (see [`Transaction::is_move`]); kept until they
    /// stand again.
    Move,
    /// For tasks of a started group that may be lost, as many as its `spares`.
    Spare,
    /// For tasks that were lost and find no room, by a [`Claim`] of theirs. No transaction names such room: the log
    /// gives it as it becomes free.
    Repair,
    /// For the job at the head of its line, which waits until others have ended there. All rooms of one head are named
    /// in one transaction. What surely ends before the job is to start may run there meanwhile.
    Head {
        /// When the job is to start, in stamped milliseconds.
        start_ms: u64,
        /// Whether that is guessed: nobody knows when some of what runs there ends.
        is_guess: bool,
        /// Ends at this stamped time, in milliseconds, if the job does not stand before.
        until_ms: u64,
    },
}

/// Room kept on one node for tasks that don't stand there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nomination {
    /// The job that will stand there.
    pub job: JobId,
    /// The group.
    pub group: GroupIndex,
    /// The node.
    pub node: NodeId,
    /// Of tasks that move, the first one; 0 for others, which are not told apart.
    pub first: TaskIndex,
    /// For how many tasks.
    pub count: u32,
    /// What for.
    pub purpose: Purpose,
}

impl Nomination {
    /// Whether it is for tasks that have to leave their nodes.
    pub fn is_move(&self) -> bool {
        self.purpose == Purpose::Move
    }

    /// Whether it is for tasks of a group that may be lost.
    pub fn is_spare(&self) -> bool {
        self.purpose == Purpose::Spare
    }

    /// Whether it is for a job for which others stop.
    pub fn is_preemptor(&self) -> bool {
        matches!(self.purpose, Purpose::Preemptor { .. })
    }

    /// Whether it is for the head of a line.
    pub fn is_head(&self) -> bool {
        matches!(self.purpose, Purpose::Head { .. })
    }
}

/// Room that is owed to lost tasks of a group for which none was found. Where that may be, the state says: the domain
/// that the group has to stay in, or the whole cell. Room that becomes free there is kept for them, as much as they
/// lack, until they are placed or the time of their claim is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupIndex,
}

/// The flavors that a group of a queue with resource groups gets: they are told by the shape that it has with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlavorChoice {
    /// The job. Nothing of it stands or is reserved.
    pub job: JobId,
    /// The group.
    pub group: GroupIndex,
    /// One of the shapes that the queue offers to the group.
    pub shape: ShapeId,
}

/// A scheduler's plan, judged inside the log on every copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Whose work it is; fenced by `epoch`.
    pub shard: Shard,
    /// The epoch of the shard's lease.
    pub epoch: Epoch,
    /// The last entry its planner's copy had applied.
    pub seen: Index,
    /// How much must hold.
    pub grain: Grain,
    /// What must hold of the nodes.
    pub guard: Guard,
    /// What must hold of the jobs; every job placed, nominated or reserved must be listed.
    pub jobs: Vec<JobGuard>,
    /// The flavors that jobs get with what is placed or reserved for them here. Without it nothing of a job is taken
    /// that has no flavors and needs some.
    pub flavors: Vec<FlavorChoice>,
    /// Runs to stop, and why. One that has ended already is fine.
    pub evict: Vec<(RunRef, StopCause)>,
    /// Tasks to place.
    pub place: Vec<Placement>,
    /// Room to keep.
    pub nominate: Vec<Nomination>,
    /// Jobs whose whole request is to be charged to their queue without a placement.
    pub reserve: Vec<JobId>,
    /// Groups to which room is owed.
    pub claim: Vec<Claim>,
    /// Jobs to stop, whole or in part, because the only job of this transaction lacks the quota or the room that they
    /// have; in the order in which each may be. Such a transaction is all or nothing, and places nothing: the job is
    /// placed once they have ended, in the rooms that are kept for it in the same transaction.
    pub preempt: Vec<Victim>,
    /// How many of the tasks that stop by `preempt` go beyond what disruption budgets allow, as its planner saw it: it
    /// found nothing else. Where there are more by now it is refused.
    pub breaks: u32,
}

impl Transaction {
    /// A transaction that asks for nothing yet; of nodes it wants that what it places fits.
    pub fn empty(shard: Shard, epoch: Epoch, seen: Index, grain: Grain) -> Self {
        Transaction {
            shard,
            epoch,
            seen,
            grain,
            guard: Guard::Fits,
            jobs: Vec::new(),
            flavors: Vec::new(),
            evict: Vec::new(),
            place: Vec::new(),
            nominate: Vec::new(),
            reserve: Vec::new(),
            claim: Vec::new(),
            preempt: Vec::new(),
            breaks: 0,
        }
    }

    /// Whether it moves tasks away from nodes that they have to leave: runs are told to stop as drained, and room for
    /// them is reserved, in one. Such a transaction is all or nothing, and does nothing else.
    pub fn is_move(&self) -> bool {
        let drains = self.evict.iter().any(|(_, cause)| *cause == StopCause::Drained);
        drains || self.nominate.iter().any(Nomination::is_move)
    }

    /// Whether it does nothing but that.
    pub fn is_pure_move(&self) -> bool {
        let drains = self.evict.iter().all(|(_, cause)| *cause == StopCause::Drained);
        let rooms = self.nominate.iter().all(Nomination::is_move);
        let nothing_else = self.place.is_empty() && self.reserve.is_empty() && self.claim.is_empty();
        let nothing_else = nothing_else && self.flavors.is_empty() && self.preempt.is_empty();
        self.grain == Grain::AllOrNothing && drains && rooms && nothing_else
    }
}

/// Why a row could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConflictReason {
    /// The node was removed or registered anew after `seen`.
    NodeGone,
    /// The node is cordoned, draining, suspect or lost.
    NodeNotReady,
    /// Labels or taints of the node changed and the group may not stand there.
    NodeClassChanged,
    /// Not enough room in this resource.
    NodeFull(ResourceId),
    /// A port is taken.
    PortTaken(HostPort),
    /// The group's limit per node would be exceeded, or that of tasks on the move at the same time; or the time to
    /// claim room for a repair is over; or the job may not be the head of its line yet, or for so long; or it waits
    /// because others stopped for it in vain.
    LimitReached,
    /// No task runs near that the group must be near.
    PodAffinity,
    /// A task runs near that the group must not be near, or that must not be near it.
    PodAntiAffinity,
    /// The tasks of a spread group would be less even than it allows.
    PodTopologySpread,
    /// The room is kept for a nominated job of this or higher priority, for a repair, or for another head of the
    /// same line.
    Held,
    /// The node's version moved and the guard is `Unchanged`.
    NodeChanged,
    /// The task has a live run, is over, or does not exist.
    TaskNotPending,
    /// The job's version moved.
    JobChanged,
    /// The job is finished, cancelled or suspended, or gone.
    JobClosed,
    /// The plan builds on a reservation that does not stand, or tells a run to leave its node without room for it.
    NotReserved,
    /// The queue has no room left.
    QuotaExceeded,
    /// The gang would start below its minimum.
    GangShort,
    /// A required topology domain would be left.
    TopologyBroken,
    /// The shard's lease is held by another epoch, or the job is not of this shard.
    ShardLost,
    /// The session is not known.
    SessionGone,
    /// The row is malformed: a count of zero, a group that does not exist, devices that don't match the request.
    Malformed,
    /// Another row of the same all-or-nothing transaction failed.
    Together,
    /// Lost tasks would go elsewhere while a spare of their group could take one of them.
    SpareUnused,
    /// The group has no flavors and none were chosen for it, or its queue does not offer what was chosen.
    FlavorMissing,
    /// The job may not be stopped for the one that lacks quota.
    NoRight,
    /// The job that others are to be stopped for needs nothing of them: its quota is enough, or is not with all of them
    /// stopped, or would be with fewer.
    NoNeed,
    /// The queue is StrictFIFO, and another job of it comes before this one and waits to start.
    OutOfTurn,
    /// The queue is held: nothing of it starts or grows.
    QueueHeld,
    /// The job was not ready in time, and backs off until this stamped time.
    BacksOff(u64),
    /// So few tasks of a disruption budget are healthy that no more of them may be stopped.
    BudgetExceeded(BudgetRef),
}

impl ConflictReason {
    /// The name used in events, metrics and coverage tables.
    pub fn name(self) -> &'static str {
        match self {
            ConflictReason::NodeGone => "NodeGone",
            ConflictReason::NodeNotReady => "NodeNotReady",
            ConflictReason::NodeClassChanged => "NodeClassChanged",
            ConflictReason::NodeFull(_) => "NodeFull",
            ConflictReason::PortTaken(_) => "PortTaken",
            ConflictReason::LimitReached => "LimitReached",
            ConflictReason::PodAffinity => "PodAffinity",
            ConflictReason::PodAntiAffinity => "PodAntiAffinity",
            ConflictReason::PodTopologySpread => "PodTopologySpread",
            ConflictReason::Held => "Held",
            ConflictReason::NodeChanged => "NodeChanged",
            ConflictReason::TaskNotPending => "TaskNotPending",
            ConflictReason::JobChanged => "JobChanged",
            ConflictReason::JobClosed => "JobClosed",
            ConflictReason::NotReserved => "NotReserved",
            ConflictReason::QuotaExceeded => "QuotaExceeded",
            ConflictReason::GangShort => "GangShort",
            ConflictReason::TopologyBroken => "TopologyBroken",
            ConflictReason::ShardLost => "ShardLost",
            ConflictReason::SessionGone => "SessionGone",
            ConflictReason::Malformed => "Malformed",
            ConflictReason::Together => "Together",
            ConflictReason::SpareUnused => "SpareUnused",
            ConflictReason::FlavorMissing => "FlavorMissing",
            ConflictReason::NoRight => "NoRight",
            ConflictReason::NoNeed => "NoNeed",
            ConflictReason::OutOfTurn => "OutOfTurn",
            ConflictReason::QueueHeld => "QueueHeld",
            ConflictReason::BacksOff(_) => "BacksOff",
            ConflictReason::BudgetExceeded(_) => "BudgetExceeded",
        }
    }
}

/// Which row of which list a conflict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Row {
    /// The transaction as a whole.
    Whole,
    /// `place[i]`.
    Place(u32),
    /// `evict[i]`.
    Evict(u32),
    /// `nominate[i]`.
    Nominate(u32),
    /// `reserve[i]`.
    Reserve(u32),
    /// `claim[i]`.
    Claim(u32),
    /// `flavors[i]`.
    Flavor(u32),
    /// `preempt[i]`.
    Preempt(u32),
}

/// One refused row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The row.
    pub row: Row,
    /// The node it was about, if any.
    pub node: Option<NodeId>,
    /// Why.
    pub reason: ConflictReason,
}

/// What the log said to a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// For each placement row, how many of its first tasks were taken. Empty means: every row, whole.
    pub accepted: Vec<u32>,
    /// Every refused row.
    pub conflicts: Vec<Conflict>,
    /// The planner must have applied this index before it tries again; 0 when nothing was refused.
    pub refresh: Index,
}

impl Verdict {
    /// How many tasks of placement row `row` of `transaction` were taken.
    pub fn accepted_of(&self, transaction: &Transaction, row: usize) -> u32 {
        if self.accepted.is_empty() { transaction.place[row].count } else { self.accepted[row] }
    }
}
