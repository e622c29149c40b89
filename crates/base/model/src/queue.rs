//! Queues and cohorts: who may use how much.

use crate::resources::Amounts;
use serde::{Deserialize, Serialize};

/// A queue or a cohort: one node of the quota tree. Jobs name queues; cohorts only join queues together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Unique in the cell among queues and cohorts.
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
    /// Share among siblings in units of one thousandth; 1000 is one.
    pub weight_milli: u32,
    /// Names of the provisioning classes that must say yes before a job of this queue is placed; none for a cohort.
    pub admission_checks: Vec<String>,
}
