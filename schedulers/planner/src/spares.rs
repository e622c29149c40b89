//! Telling spares from work in what was planned. A spare is planned as one more task behind those of its group, so
//! whatever holds of a task's place holds of it too.

use ohm_cell::Job;
use ohm_model::{GroupIndex, NodeId, Nomination, Placement, Purpose, TaskIndex};
use std::collections::BTreeMap;

/// How many tasks of `job`, as against spares, have their place in `rows`.
pub(crate) fn work_in(job: &Job, rows: &[Placement]) -> u32 {
    rows.iter().map(|row| split(job, row).0).sum()
}

/// How many of the row's tasks are work, and how many spares.
fn split(job: &Job, row: &Placement) -> (u32, u32) {
    let end = job.groups.get(usize::from(row.group.0)).map_or(0, |group| group.tasks.len() as u32);
    let work = end.saturating_sub(row.first.0).min(row.count);
    (work, row.count - work)
}

/// The rows of tasks that `job` has, and room for those that it has not.
pub(crate) fn into_spares(job: &Job, rows: Vec<Placement>) -> (Vec<Placement>, Vec<Nomination>) {
    let mut rooms: BTreeMap<(GroupIndex, NodeId), u32> = BTreeMap::new();
    let mut placed = Vec::with_capacity(rows.len());
    for mut row in rows {
        let (work, spares) = split(job, &row);
        if spares > 0 {
            *rooms.entry((row.group, row.node)).or_insert(0) += spares;
            let width = row.devices.len() / row.count.max(1) as usize;
            row.devices.truncate(width * work as usize);
            row.count = work;
        }
        if work > 0 {
            placed.push(row);
        }
    }
    let room = |((group, node), count)| {
        let (first, purpose) = (TaskIndex(0), Purpose::Spare);
        Nomination { job: job.id, group, node, first, count, purpose }
    };
    (placed, rooms.into_iter().map(room).collect())
}
