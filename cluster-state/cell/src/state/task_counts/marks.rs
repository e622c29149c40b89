//! By what rules mean the tasks of a group: its namespace and its labels. Groups with the same have the same number.

use super::counter::CounterId;
use ohm_model::selector::Labels;
use ohm_model::{GroupIndex, JobId, JobSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MarksId(pub(super) u32);

/// What groups of one namespace with the same labels have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(super) namespace: String,
    pub(super) labels: Labels,
    pub(super) groups: BTreeSet<(JobId, GroupIndex)>,
    /// The counters that count their tasks.
    pub(crate) counted: BTreeSet<CounterId>,
    /// The counters of tasks that must not be near theirs.
    pub(crate) repelled: BTreeSet<CounterId>,
    /// The counters of tasks that like to be near theirs, by weight, or below zero don't.
    pub(crate) liked: BTreeMap<CounterId, i32>,
}

/// The marks of the groups of a job.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    /// The job as it was asked for when they were looked up.
    pub(super) spec: Arc<JobSpec>,
    pub(super) groups: Vec<MarksId>,
}

impl Marked {
    pub(super) fn marks(&self, group: GroupIndex) -> Option<MarksId> {
        self.groups.get(usize::from(group.0)).copied()
    }
}
