//! How many jobs wait in queues that bound them (`maxWaitingJobs`). Derived from the jobs and the queues.
//!
//! A job waits while nothing of it has a live run and it is not over: suspended ones do, too, and so do those that
//! back off.

use crate::state::job_store::Jobs;
use crate::state::jobs::{Job, JobState};
use crate::state::quota::Quota;
use ohm_model::JobId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The jobs that wait in bounded queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    jobs: Arc<BTreeMap<JobId, String>>,
    counts: Arc<BTreeMap<String, u32>>,
}

impl Waiting {
    /// What jobs and queues say.
    pub(crate) fn of(jobs: &Jobs, quota: &Quota) -> Self {
        let mut waiting = Waiting::default();
        jobs.iter().for_each(|job| waiting.set(job.id, bounded_queue(job, quota)));
        waiting
    }

    /// How many wait in a bounded queue.
    pub(crate) fn count(&self, queue: &str) -> u32 {
        self.counts.get(queue).copied().unwrap_or(0)
    }

    /// The job waits in this bounded queue, or in none.
    pub(crate) fn set(&mut self, job: JobId, queue: Option<&str>) {
        let known = self.jobs.get(&job).map(String::as_str);
        if known == queue {
            return;
        }
        let (jobs, counts) = (Arc::make_mut(&mut self.jobs), Arc::make_mut(&mut self.counts));
        if let Some(former) = jobs.remove(&job)
            && let Some(count) = counts.get_mut(&former)
        {
            *count -= 1;
            if *count == 0 {
                counts.remove(&former);
            }
        }
        if let Some(queue) = queue {
            *counts.entry(queue.to_string()).or_default() += 1;
            jobs.insert(job, queue.to_string());
        }
    }
}

/// The queue in which the job waits, where that bounds how many do.
pub(crate) fn bounded_queue<'j>(job: &'j Job, quota: &Quota) -> Option<&'j str> {
    let waits = !matches!(job.state, JobState::Finished(_)) && job.live() == 0;
    let queue = waits.then_some(job.spec.queue.as_str())?;
    quota.get(queue).filter(|node| node.spec.max_waiting_jobs > 0).map(|_| queue)
}
