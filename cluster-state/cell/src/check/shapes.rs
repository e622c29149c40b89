//! What must hold of shapes: each is counted once for every group, offer to one, live run and kept run that has it.

use crate::cell::Cell;
use ohm_model::ShapeId;
use std::collections::BTreeMap;

pub(crate) fn check_shapes(cell: &Cell, broken: &mut Vec<String>) {
    let mut users: BTreeMap<ShapeId, u32> = BTreeMap::new();
    let groups = || cell.jobs.iter().flat_map(|job| &job.groups);
    let offers = groups().flat_map(|group| group.offers.iter().copied());
    let groups = groups().map(|group| group.shape).chain(offers);
    let runs = cell.runs.iter().map(|(_, run)| run.shape);
    let kept = cell.kept.iter().map(|(_, kept)| kept.shape);
    groups.chain(runs).chain(kept).for_each(|shape| *users.entry(shape).or_insert(0) += 1);
    for (shape, counted) in &users {
        let known = cell.shapes.users(*shape);
        if known != *counted {
            broken.push(format!("shape {shape}: {known} users are counted, it has {counted}"));
        }
    }
    if users.len() != cell.shapes.len() {
        broken.push(format!("{} shapes are kept, {} are in use", cell.shapes.len(), users.len()));
    }
}
