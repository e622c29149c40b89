//! The public HTTP API as types: what `/v1` answers, in JSON. The CLI reads exactly these; so may any program.
//!
//! Rules that hold for every type: field names are `camelCase`; amounts are Kubernetes quantities as text (`500m`,
//! `64Gi`); times are milliseconds since 1970 in fields that end in `Ms`, 0 for "not yet"; names are the ones people
//! chose; a field that would be empty may be left out; new fields may appear, none changes its meaning.

mod admission;
mod budget;
mod defaults;
mod endpoint;
mod error;
mod event;
mod explain;
mod job;
mod node;
mod profile;
mod queue;
mod rollout;
mod server;
mod status;
mod submit;

pub use admission::{AdmissionView, CheckView, ProvisioningClassList, ProvisioningClassView, RetryView};
pub use budget::{BudgetList, BudgetView};
pub(crate) use defaults::is_default;
pub use endpoint::{EndpointList, EndpointView};
pub use error::{ApiError, ErrorAnswer};
pub use event::{EventList, EventView};
pub use explain::{
    BestDomainView, CountedView, ExcludedView, ExplainView, GroupExplainView, LayerFitView, NearestView, OwedView,
    ReasonView,
};
pub use job::{
    GroupView, JobList, JobSummary, JobView, NodeRequestView, PastRepairView, PastRunView, ReadinessView, RepairView,
    TaskCounts, TaskView, UnhealthyNodeView, WaitAnswer,
};
pub use node::{
    BroughtView, DrainView, HeldView, LeavingView, NodeConditionView, NodeDetail, NodeList, NodeRunView, NodeSummary,
    PutTaintView,
};
pub use profile::{ProfileList, ProfileView, ScoreView};
pub use queue::{
    ActiveJobView, BorrowWithinCohortView, DomainView, FairSharingView, NamespaceList, NamespaceView,
    PriorityClassList, PriorityClassView, QueueDetail, QueueFlavorView, QueueList, QueuePreemptionView,
    QueueResourceView, QueueView, ReadyTimeoutView, ResourceFlavorList, ResourceFlavorView, SchedulingView,
    SubqueueView, TopologyList, TopologyView, UsageBasedOrderView, WaitingJobView,
};
pub use rollout::{GroupRolloutView, RevisionView, RolloutSummary, RolloutView};
pub use server::{ServerEngine, ServerList, ServerRole, ServerView};
pub use status::{ClockView, JobTotals, JudgedView, NodeTotals, SessionView, StatusView, TaskTotals};
pub use submit::{DocumentVerdict, ProblemView, SubmitAnswer, VerdictKind};

/// The header of every answer that says which log entry the answer has seen.
pub const INDEX_HEADER: &str = "Ohm-Index";
/// The header of a request that says on whose behalf jobs are submitted.
pub const OWNER_HEADER: &str = "Ohm-Owner";
/// The header by which `/healthz` says which server answers, to whoever started it; its value is that of
/// [`INSTANCE_VARIABLE`].
pub const INSTANCE_HEADER: &str = "Ohm-Instance";
/// The environment variable that names this start of a server.
pub const INSTANCE_VARIABLE: &str = "OHM_INSTANCE";
/// Where a server listens unless it is told otherwise.
pub const SERVER_DEFAULT: &str = "http://127.0.0.1:6460";
