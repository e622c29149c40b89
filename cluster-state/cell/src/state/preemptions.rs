//! Preemptions for quota under way: who waits for whom to stop. See `policy/preemptions.rs`.

use ohm_model::{Index, JobId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs were told to stop for one that lacks the quota that they have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// The entry that told them.
    pub since: Index,
    /// The quota is kept until then at most, in stamped time.
    pub until_ms: u64,
    /// The version of the job that waits: with another one it is not the job that they were told for.
    pub version: Index,
    /// Who was told. One of them that has ended and stands again holds its quota by itself.
    pub victims: BTreeSet<JobId>,
}

/// The preemptions of a cell by the job that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemptions {
    by_job: BTreeMap<JobId, Preemption>,
}

impl Preemptions {
    /// What the job waits for.
    pub fn get(&self, job: JobId) -> Option<&Preemption> {
        self.by_job.get(&job)
    }

    /// All of them, by the job that waits.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (JobId, &Preemption)> {
        self.by_job.iter().map(|(job, preemption)| (*job, preemption))
    }

    /// Whether anybody waits for this job to stop.
    pub(crate) fn stops(&self, job: JobId) -> bool {
        self.by_job.values().any(|preemption| preemption.victims.contains(&job))
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }

    pub(crate) fn put(&mut self, job: JobId, preemption: Preemption) {
        self.by_job.insert(job, preemption);
    }

    pub(crate) fn remove(&mut self, job: JobId) -> Option<Preemption> {
        self.by_job.remove(&job)
    }
}
