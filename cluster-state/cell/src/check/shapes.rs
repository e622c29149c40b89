//! What must hold of shapes: each is counted once for every group, live run and kept run that has it.

use crate::cell::Cell;
use ohm_model::ShapeId;
use std::collections::BTreeMap;

impl Cell {
    pub(super) fn check_shapes(&self, broken: &mut Vec<String>) {
        let mut users: BTreeMap<ShapeId, u32> = BTreeMap::new();
        let groups = self.jobs.iter().flat_map(|job| &job.groups).map(|group| group.shape);
        let runs = self.runs.iter().map(|(_, run)| run.shape);
        let kept = self.kept.iter().map(|(_, kept)| kept.shape);
        groups.chain(runs).chain(kept).for_each(|shape| *users.entry(shape).or_insert(0) += 1);
        for (shape, counted) in &users {
            let known = self.shapes.users(*shape);
            if known != *counted {
                broken.push(format!("shape {shape}: {known} users are counted, it has {counted}"));
            }
        }
        if users.len() != self.shapes.len() {
            broken.push(format!("{} shapes are kept, {} are in use", self.shapes.len(), users.len()));
        }
    }
}
