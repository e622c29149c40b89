//! The nouns of a cell: what a person asks for (specs), what travels through the log (commands and transactions), and
//! what comes back (outcomes, verdicts, events). Data only; the rules live in the cell.
//!
//! Invariants: every amount is an integer with its unit in the name or in [`resources`]; every type is ordered the same
//! way on every machine; no type is recursive (a decoder must not be talked into deep recursion).

#![warn(missing_docs)]

pub mod brought;
pub mod budget;
pub mod class;
pub mod command;
pub mod condition;
mod contradiction;
pub mod event;
pub mod event_kind;
pub mod head;
pub mod host_port;
pub mod ids;
pub mod job;
pub mod lease;
pub mod names;
pub mod namespace;
pub mod neighbours;
pub mod node;
pub mod outcome;
pub mod path;
pub mod preemption;
pub mod priority;
pub mod probe;
pub mod profile;
pub mod provisioning;
pub mod queue;
pub mod ready;
pub mod resources;
pub mod rollout;
pub mod run;
mod scale;
pub mod selector;
pub mod spelling;
mod subject;
pub mod subqueue;
pub mod taint;
pub mod topology;
pub mod transaction;

pub use budget::{Budget, BudgetEvent, BudgetLimit, BudgetRef, BudgetTerms, TaskAmount, UnhealthyEviction};
pub use class::{CLASS_NAME_MAX, Class, ClassKind, ClassNameError};
pub use command::{Actor, Asked, Command, ENTRY_FORMAT, Entry, Envelope};
pub use condition::{ConditionAction, ConditionKind, NodeCondition};
pub use contradiction::TopologyContradiction;
pub use event::Event;
pub use event_kind::EventKind;
pub use head::HeadStart;
pub use host_port::{HostPort, Protocol};
pub use ids::{
    ClassId, DomainId, Epoch, FlavorResource, GroupIndex, Incarnation, Index, JobId, NodeId, ResourceId, RunRef,
    Sequence, SessionId, ShapeId, TaskIndex, TaskRef,
};
pub use job::{GroupSpec, JobSpec, OnDisconnect, Reconcile, RepairPolicy, RepairSpec, SpreadMode, Survivors, TaskSpec};
pub use lease::{Lease, Role, Shard, ShortNodeLease, TakeOver};
pub use names::{NAMESPACE_DEFAULT, NameError};
pub use namespace::{Namespace, full_job_name, job_name, split_job_name};
pub use neighbours::{NeighbourTerm, Neighbours, SpreadConstraint};
pub use node::{NodeConclusion, NodeHealth, NodeSpec};
pub use outcome::{JobOutcome, Outcome, Refusal};
pub use path::FieldPath;
pub use preemption::{PreemptionChange, PreemptionEvent, PreemptionNeed, PreemptionReason, Victim, need_of};
pub use priority::PriorityClass;
pub use probe::{OnUnhealthy, Probe, ProbeAction, ProbeKind, Probes, ReadinessEvent, SimHealth, UnhealthyEvent};
pub use profile::{FitStrategy, SCORE_BASES, SchedulingProfile, Score, ScoreBase, Strategy, WeightedScore};
pub use provisioning::{CheckReport, Provisioner, ProvisioningClass, RequestChange, RetryPolicy};
pub use queue::{
    AdmissionCheck, BorrowWithinCohort, FairSharing, FlavorFungibility, FlavorPreference, FlavorQuota,
    PreemptionPolicy, QueuePreemption, QueueSpec, QueueStopEvent, QueueingStrategy, ResourceFlavor, ResourceGroup,
    ResourceQuota, Scheduling, ShareRule, StopPolicy, WhenCan,
};
pub use ready::{ReadyTimeout, ReadyTimeoutEvent};
pub use resources::{Amounts, UnitKind};
pub use rollout::{REVISIONS_MAX, RolloutAction, RolloutEvent, RolloutKind, RolloutStep, RolloutStrategy};
pub use run::{Exit, GRACE_MS_MAX, MESSAGE_CHARS_MAX, Move, RunReport, RunReportKind, StopCause};
pub use scale::ScaleError;
pub use selector::{Operator, Requirement, SelectorTerm, Toleration, TolerationOperator};
pub use subject::Subject;
pub use subqueue::{Subqueue, UsageBasedOrder};
pub use taint::{Taint, TaintEffect, TaintPattern};
pub use topology::{TopologyMode, TopologyRequest, TopologySlice, TopologySpec};
pub use transaction::{
    Claim, Conflict, ConflictReason, FlavorChoice, Grain, Guard, JobGuard, Nomination, Placement, Purpose, Transaction,
    Verdict,
};
