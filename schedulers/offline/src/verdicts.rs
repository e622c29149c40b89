//! What keeps a job away from each node, by the rules that the log judges by: asked before the job is planned.

use crate::answer::{NodeMiss, NodeVerdict};
use crate::scores;
use crate::world::World;
use ohm_cell::{Job, NodeRecord, Overlay};
use ohm_framework::{Miss, miss_words};
use ohm_model::{GroupIndex, JobId, NodeId, ResourceId};
use ohm_placement::Subject;
use std::collections::BTreeMap;
use std::sync::Arc;

/// For each group of `job` the verdict of every node, in the order of the nodes.
pub(crate) fn of_job(world: &World, job: JobId) -> Vec<Vec<NodeVerdict>> {
    let Some(job) = world.job(job) else { return Vec::new() };
    (0..job.groups.len()).map(|group| of_group(world, job, group)).collect()
}

/// A node takes the group if it does with any of the flavors that the queue offers; else the first offer says why not.
fn of_group(world: &World, job: &Job, group: usize) -> Vec<NodeVerdict> {
    let over = Overlay::default();
    let Some(asked) = Subject::new(world.view(&over), job, GroupIndex(group as u16)) else { return Vec::new() };
    let shapes = job.groups[group].offers().iter().filter_map(|id| Some((*id, world.cell.shapes().get(*id)?)));
    let offered: Vec<Subject<'_>> = shapes.map(|(shape_id, shape)| Subject { shape_id, shape, ..asked }).collect();
    let offered = if offered.is_empty() { vec![asked] } else { offered };
    let verdict = |(node, record): (NodeId, &Arc<NodeRecord>)| {
        let misses: Option<Vec<Miss>> = offered.iter().map(|subject| subject.first_miss(node)).collect();
        let first = misses.and_then(|misses| misses.into_iter().next());
        let reason = first.map(|miss| told(world, &offered[0], (node, record), miss));
        let (node, fits) = (record.spec.name.clone(), reason.is_none());
        NodeVerdict { node, fits, reason, scores: BTreeMap::new(), total: None }
    };
    let mut verdicts: Vec<NodeVerdict> = world.cell.nodes().iter().map(verdict).collect();
    scores::add(world, job, group, &mut verdicts);
    verdicts
}

/// What a miss says. What others take is left out of what the cell knows of a node: it would be there without them. The
/// first rule that is in the way says why there is no room; of what else a task lacks, no amount may be more than the
/// node has.
fn told(world: &World, subject: &Subject<'_>, (node, record): (NodeId, &NodeRecord), miss: Miss) -> NodeMiss {
    let used = world.facts.used.get(&record.spec.name);
    let used = |resource| used.and_then(|used| used.get(world.cell.resources().name(resource))).copied().unwrap_or(0);
    let has = |(resource, amount): &(ResourceId, i64)| {
        world.cell.nodes().capacity(node, *resource).saturating_add(used(*resource)) >= *amount
    };
    let could_be = subject.shape.requests.iter().all(has);
    let miss = match miss {
        Miss::Capacity(resource) if could_be => Miss::Resource(resource),
        miss => miss,
    };
    let message = miss_words(&world.cell, &miss, true);
    NodeMiss { filter: miss.filter(), resolvable: could_be && miss.is_resolvable(), message }
}
