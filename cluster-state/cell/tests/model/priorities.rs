//! Priority classes in the plain model.

use crate::state::Plain;
use ohm_model::{JobId, JobSpec};

impl Plain {
    pub(crate) fn put_priority_class(&mut self, name: &str, value: i32) -> bool {
        *self.priority_classes.entry(name.to_string()).or_insert(value) == value
    }

    /// The job as the cell keeps it; nothing when its class is not known.
    pub(crate) fn with_priority(&self, spec: &JobSpec, known: Option<JobId>) -> Option<JobSpec> {
        let class = &spec.priority_class;
        let known = known.map(|job| &self.jobs[&job].spec).filter(|known| known.priority_class == *class);
        let priority = match (class.is_empty(), known) {
            (true, _) => spec.priority,
            (false, Some(known)) => known.priority,
            (false, None) => *self.priority_classes.get(class)?,
        };
        Some(JobSpec { priority, ..spec.clone() })
    }
}
