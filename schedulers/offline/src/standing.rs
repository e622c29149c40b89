//! What stands before anything is planned.

use ohm_model::{JobId, JobSpec, Neighbours};

/// A job as it stands before anything is planned.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) spec: JobSpec,
    pub(crate) asked: bool,
    /// Whether it is a Pod that is bound to its node: it is never planned anew.
    pub(crate) is_bound_pod: bool,
    /// Its key, or why the cell does not take it.
    pub(crate) job: Result<JobId, String>,
    /// How many tasks stood according to the files.
    pub(crate) stood: u32,
    /// How many of them stood on nodes that the files lack.
    pub(crate) gone: u32,
    /// How many of them lost their node otherwise.
    pub(crate) lost: u32,
    /// How many of them leave a node that is drained.
    pub(crate) drained: u32,
    /// Whether the job has become larger or smaller than it stood.
    pub(crate) resized: bool,
}

impl Standing {
    /// How many tasks must stand elsewhere.
    pub(crate) fn displaced(&self) -> u32 {
        self.gone + self.lost + self.drained
    }

    /// Whether finding a place for it again is a repair. Nodes that are gone are none to repair for a job that is
    /// resized: it asks for a new size, nobody for a repair.
    pub(crate) fn is_repair(&self) -> bool {
        self.lost + self.drained > 0 || (self.gone > 0 && !self.resized)
    }
}

/// Lets a bound pod stand whatever stands around it. What it required of the others was looked at when it was placed,
/// and it is never placed anew; whom it does not stand beside is the others' concern, too.
pub(crate) fn let_stand(pod: &mut JobSpec) {
    for group in &mut pod.groups {
        let free = |asked: Neighbours| Neighbours { affinity: Vec::new(), spread: Vec::new(), ..asked };
        let asked = group.neighbours.take().map(|asked| free(*asked));
        group.neighbours = asked.filter(|asked| !asked.is_empty()).map(Box::new);
    }
}
