//! What a job or a plan costs its queue: the largest of its shares in what the nodes of the cell have (dominant share,
//! Ghodsi et al. 2011).

use crate::plan::PlannedJob;
use ohm_cell::{Cell, Job};
use ohm_model::{GroupIndex, JobId, ResourceId};
use ohm_queueing::WHOLE;

/// What all nodes have together, as it was when it was counted last.
#[derive(Clone, Debug, Default)]
pub struct CellSize {
    capacity: Vec<i64>,
}

impl CellSize {
    /// Costs a pass over all nodes.
    pub fn of(cell: &Cell) -> Self {
        let resources = u16::try_from(cell.resources().len()).unwrap_or(u16::MAX);
        let of_all = |resource| {
            let capacities = cell.nodes().iter().map(|(node, _)| cell.nodes().capacity(node, resource).max(0));
            capacities.fold(0, i64::saturating_add)
        };
        CellSize { capacity: (0..resources).map(ResourceId).map(of_all).collect() }
    }

    /// Whether no node was there.
    pub(crate) fn is_empty(&self) -> bool {
        self.capacity.iter().all(|amount| *amount == 0)
    }

    /// The largest share that is asked for, in parts of [`WHOLE`]. Nothing is for nothing.
    fn share(&self, asked: impl Fn(ResourceId) -> i64) -> u64 {
        let share_of = |(resource, all): (usize, &i64)| {
            let amount = asked(ResourceId(resource as u16)).max(0).unsigned_abs();
            let share = u128::from(WHOLE) * u128::from(amount) / u128::from(all.unsigned_abs());
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let present = self.capacity.iter().enumerate().filter(|(_, all)| **all > 0);
        present.map(share_of).max().unwrap_or(0).max(1)
    }

    /// The share of so many tasks of these groups together. It is asked for each job that is taken and each plan, and
    /// allocates nothing.
    fn share_of(&self, cell: &Cell, job: &Job, counts: impl Iterator<Item = (GroupIndex, u32)> + Clone) -> u64 {
        self.share(|resource| {
            let of_group = |(group, count): (GroupIndex, u32)| {
                let shape = cell.shape_of(job, usize::from(group.0))?;
                let request = shape.requests.iter().find(|(asked, _)| *asked == resource)?;
                Some(request.1.saturating_mul(i64::from(count)))
            };
            counts.clone().filter_map(of_group).fold(0, i64::saturating_add)
        })
    }

    /// What so many tasks of a group take.
    pub(crate) fn cost_of_tasks(&self, cell: &Cell, job: &Job, tasks: (GroupIndex, u32)) -> u64 {
        self.share_of(cell, job, std::iter::once(tasks))
    }

    /// What `job` asks for now.
    pub fn cost_of_job(&self, cell: &Cell, job: JobId) -> u64 {
        let Some(job) = cell.jobs().get(job) else { return 0 };
        let waits = job.groups.iter().map(|group| group.pending.len());
        let spares = (0..job.groups.len()).map(|group| job.spares_missing(group));
        let counts = waits.zip(spares).map(|(waits, spares)| if waits > 0 { waits } else { spares });
        let counts = counts.enumerate().map(|(group, count)| (GroupIndex(group as u16), count));
        self.share_of(cell, job, counts)
    }

    /// What a plan takes: its placements and spares, or the whole request that it reserves.
    pub(crate) fn cost_of_plan(&self, cell: &Cell, planned: &PlannedJob) -> u64 {
        let Some(job) = cell.jobs().get(planned.job.job) else { return 0 };
        if planned.reserve {
            let columns = cell.quota().columns();
            let missing = cell.missing_request(job);
            let of = |resource| missing.iter().filter(move |(column, _)| columns.resource(**column) == resource);
            return self.share(|resource| of(resource).map(|(_, amount)| *amount).sum());
        }
        let places = planned.place.iter().map(|row| (row.group, row.count));
        let spares = planned.nominate.iter().filter(|room| room.is_spare()).map(|room| (room.group, room.count));
        self.share_of(cell, job, places.chain(spares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_share_counts() {
        let size = CellSize { capacity: vec![1000, 64_000, 0] };
        let share = |amounts: &[(u16, i64)]| {
            size.share(|asked| {
                amounts.iter().find(|(resource, _)| *resource == asked.0).map_or(0, |(_, amount)| *amount)
            })
        };
        assert_eq!(share(&[(0, 10), (1, 32_000)]), WHOLE / 2);
        assert_eq!(share(&[(0, 100), (1, 640)]), WHOLE / 10);
        assert_eq!(share(&[(0, 5000)]), 5 * WHOLE, "more than there is");
        assert_eq!((share(&[(2, 7), (9, 1)]), share(&[])), (1, 1), "what no node has costs next to nothing");
    }
}
