//! Queues, cohorts and resource flavors: who may use how much of what. Names and rules are those of Kueue.

use crate::ids::JobId;
use crate::ready::ReadyTimeout;
use crate::resources::Amounts;
use crate::selector::{Labels, Toleration};
use crate::subqueue::UsageBasedOrder;
use crate::taint::Taint;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most resource groups of a queue or cohort.
pub const RESOURCE_GROUPS_MAX: usize = 16;
/// Most flavors of a resource group.
pub const FLAVORS_MAX: usize = 64;
/// Most ways in which a queue may combine one flavor of each of its resource groups.
pub const FLAVOR_CHOICES_MAX: usize = 256;
/// Most resource flavors of a cell.
pub const RESOURCE_FLAVORS_MAX: usize = 1024;

/// A queue or a cohort: one node of the quota tree. Jobs name queues; cohorts only join queues together.
///
/// Quota is given in one of two ways: by the short form (`nominal` and the two limits), which is of no flavor, or by
/// resource groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Unique in the cell among queues, cohorts and subqueues.
    pub name: String,
    /// Whether this is a cohort, which holds no jobs.
    pub is_cohort: bool,
    /// The cohort above; empty at the root.
    pub parent: String,
    /// Own room per resource; a resource that is not named here is not limited by this queue.
    pub nominal: Amounts,
    /// How much may be borrowed from the cohort, per resource; unlimited when absent.
    pub borrowing_limit: Amounts,
    /// How much may be lent to the cohort, per resource; everything when absent.
    pub lending_limit: Amounts,
    /// Room by flavor. Of a queue with resource groups, jobs that ask for what none of them covers are not placed.
    pub resource_groups: Vec<ResourceGroup>,
    /// Which flavor a job gets where several would do.
    pub flavor_fungibility: FlavorFungibility,
    /// Whom jobs of this queue may stop where they lack quota; of a cohort: nobody.
    pub preemption: QueuePreemption,
    /// Whether a job that finds no place keeps back those behind it; of a cohort: it does not.
    pub queueing_strategy: QueueingStrategy,
    /// Share among siblings in units of one thousandth; 1000 is one.
    pub weight_milli: u64,
    /// The provisioning classes that must say yes before a job of this queue is placed; none for a cohort.
    pub admission_checks: Vec<AdmissionCheck>,
    /// Whether its jobs may start, and go on; of a cohort: always.
    pub stop_policy: StopPolicy,
    /// How many of its jobs may wait: a job that would be one too many is refused; 0 is no bound.
    pub max_waiting_jobs: u32,
    /// For so long after it began to run, no job of another queue has one of this queue stopped; 0 is not at all.
    pub min_runtime_seconds: u64,
    /// By when what is placed of its jobs must run; of a cohort: nothing.
    pub ready_timeout: Option<Box<ReadyTimeout>>,
    /// Whether its jobs come in the order of what their subqueues have used; of a cohort: nothing.
    pub usage_based_order: Option<Box<UsageBasedOrder>>,
    /// The namespaces of the jobs that may wait in it; those of all when absent; of a cohort: nothing.
    pub namespaces: Option<Box<BTreeSet<String>>>,
}

impl Default for QueueSpec {
    /// A queue without a name, a cohort and limits, of weight one.
    fn default() -> Self {
        QueueSpec {
            name: String::new(),
            is_cohort: false,
            parent: String::new(),
            nominal: Amounts::new(),
            borrowing_limit: Amounts::new(),
            lending_limit: Amounts::new(),
            resource_groups: Vec::new(),
            flavor_fungibility: FlavorFungibility::default(),
            preemption: QueuePreemption::default(),
            queueing_strategy: QueueingStrategy::default(),
            weight_milli: 1000,
            admission_checks: Vec::new(),
            stop_policy: StopPolicy::None,
            max_waiting_jobs: 0,
            min_runtime_seconds: 0,
            ready_timeout: None,
            usage_based_order: None,
            namespaces: None,
        }
    }
}

impl QueueSpec {
    /// Whether a resource group gives quota for a flavor of this name.
    pub fn gives_flavor(&self, name: &str) -> bool {
        self.resource_groups.iter().flat_map(|group| &group.flavors).any(|quota| quota.name == name)
    }

    /// Whether jobs of this namespace may wait in it.
    pub fn admits_namespace(&self, namespace: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|namespaces| namespaces.contains(namespace))
    }

    /// What is wrong with `check`, one of this queue, and which of its flavors it is about, by its place.
    ///
    /// # Errors
    /// Says what the flavor breaks.
    pub fn judge_on_flavors(&self, check: &AdmissionCheck) -> Result<(), (usize, String)> {
        for (at, flavor) in check.on_flavors.iter().enumerate() {
            if !self.gives_flavor(flavor) {
                let problem = format!("no resource group of the queue gives flavor `{flavor}`; name one that does");
                return Err((at, problem));
            }
            if check.on_flavors[..at].contains(flavor) {
                return Err((at, format!("names `{flavor}` again; keep one")));
            }
        }
        Ok(())
    }
}

/// A provisioning class that must say yes before jobs of a queue are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AdmissionCheck {
    /// The class.
    pub name: String,
    /// It is asked for jobs only that have one of these flavors, in any group and for any resource; for all jobs where
    /// there are none.
    pub on_flavors: Vec<String>,
}

impl AdmissionCheck {
    /// Asked for all jobs.
    pub fn of(name: impl Into<String>) -> Self {
        AdmissionCheck { name: name.into(), on_flavors: Vec::new() }
    }

    /// Whether it is asked for jobs that have `flavor`.
    pub fn is_on(&self, flavor: &str) -> bool {
        self.on_flavors.is_empty() || self.on_flavors.iter().any(|known| known == flavor)
    }
}

/// What becomes of the jobs of a queue behind one that finds no place. They are in order by priority, then by when
/// they came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueingStrategy {
    /// The next ones are looked at.
    #[default]
    BestEffortFifo,
    /// They wait, whatever it waits for: no job starts before one that comes before it.
    StrictFifo,
}

impl QueueingStrategy {
    /// Its word.
    pub fn name(self) -> &'static str {
        QUEUEING_STRATEGIES.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }
}

/// The words for [`QueueingStrategy`].
pub const QUEUEING_STRATEGIES: [(&str, QueueingStrategy); 2] =
    [("BestEffortFIFO", QueueingStrategy::BestEffortFifo), ("StrictFIFO", QueueingStrategy::StrictFifo)];

/// What a queue keeps its jobs from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopPolicy {
    /// Nothing.
    #[default]
    None,
    /// Nothing of it starts or grows. What runs goes on, with its repairs, its retries and its moves.
    Hold,
    /// What runs is stopped, too, and waits.
    HoldAndDrain,
}

impl StopPolicy {
    /// Its word.
    pub fn name(self) -> &'static str {
        STOP_POLICIES.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    /// Why nothing of `queue` starts, as people read it. Not of [`StopPolicy::None`].
    pub fn reason(self, queue: &str) -> String {
        format!("queue {queue} is held (stopPolicy: {})", self.name())
    }
}

/// What the stop policy of its queue does to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStopEvent {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// The policy.
    pub policy: StopPolicy,
    /// Whether what runs of it is stopped; else what was reserved for it is taken back.
    pub stopped: bool,
}

/// The words for [`StopPolicy`].
pub const STOP_POLICIES: [(&str, StopPolicy); 3] =
    [("None", StopPolicy::None), ("Hold", StopPolicy::Hold), ("HoldAndDrain", StopPolicy::HoldAndDrain)];

/// Resources of which a task gets all from one flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceGroup {
    /// The resources; no resource is in two groups of one queue.
    pub covered_resources: Vec<String>,
    /// The flavors, the one to be tried first first. Each gives quota for every covered resource.
    pub flavors: Vec<FlavorQuota>,
}

impl ResourceGroup {
    /// Whether a resource is one of those that it covers.
    pub fn covers(&self, resource: &str) -> bool {
        self.covered_resources.iter().any(|covered| covered == resource)
    }
}

/// The quota for one flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorQuota {
    /// The name of the flavor. One that the cell does not know suits no job.
    pub name: String,
    /// The quota by resource.
    pub resources: BTreeMap<String, ResourceQuota>,
}

/// The quota for one resource of one flavor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceQuota {
    /// Own room.
    pub nominal: i64,
    /// How much may be borrowed from the cohort; nothing is no limit.
    pub borrowing_limit: Option<i64>,
    /// How much may be lent to the cohort; nothing is everything.
    pub lending_limit: Option<i64>,
}

/// Which flavor a job gets where several would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorFungibility {
    /// What is done where a flavor suits by borrowing.
    pub when_can_borrow: WhenCan,
    /// What is done where a flavor suits once others were stopped.
    pub when_can_preempt: WhenCan,
    /// What is better where no flavor suits without the one or the other.
    pub preference: FlavorPreference,
}

impl Default for FlavorFungibility {
    /// As in Kueue: the first flavor that suits without stopping anybody, be it by borrowing.
    fn default() -> Self {
        let (when_can_borrow, when_can_preempt) = (WhenCan::MayStopSearch, WhenCan::TryNextFlavor);
        FlavorFungibility { when_can_borrow, when_can_preempt, preference: FlavorPreference::default() }
    }
}

/// What is better: a flavor for which is borrowed, or one for which others are stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlavorPreference {
    /// Borrowing.
    #[default]
    BorrowingOverPreemption,
    /// Stopping others.
    PreemptionOverBorrowing,
}

/// The words for [`FlavorPreference`].
pub const FLAVOR_PREFERENCES: [(&str, FlavorPreference); 2] = [
    ("BorrowingOverPreemption", FlavorPreference::BorrowingOverPreemption),
    ("PreemptionOverBorrowing", FlavorPreference::PreemptionOverBorrowing),
];

/// Whether the search for a flavor goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenCan {
    /// It may stop with this one.
    #[default]
    MayStopSearch,
    /// The next ones are tried first.
    TryNextFlavor,
}

/// The words for [`WhenCan`].
pub const WHEN_CAN: [(&str, WhenCan); 2] =
    [("MayStopSearch", WhenCan::MayStopSearch), ("TryNextFlavor", WhenCan::TryNextFlavor)];

/// A kind of machines for which quota is given: spot or on demand, one model of GPU or another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceFlavor {
    /// Unique in the cell.
    pub name: String,
    /// Labels that its nodes have. Tasks that get the flavor are placed on such nodes only.
    pub node_labels: Labels,
    /// Taints that its nodes have. Only jobs that tolerate them, or flavors that do, suit.
    pub node_taints: Vec<Taint>,
    /// What tasks that get the flavor tolerate besides.
    pub tolerations: Vec<Toleration>,
}

/// Whom jobs of a queue may stop where they lack quota or room, and by whom they may be stopped. Nobody under the same
/// root, unless it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePreemption {
    /// Jobs of the same queue.
    pub within_cluster_queue: PreemptionPolicy,
    /// Jobs of other queues under the same root that use more than their own.
    pub reclaim_within_cohort: PreemptionPolicy,
    /// Jobs of other queues, also while the queue itself borrows. Without fair sharing only.
    pub borrow_within_cohort: BorrowWithinCohort,
    /// Whether more important jobs from outside the root may stop jobs of this queue for room even while it uses no
    /// more than its own: `LowerPriority` or `Never`.
    pub outside_root: PreemptionPolicy,
}

/// Which jobs may be stopped, beside the one that needs what they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionPolicy {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those of lower priority, and younger ones of the same. Within a queue only.
    LowerOrNewerEqualPriority,
    /// All. Of other queues only.
    Any,
}

impl PreemptionPolicy {
    /// Whether it may be said of jobs of the same queue.
    pub fn is_within_queue(self) -> bool {
        self != PreemptionPolicy::Any
    }

    /// Whether it may be said of jobs of other queues.
    pub fn is_within_cohort(self) -> bool {
        self != PreemptionPolicy::LowerOrNewerEqualPriority
    }

    /// Whether it may be said of jobs from outside the root.
    pub fn is_outside_root(self) -> bool {
        matches!(self, PreemptionPolicy::Never | PreemptionPolicy::LowerPriority)
    }
}

/// The words for [`PreemptionPolicy`].
pub const PREEMPTION_POLICIES: [(&str, PreemptionPolicy); 4] = [
    ("Never", PreemptionPolicy::Never),
    ("LowerPriority", PreemptionPolicy::LowerPriority),
    ("LowerOrNewerEqualPriority", PreemptionPolicy::LowerOrNewerEqualPriority),
    ("Any", PreemptionPolicy::Any),
];

/// Whether a queue that borrows may stop jobs of other queues that do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorrowWithinCohort {
    /// Whether those of lower priority may be stopped; else none.
    pub lower_priority: bool,
    /// Those above this priority are not.
    pub max_priority_threshold: Option<i32>,
}

/// The name of the one [`Scheduling`] of a cell.
pub const SCHEDULING_NAME: &str = "default";

/// What holds for all queues of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// How borrowed quota is shared out by weight; nothing where it is not.
    pub fair_sharing: Option<FairSharing>,
}

/// Borrowed quota is shared out by weight: who stops whom is decided by shares, and so is whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairSharing {
    /// When a job may stop one of another queue, the first rule first. One or two.
    pub preemption_strategies: Vec<ShareRule>,
}

impl FairSharing {
    /// Whether there are one or two rules, and no rule twice.
    pub fn is_sound(&self) -> bool {
        match self.preemption_strategies[..] {
            [_] => true,
            [first, second] => first != second,
            _ => false,
        }
    }
}

impl Default for FairSharing {
    /// Both rules, as in Kueue.
    fn default() -> Self {
        let preemption_strategies = vec![ShareRule::LessThanOrEqualToFinalShare, ShareRule::LessThanInitialShare];
        FairSharing { preemption_strategies }
    }
}

/// What the share of the preemptor's side, with its job, must be beside that of the victim's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareRule {
    /// At most what is left to the victim's side.
    LessThanOrEqualToFinalShare,
    /// Less than what the victim's side had.
    LessThanInitialShare,
}

/// The words for [`ShareRule`].
pub const SHARE_RULES: [(&str, ShareRule); 2] = [
    ("LessThanOrEqualToFinalShare", ShareRule::LessThanOrEqualToFinalShare),
    ("LessThanInitialShare", ShareRule::LessThanInitialShare),
];
