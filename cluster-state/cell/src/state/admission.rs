//! Two-phase admission: what a job of a queue with checks remembers while nodes are provisioned for it.
//!
//! ```text
//!              pass one: quota reserved            all checks ready              pass two: placed
//!   Unreserved ───────────────────────▶ Checking ──────────────────▶ Ready ──────────────────────▶ Ready, admitted
//!     ▲    ▲                              │ │                          │                                 │
//!     │    └──────── BackOff ◀── a check failed, or its booking ended ─┘                                 │
//!     │                                   └─ failed too often ─▶ the job is suspended ◀── capacity revoked ─┘
//!     └── resumed
//! ```
//! The arrow into `Checking` opens a round. Whatever ends the reservation ends the round, in the entry that says so:
//! end, suspension, update and eviction of the job, a failed check. A round asks each class once, so that (job, round,
//! class) names a request; another attempt is another round. What a check that is ready says of nodes holds while its
//! round does: the job's groups have other shapes then, so that planners and the judge look at the same filters.

use ohm_model::brought::request_toleration;
use ohm_model::selector::Labels;
use ohm_model::{Index, StopPolicy, Toleration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a check has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CheckState {
    /// Asked for.
    Pending,
    /// The nodes are there.
    Ready,
}

/// One check of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The provisioning class.
    pub class: String,
    /// The label of the nodes that are brought for it; see `ohm_model::brought::request_label`.
    pub request: String,
    /// What it has come to.
    pub state: CheckState,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What the outside said last; possibly empty.
    pub message: String,
    /// Stamped time of the state.
    pub since_ms: u64,
    /// Labels that the job's nodes must have besides, once it is ready.
    pub node_selector: Labels,
    /// Taints the job may run on besides, once it is ready.
    pub tolerations: Vec<Toleration>,
}

/// An admission under way, or the one that the job runs under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The entry that reserved the quota.
    pub since: Index,
    /// Stamped time of it.
    pub since_ms: u64,
    /// Whether something was placed in it.
    pub admitted: bool,
    /// Who was asked, in the order of the queue.
    pub checks: Vec<Check>,
}

impl Round {
    /// Whether every check is ready.
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.state == CheckState::Ready)
    }
}

/// A check that ended a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCheck {
    /// The provisioning class.
    pub class: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What the outside said; possibly empty.
    pub message: String,
}

/// The admissions of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// How many rounds were ever opened; the number of the open one.
    pub rounds: u32,
    /// The open one.
    pub round: Option<Round>,
    /// The next one begins at this stamped time; 0 is at once.
    pub back_off_ms: u64,
    /// How often each class has failed since the job was last admitted, submitted or resumed.
    pub failures: BTreeMap<String, u32>,
    /// What ended the last round, if a check did.
    pub failed: Option<FailedCheck>,
}

/// How far the admission of an active job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody is asked: it is placed as it comes.
    Free,
    /// It can't be asked for now, and why; the job waits.
    Invalid(String),
    /// A check failed; the next round begins at this stamped time.
    BackOff(u64),
    /// Waits for its quota.
    Unreserved,
    /// Its quota is reserved, and some check is not ready.
    Checking,
    /// Every check is ready: it may be placed, and its quota is not asked again.
    Ready,
    /// Its queue is held, by this policy: nothing that waits of it is placed or reserved.
    Held(StopPolicy),
    /// It was not ready in the time that its queue gives: nothing of it is placed or reserved before this stamped time.
    TimedOut(u64),
}

impl Standing {
    /// Whether tasks of the job may be placed.
    pub fn may_place(&self) -> bool {
        matches!(self, Standing::Free | Standing::Ready)
    }
}

impl Admission {
    /// The open round, when every check of it is ready.
    pub fn ready(&self) -> Option<&Round> {
        self.round.as_ref().filter(|round| round.is_ready())
    }

    /// Adds the labels that nodes must have, and the taints that are tolerated, by the checks of a round that is ready,
    /// those of the nodes brought for them too. Where a label is there already, that counts.
    pub(crate) fn add_filters(&self, labels: &mut Labels, tolerations: &mut Vec<Toleration>) {
        for check in self.ready().into_iter().flat_map(|round| &round.checks) {
            for (key, value) in &check.node_selector {
                labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
            let tolerated = check.tolerations.iter().cloned().chain([request_toleration(&check.request)]);
            add_tolerations(tolerations, tolerated);
        }
    }
}

/// Adds those that are not there.
pub(crate) fn add_tolerations(tolerations: &mut Vec<Toleration>, more: impl Iterator<Item = Toleration>) {
    for toleration in more {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}
