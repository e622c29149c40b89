//! Priority classes in the plain model.

use crate::state::Plain;
use ohm_model::{JobId, JobSpec};

impl Plain {
    pub(crate) fn put_priority_class(&mut self, name: &str, value: i32) -> bool {
        *self.priority_classes.entry(name.to_string()).or_insert(value) == value
    }

    /// The job as the cell keeps it; nothing when its class is not known.
    pub(crate) fn with_priority(&self, spec: &JobSpec, known: Option<JobId>) -> Option<JobSpec> {
        let known = known.map(|job| &self.jobs[&job].spec);
        // Whoever says nothing of its priority keeps the class that it has.
        let kept = known.filter(|_| spec.priority_class.is_empty() && spec.priority == 0);
        let class = kept.map_or(&spec.priority_class, |known| &known.priority_class);
        let known = known.filter(|known| known.priority_class == *class);
        let priority = match (class.is_empty(), known) {
            (true, _) => spec.priority,
            (false, Some(known)) => known.priority,
            (false, None) => *self.priority_classes.get(class)?,
        };
        Some(JobSpec { priority, priority_class: class.clone(), ..spec.clone() })
    }
}
