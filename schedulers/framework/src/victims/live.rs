//! The jobs that stand, by priority: so that whoever looks for less important ones walks over no others. It is made
//! when somebody looks for the first time, and costs nothing where nobody does.

use super::nodes::{Bound, NodeOrders, may_shrink};
use ohm_cell::{Cell, Job, Run, live_runs};
use ohm_model::{JobId, NodeId, ShapeId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The place of a job among those of its priority: whoever has the youngest run comes first. With the stamped time at
/// which that was placed, in milliseconds.
pub(crate) type Youngest = Reverse<(u64, JobId)>;

/// What was known of a job when it was looked at last.
#[derive(Clone, Copy, Debug)]
struct Known {
    priority: i32,
    preemptible: bool,
    place: Youngest,
}

/// The jobs of which something stands.
#[derive(Clone, Debug, Default)]
pub struct LiveJobs {
    by_priority: BTreeMap<i32, BTreeSet<Youngest>>,
    known: BTreeMap<JobId, Known>,
    nodes: NodeOrders,
    /// Those that start whole and have more than they need.
    elastic: BTreeSet<JobId>,
    /// Those of which something stops.
    stopping: BTreeSet<JobId>,
    /// Jobs that changed since the last look.
    changed: BTreeSet<JobId>,
    is_made: bool,
}

impl LiveJobs {
    /// All of `cell`.
    pub fn of(cell: &Cell) -> Self {
        let mut live = LiveJobs::default();
        live.bring_up(cell);
        live
    }

    /// These jobs changed, and what stands on these nodes.
    pub fn changed(&mut self, jobs: &BTreeSet<JobId>, nodes: &BTreeSet<NodeId>) {
        if self.is_made {
            self.changed.extend(jobs);
            self.nodes.changed(nodes.iter().copied());
        }
    }

    /// Everything is other than before.
    pub(crate) fn reset(&mut self) {
        *self = LiveJobs::default();
    }

    /// Takes note of what has changed.
    pub fn bring_up(&mut self, cell: &Cell) {
        if !std::mem::replace(&mut self.is_made, true) {
            cell.jobs().iter().for_each(|job| note(self, cell, job));
        }
        for id in std::mem::take(&mut self.changed) {
            match cell.jobs().get(id) {
                Some(job) => note(self, cell, job),
                None => forget(self, id),
            }
        }
    }

    /// The jobs of a lower priority than this with theirs, the least important ones first, of these the youngest.
    pub(crate) fn less_important(&self, priority: i32) -> impl Iterator<Item = (i32, Youngest)> + '_ {
        let levels = self.by_priority.range(..priority);
        levels.flat_map(|(priority, jobs)| jobs.iter().map(move |job| (*priority, *job)))
    }

    /// The nodes on which a task of this shape finds room once others have stopped, where the least important have to
    /// first.
    pub(crate) fn nodes_for(&mut self, cell: &Cell, shape: ShapeId) -> impl Iterator<Item = (Bound, NodeId)> + '_ {
        self.nodes.of(cell, shape)
    }

    /// The jobs that start whole and may shrink.
    pub(crate) fn elastic(&self) -> impl Iterator<Item = JobId> + '_ {
        self.elastic.iter().copied()
    }

    /// The runs that stop already.
    pub(crate) fn stopping<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Run> {
        let jobs = self.stopping.iter().filter_map(|id| cell.jobs().get(*id));
        jobs.flat_map(|job| live_runs(cell, job)).filter(|run| run.stop.is_some())
    }

    /// Whether somebody may be less important, as far as is known.
    pub(crate) fn may_have_below(&self, priority: i32) -> bool {
        !self.is_made || !self.none_below(priority)
    }

    /// Whether nobody is less important.
    pub(crate) fn none_below(&self, priority: i32) -> bool {
        self.by_priority.range(..priority).next().is_none()
    }
}

fn note(live: &mut LiveJobs, cell: &Cell, job: &Job) {
    let may_shrink = may_shrink(job);
    let is_as_known = live.known.get(&job.id).is_none_or(|known| {
        let as_before = (known.priority, known.preemptible) == (job.spec.priority, job.spec.preemptible);
        as_before && live.elastic.contains(&job.id) == may_shrink
    });
    if !is_as_known && !live.nodes.is_empty() {
        // The bounds of nodes on which nothing has changed are others now.
        live.nodes.changed(live_runs(cell, job).map(|run| run.node));
    }
    forget(live, job.id);
    let Some(latest_ms) = live_runs(cell, job).map(|run| run.placed_ms).max() else { return };
    let (priority, preemptible, place) = (job.spec.priority, job.spec.preemptible, Reverse((latest_ms, job.id)));
    live.by_priority.entry(priority).or_default().insert(place);
    live.known.insert(job.id, Known { priority, preemptible, place });
    if may_shrink {
        live.elastic.insert(job.id);
    }
    if job.groups.iter().any(|group| group.stopping > 0) {
        live.stopping.insert(job.id);
    }
}

fn forget(live: &mut LiveJobs, id: JobId) {
    live.stopping.remove(&id);
    live.elastic.remove(&id);
    let Some(Known { priority, place, .. }) = live.known.remove(&id) else { return };
    if let Some(jobs) = live.by_priority.get_mut(&priority) {
        jobs.remove(&place);
        if jobs.is_empty() {
            live.by_priority.remove(&priority);
        }
    }
}
