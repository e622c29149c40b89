//! The kinds of events: what happened, for people and for whoever must react. Events name things as people do.

use crate::condition::{ConditionAction, ConditionKind};
use crate::head::HeadStart;
use crate::ids::{Incarnation, JobId, NodeId};
use crate::node::NodeHealth;
use crate::provisioning::RequestChange;
use crate::run::{Exit, Move, StopCause};
use crate::taint::Taint;
use crate::transaction::ConflictReason;
use serde::{Deserialize, Serialize};

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A job was accepted.
    JobSubmitted {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
    },
    /// A job went into another state: `pending`, `running`, `suspended`, `succeeded`, `failed`, `cancelled`.
    JobState {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The state it is in now.
        state: String,
        /// Why, for people; possibly empty.
        reason: String,
    },
    /// A finished job was forgotten.
    JobForgotten {
        /// Its name.
        name: String,
    },
    /// Tasks were placed.
    Placed {
        /// The job.
        job: JobId,
        /// The group.
        group: u16,
        /// First task.
        first: u32,
        /// How many.
        count: u32,
        /// The node.
        node: NodeId,
    },
    /// A run is to stop.
    Stopping {
        /// The job.
        job: JobId,
        /// The group.
        group: u16,
        /// The task.
        task: u32,
        /// The attempt.
        incarnation: Incarnation,
        /// The node.
        node: NodeId,
        /// Why.
        cause: StopCause,
    },
    /// A run was started by its node.
    Started {
        /// The job.
        job: JobId,
        /// The group.
        group: u16,
        /// The task.
        task: u32,
        /// The attempt.
        incarnation: Incarnation,
        /// The node.
        node: NodeId,
    },
    /// A run is over and its room is free.
    Ended {
        /// The job.
        job: JobId,
        /// The group.
        group: u16,
        /// The task.
        task: u32,
        /// The attempt.
        incarnation: Incarnation,
        /// The node.
        node: NodeId,
        /// How it ended.
        exit: Exit,
        /// Why it was to stop, if it was.
        cause: Option<StopCause>,
    },
    /// A node was registered, or its agent restarted.
    NodeRegistered {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// The registration.
        incarnation: Incarnation,
    },
    /// What is held of a node changed.
    NodeHealth {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// The conclusion.
        health: NodeHealth,
    },
    /// A job lost tasks with their nodes, or what they stood on fell away under them.
    TasksLost {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// How many tasks.
        tasks: u32,
        /// How many stand still.
        standing: u32,
        /// The nodes' names.
        nodes: Vec<String>,
    },
    /// Tasks that were lost, or whose node is to be left, were placed again.
    RepairCommitted {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// What moved.
        moves: Vec<Move>,
    },
    /// Everything that was lost runs again.
    Repaired {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// How many tasks were placed anew.
        tasks: u32,
        /// Milliseconds from the loss to now.
        took_ms: u64,
    },
    /// The node of a kept run is back: the run lives on, or is stopped.
    Reconciled {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// The task.
        task: u32,
        /// The attempt.
        incarnation: Incarnation,
        /// The node that is back.
        node: NodeId,
        /// Whether it lives on.
        lives: bool,
        /// Why, for people.
        reason: String,
    },
    /// A gang could not be repaired and is evicted whole.
    RepairFailed {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Very many nodes fell silent at once: conclusions wait for a while. None silent: they wait no more.
    ConclusionsHeld {
        /// How many nodes are silent.
        silent: u32,
        /// For how long at most, in milliseconds.
        brake_ms: u64,
    },
    /// The bound of node leases changed.
    NodeLeaseBound {
        /// In milliseconds.
        lease_ms: u64,
    },
    /// A node was cordoned or uncordoned.
    NodeCordoned {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// Which.
        cordoned: bool,
    },
    /// A person put a taint on a node, or took it off.
    NodeTainted {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// The taint.
        taint: Taint,
        /// Whether it was put there.
        tainted: bool,
    },
    /// A node was removed.
    NodeRemoved {
        /// Its name.
        name: String,
    },
    /// Rows of a transaction were refused.
    Conflicted {
        /// The scheduler's session name.
        scheduler: String,
        /// The class that it places.
        class: crate::class::Class,
        /// How many rows by reason.
        reasons: Vec<(ConflictReason, u32)>,
    },
    /// A lease changed hands.
    LeaseTaken {
        /// Which, for people.
        lease: String,
        /// The new holder's session name.
        holder: String,
    },
    /// A job has other content from now on.
    JobUpdated {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// Who asked.
        owner: String,
        /// What changed, as paths.
        fields: Vec<String>,
    },
    /// A condition of a node began, or leads to something else from now on, or is over.
    NodeCondition {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// What is or was wrong.
        condition: ConditionKind,
        /// What follows from it; nothing when it is over.
        action: Option<ConditionAction>,
        /// More for people, possibly empty.
        message: String,
    },
    /// A node was lost and came back too often: it gets no new work for a while.
    NodeHeldDown {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// How often it came back within the window.
        flaps: u32,
        /// For how long, in milliseconds.
        hold_down_ms: u64,
    },
    /// A node that was held down may take new work again.
    NodeReleased {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// Whether a person said so, before its time.
        by_hand: bool,
    },
    /// Nobody uses a node any more that was brought for a request: who brought it is asked to take it back.
    NodeReleasing {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// The provisioning class that brought it.
        class: String,
        /// For how long nobody has used it, in milliseconds.
        idle_ms: u64,
    },
    /// A job holds its quota, and nodes are asked for before it is placed.
    QuotaReserved {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The round of admission.
        round: u32,
        /// Who is asked, by the names of classes.
        checks: Vec<String>,
    },
    /// A check of a job went into another state.
    CheckChanged {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The class.
        class: String,
        /// Which attempt, from 1.
        attempt: u32,
        /// `ready`, `retry` or `rejected`.
        state: String,
        /// What the outside said, possibly empty.
        message: String,
        /// The wait before the next attempt, in milliseconds; 0 unless there is one.
        wait_ms: u64,
    },
    /// A request for nodes that a repair makes went into another state.
    RepairRequest {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// What became of it.
        change: RequestChange,
    },
    /// All checks of a job are ready: it is placed next.
    ChecksReady {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The round of admission.
        round: u32,
    },
    /// A node is to be drained, or drains under other limits.
    NodeDraining {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// How many runs stand on it.
        runs: u32,
        /// The stamped time at which what still stands there is stopped; 0 is never.
        deadline_ms: u64,
    },
    /// A node is drained no more.
    NodeUndrained {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
    },
    /// Nothing stands any more on a node that drains.
    NodeDrained {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// Milliseconds since the drain began.
        took_ms: u64,
    },
    /// The deadline of a drain has passed: what still stood on the node is stopped without a place for it.
    DrainDeadline {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// How many runs are stopped.
        runs: u32,
    },
    /// Room is reserved for tasks that have to leave their nodes, and they are told to stop.
    MoveReserved {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// How many tasks.
        tasks: u32,
        /// The names of the nodes they leave.
        from: Vec<String>,
        /// The names of the nodes they go to.
        to: Vec<String>,
    },
    /// Room is held for tasks that a group may lose.
    SpareHeld {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// The node.
        node: NodeId,
        /// For how many tasks.
        count: u32,
    },
    /// Room that was held for tasks that a group may lose was used or given back.
    SpareGone {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// The node.
        node: NodeId,
        /// For how many tasks.
        count: u32,
        /// `used`, or why it was given back, for people.
        reason: String,
    },
    /// The tasks of a job that stayed when others were placed anew start again where they are.
    SurvivorsRestart {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// How many tasks.
        tasks: u32,
    },
    /// A repair that finds no room claims what becomes free where it may be placed.
    RoomClaimed {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// How many tasks of it are lost.
        tasks: u32,
    },
    /// Room that became free is kept for a repair that claims it.
    RoomEarmarked {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// The node.
        node: NodeId,
        /// For how many tasks.
        count: u32,
    },
    /// Room that was kept for a repair was used or given back.
    EarmarkGone {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// The node.
        node: NodeId,
        /// For how many tasks.
        count: u32,
        /// Why, for people.
        reason: String,
    },
    /// Nothing is owed to the group any more, and all that was kept for it is given back.
    ClaimOver {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// The group.
        group: u16,
        /// Why, for people.
        reason: String,
    },
    /// The job is the head of its line: what becomes free where it is to stand is kept for it.
    HeadWaits(HeadStart),
    /// Nothing is kept for the job as for the head of its line any more.
    HeadOver {
        /// Which job it was.
        job: JobId,
        /// Its name.
        name: String,
        /// Why, for people.
        reason: String,
    },
    /// A job of a queue with resource groups has flavors, until nothing of it stands or is reserved.
    FlavorsAssigned {
        /// The job.
        job: JobId,
        /// Its name.
        name: String,
        /// By group: which flavor it has of each resource.
        groups: Vec<(String, std::collections::BTreeMap<String, String>)>,
    },
    /// A job needs the quota that others have.
    Preemption(crate::preemption::PreemptionEvent),
    /// Its queue is held, and takes something from a job.
    QueueStop(crate::queue::QueueStopEvent),
    /// A job was not ready in time: what runs of it is stopped, and it waits.
    ReadyTimeout(crate::ready::ReadyTimeoutEvent),
    /// A run became ready, or is ready no more.
    Readiness(crate::probe::ReadinessEvent),
    /// A probe ended a run, and its task starts again where it was.
    Unhealthy(crate::probe::UnhealthyEvent),
    /// A job has to leave its nodes, and stays as long as a disruption budget has nothing left.
    HeldByBudget(crate::budget::BudgetEvent),
    /// A service gets from one revision to the next.
    Rollout(crate::rollout::RolloutEvent),
}
