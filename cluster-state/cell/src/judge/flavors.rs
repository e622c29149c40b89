//! Judging the flavors that a transaction chooses: the queue offers them to the group, nothing of the job stands or is
//! reserved, and groups that are placed together have the same ones.

use crate::cell::Cell;
use crate::state::jobs::{Group, Job};
use crate::state::offers::flavors_by_group;
use crate::state::shapes::Shape;
use ohm_model::{ConflictReason, FlavorChoice, JobId, Transaction};
use std::sync::Arc;

/// What the choices of a transaction come to.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The jobs with the flavors that are chosen for them, where those are others than they have.
    jobs: Vec<Arc<Job>>,
    /// The choices that are refused, and their jobs.
    pub(super) refused: Vec<(u32, JobId)>,
}

impl Chosen {
    pub(super) fn of(cell: &Cell, transaction: &Transaction) -> Chosen {
        let (choices, mut chosen) = (&transaction.flavors, Chosen::default());
        for (row, choice) in choices.iter().enumerate() {
            let named = choices[..row].iter().any(|other| (other.job, other.group) == (choice.job, choice.group));
            if named || !is_offered(cell, choice) {
                chosen.refused.push((row as u32, choice.job));
            }
        }
        for guard in transaction.jobs.iter().filter(|_| !choices.is_empty()) {
            let Some(job) = cell.jobs.get(guard.job).and_then(|job| job.with_flavors(choices)) else { continue };
            if shares_flavors(cell, &job) {
                chosen.jobs.push(Arc::new(job));
            } else {
                let rows = choices.iter().enumerate().filter(|(_, choice)| choice.job == job.id);
                chosen.refused.extend(rows.map(|(row, choice)| (row as u32, choice.job)));
            }
        }
        chosen.refused.sort_unstable();
        chosen.refused.dedup();
        chosen
    }

    /// The job with what is chosen for it.
    #[inline]
    pub(super) fn job<'a>(&'a self, job: &'a Arc<Job>) -> Result<&'a Arc<Job>, ConflictReason> {
        if self.refused.iter().any(|(_, refused)| *refused == job.id) {
            return Err(ConflictReason::FlavorMissing);
        }
        Ok(self.jobs.iter().find(|chosen| chosen.id == job.id).unwrap_or(job))
    }
}

fn is_offered(cell: &Cell, choice: &FlavorChoice) -> bool {
    let Some(job) = cell.jobs.get(choice.job) else { return false };
    let group = job.groups.get(usize::from(choice.group.0));
    job.may_choose_flavors() && group.is_some_and(|group| group.offers.contains(&choice.shape))
}

/// Whether groups that are placed together have one flavor for what a resource group covers.
fn shares_flavors(cell: &Cell, job: &Job) -> bool {
    let Some(queue) = cell.quota.get(&job.spec.queue) else { return true };
    let flavors = |at: usize| cell.shape_of(job, at).map(|shape| flavors_by_group(cell, &queue.spec, shape));
    (0..job.groups.len()).all(|at| {
        let leader = job.domain_leader(at);
        let (Some(own), Some(others)) = (flavors(at), flavors(leader)) else { return true };
        leader == at || own.iter().zip(&others).all(|(own, other)| own.is_none() || other.is_none() || own == other)
    })
}

/// Whether a group needs a flavor and has none that its queue offers.
#[inline]
pub(super) fn lacks_flavor(job: &Job, group: &Group, shape: &Shape) -> bool {
    let is_stale = || job.may_choose_flavors() && !group.offers.contains(&group.shape);
    shape.unsuited || (!group.offers.is_empty() && is_stale())
}
