//! P6: a finished, cancelled or suspended job is never placed by a late pass.

use crate::history::{Broken, Caused};
use ohm_model::{EventKind, Index, JobId};
use std::collections::BTreeMap;

/// Jobs that must not be placed, and the state they are in.
#[derive(Default)]
pub(crate) struct ClosedJobs {
    closed: BTreeMap<JobId, String>,
}

impl ClosedJobs {
    pub(crate) fn watch(&mut self, index: Index, applied: &Caused, broken: &mut Vec<Broken>) {
        for event in &applied.events {
            match &event.kind {
                EventKind::JobState { job, state, .. } => match state.as_str() {
                    "succeeded" | "failed" | "cancelled" | "suspended" => drop(self.closed.insert(*job, state.clone())),
                    _ => drop(self.closed.remove(job)),
                },
                EventKind::Placed { job, .. } => {
                    if let Some(state) = self.closed.get(job) {
                        broken.push(Broken::new("P6", format!("entry {index} places job {job}, which is {state}")));
                    }
                }
                _ => {}
            }
        }
    }
}
