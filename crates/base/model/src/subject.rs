//! Whom an event is about.

use crate::budget::BudgetEvent;
use crate::event_kind::EventKind;
use crate::head::HeadStart;
use crate::ids::{JobId, NodeId};
use crate::preemption::PreemptionEvent;
use crate::probe::{ReadinessEvent, UnhealthyEvent};
use crate::queue::QueueStopEvent;
use crate::ready::ReadyTimeoutEvent;
use crate::rollout::RolloutEvent;

/// Whom an event is about, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A job.
    Job {
        /// Nothing once the job is forgotten.
        id: Option<JobId>,
        /// Its name.
        name: &'a str,
    },
    /// Runs of a job on a node. Such events are many and name nobody.
    Run {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// A node.
    Node {
        /// Its name.
        name: &'a str,
    },
    /// The cell as a whole.
    Cell,
}

impl EventKind {
    /// Whom the event is about.
    pub fn subject(&self) -> Subject<'_> {
        match self {
            EventKind::JobSubmitted { job, name }
            | EventKind::JobUpdated { job, name, .. }
            | EventKind::JobState { job, name, .. }
            | EventKind::TasksLost { job, name, .. }
            | EventKind::RepairCommitted { job, name, .. }
            | EventKind::Repaired { job, name, .. }
            | EventKind::RepairFailed { job, name, .. }
            | EventKind::SurvivorsRestart { job, name, .. }
            | EventKind::QuotaReserved { job, name, .. }
            | EventKind::FlavorsAssigned { job, name, .. }
            | EventKind::Preemption(PreemptionEvent { job, name, .. })
            | EventKind::QueueStop(QueueStopEvent { job, name, .. })
            | EventKind::ReadyTimeout(ReadyTimeoutEvent { job, name, .. })
            | EventKind::HeldByBudget(BudgetEvent { job, name, .. })
            | EventKind::Rollout(RolloutEvent { job, name, .. })
            | EventKind::CheckChanged { job, name, .. }
            | EventKind::RepairRequest { job, name, .. }
            | EventKind::ChecksReady { job, name, .. }
            | EventKind::MoveReserved { job, name, .. }
            | EventKind::SpareHeld { job, name, .. }
            | EventKind::SpareGone { job, name, .. }
            | EventKind::RoomClaimed { job, name, .. }
            | EventKind::RoomEarmarked { job, name, .. }
            | EventKind::EarmarkGone { job, name, .. }
            | EventKind::ClaimOver { job, name, .. }
            | EventKind::HeadWaits(HeadStart { job, name, .. })
            | EventKind::HeadOver { job, name, .. }
            | EventKind::Reconciled { job, name, .. } => Subject::Job { id: Some(*job), name },
            EventKind::JobForgotten { name } => Subject::Job { id: None, name },
            EventKind::Placed { job, node, .. }
            | EventKind::Stopping { job, node, .. }
            | EventKind::Started { job, node, .. }
            | EventKind::Ended { job, node, .. }
            | EventKind::Readiness(ReadinessEvent { job, node, .. })
            | EventKind::Unhealthy(UnhealthyEvent { job, node, .. }) => Subject::Run { job: *job, node: *node },
            EventKind::NodeRegistered { name, .. }
            | EventKind::NodeHealth { name, .. }
            | EventKind::NodeCordoned { name, .. }
            | EventKind::NodeTainted { name, .. }
            | EventKind::NodeRemoved { name }
            | EventKind::NodeCondition { name, .. }
            | EventKind::NodeHeldDown { name, .. }
            | EventKind::NodeReleased { name, .. }
            | EventKind::NodeReleasing { name, .. }
            | EventKind::NodeDraining { name, .. }
            | EventKind::NodeUndrained { name, .. }
            | EventKind::NodeDrained { name, .. }
            | EventKind::DrainDeadline { name, .. } => Subject::Node { name },
            EventKind::ConclusionsHeld { .. }
            | EventKind::NodeLeaseBound { .. }
            | EventKind::Conflicted { .. }
            | EventKind::LeaseTaken { .. } => Subject::Cell,
        }
    }
}
