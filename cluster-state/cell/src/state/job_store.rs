//! All jobs that the cell remembers, by key and by name.

use crate::state::jobs::Job;
use ohm_model::{JobId, NodeId};
use ohm_stdx::{ChunkedMap, Slab};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All jobs the cell remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    slab: Slab<Arc<Job>>,
    /// Derived from the jobs.
    #[serde(skip)]
    by_name: ChunkedMap<JobId>,
    /// The jobs for which a node is unhealthy. Derived from the jobs.
    #[serde(skip)]
    by_unhealthy: BTreeMap<NodeId, BTreeSet<JobId>>,
}

impl Jobs {
    /// The job with this key, while the cell remembers it.
    pub fn get(&self, job: JobId) -> Option<&Arc<Job>> {
        (self.slab.generation(job.slot())? == job.generation()).then(|| self.slab.get(job.slot()))?
    }

    /// The job called `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<Job>> {
        self.get(*self.by_name.get(name)?)
    }

    /// All jobs by slot.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.slab.iter().map(|(_, job)| job)
    }

    /// How many jobs the cell remembers.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Takes a new job in, and gives it its key.
    pub(crate) fn insert(&mut self, job: Job) -> JobId {
        let name = Arc::clone(&job.spec);
        let (slot, generation) = self.slab.insert(Arc::new(job));
        let id = JobId::new(slot, generation);
        self.get_mut(id).expect("the job was inserted").id = id;
        self.by_name.insert(&name.name, id);
        id
    }

    pub(crate) fn remove(&mut self, job: JobId) {
        if let Some(gone) = self.slab.remove(job.slot()) {
            self.by_name.remove(&gone.spec.name);
        }
    }

    /// The jobs for which `node` is unhealthy.
    pub(crate) fn with_unhealthy(&self, node: NodeId) -> impl Iterator<Item = JobId> + '_ {
        self.by_unhealthy.get(&node).into_iter().flatten().copied()
    }

    pub(crate) fn note_unhealthy(&mut self, node: NodeId, job: JobId) {
        self.by_unhealthy.entry(node).or_default().insert(job);
    }

    /// `node` is gone: returns the jobs for which it was unhealthy.
    pub(crate) fn take_unhealthy(&mut self, node: NodeId) -> BTreeSet<JobId> {
        self.by_unhealthy.remove(&node).unwrap_or_default()
    }

    pub(super) fn slab(&self) -> &Slab<Arc<Job>> {
        &self.slab
    }

    pub(super) fn from_slab(slab: Slab<Arc<Job>>) -> Self {
        let mut jobs = Jobs { slab, ..Jobs::default() };
        for (_, job) in jobs.slab.iter() {
            jobs.by_name.insert(&job.spec.name, job.id);
            for node in job.repairs.unhealthy.iter().filter_map(|entry| entry.node) {
                jobs.by_unhealthy.entry(node).or_default().insert(job.id);
            }
        }
        jobs
    }

    pub(crate) fn forget_unhealthy(&mut self, node: NodeId, job: JobId) {
        if let Some(jobs) = self.by_unhealthy.get_mut(&node) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.by_unhealthy.remove(&node);
            }
        }
    }

    pub(crate) fn get_mut(&mut self, job: JobId) -> Option<&mut Job> {
        if self.slab.generation(job.slot())? != job.generation() {
            return None;
        }
        self.slab.get_mut(job.slot()).map(Arc::make_mut)
    }
}
