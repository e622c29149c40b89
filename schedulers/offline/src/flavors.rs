//! The flavors of what runs already: those that its Allocations name, or else the first ones whose labels its nodes
//! have.
//!
//! So that it is taken as it is, it is set up while flavors ask nothing of nodes and jobs, and while queues list what
//! their jobs have besides what they list themselves.

use crate::question::{AskedJob, Scene};
use crate::seats::GroupSeats;
use crate::world::World;
use ohm_cell::Shape;
use ohm_model::queue::{FLAVOR_CHOICES_MAX, FLAVORS_MAX};
use ohm_model::{
    FlavorChoice, FlavorQuota, GroupIndex, JobId, QueueSpec, ResourceFlavor, ResourceGroup, ResourceQuota, ShapeId,
};
use std::collections::BTreeMap;

/// Quota that nothing in a file uses up.
const OPEN: ResourceQuota = ResourceQuota { nominal: 1 << 60, borrowing_limit: None, lending_limit: None };

/// The flavor without what it asks of nodes and jobs.
pub(crate) fn bare(flavor: &ResourceFlavor) -> ResourceFlavor {
    let (name, tolerations) = (flavor.name.clone(), flavor.tolerations.clone());
    ResourceFlavor { name, tolerations, ..ResourceFlavor::default() }
}

/// The resource groups of a queue with room for everything, and with the flavors that its jobs have already.
pub(crate) fn open_groups(scene: &Scene, queue: &QueueSpec) -> Vec<ResourceGroup> {
    let mut groups = queue.resource_groups.clone();
    for quota in groups.iter_mut().flat_map(|group| &mut group.flavors).flat_map(|flavor| flavor.resources.values_mut())
    {
        *quota = OPEN;
    }
    let jobs = scene.jobs.iter().filter(|job| job.spec.queue == queue.name && !queue.is_cohort);
    for (resource, flavor) in jobs.flat_map(|job| &job.stands).flat_map(|allocation| &allocation.flavors) {
        let choices = groups.iter().map(|group| group.flavors.len()).try_fold(1usize, usize::checked_mul);
        let Some(group) = groups.iter_mut().find(|group| group.covers(resource)) else { continue };
        let is_listed = group.flavors.iter().any(|quota| quota.name == *flavor);
        let more = choices.map(|choices| choices / group.flavors.len().max(1) * (group.flavors.len() + 1));
        let is_possible = group.flavors.len() < FLAVORS_MAX && more.is_some_and(|more| more <= FLAVOR_CHOICES_MAX);
        if !is_listed && is_possible && scene.flavors.iter().any(|(_, known)| known.name == *flavor) {
            let resources = group.covered_resources.iter().map(|resource| (resource.clone(), OPEN)).collect();
            group.flavors.push(FlavorQuota { name: flavor.clone(), resources });
        }
    }
    groups
}

/// The flavors that the job has where it stands, or why it has none.
pub(crate) fn flavors_of(
    world: &World,
    scene: &Scene,
    (job, asked): (JobId, &AskedJob),
    groups: &[GroupSeats],
) -> Result<Vec<FlavorChoice>, String> {
    let Some(found) = world.job(job) else { return Ok(Vec::new()) };
    let mut choices = Vec::new();
    for (at, (group, seats)) in found.groups.iter().zip(groups).enumerate() {
        let Some(part) = seats.parts.first().filter(|_| !group.offers.is_empty()) else { continue };
        let name = &found.spec.groups[at].name;
        let stated = asked.stands.iter().filter(|allocation| allocation.group == *name);
        let stated = stated.map(|allocation| &allocation.flavors).find(|flavors| !flavors.is_empty());
        let labels = &scene.nodes[part.node].spec.labels;
        let is_of = |flavor: &str| {
            let flavor = scene.flavors.iter().map(|(_, known)| known).find(|known| known.name == flavor);
            flavor.is_some_and(|flavor| flavor.node_labels.iter().all(|(key, value)| labels.get(key) == Some(value)))
        };
        let has = |shape: &&ShapeId| {
            let shape = world.cell.shapes().get(**shape);
            shape.is_some_and(|shape| {
                pairs(world, shape).all(|(resource, flavor)| match stated {
                    Some(stated) => stated.get(resource).is_none_or(|named| named == flavor),
                    None => is_of(flavor),
                })
            })
        };
        match (group.offers.iter().find(has), stated) {
            (Some(&shape), _) => choices.push(FlavorChoice { job, group: GroupIndex(at as u16), shape }),
            (None, Some(stated)) => return Err(not_offered(&found.spec.queue, stated)),
            (None, None) => {}
        }
    }
    Ok(choices)
}

fn not_offered(queue: &str, stated: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = stated.iter().map(|(resource, flavor)| format!("{flavor} for {resource}")).collect();
    let pairs = pairs.join(", ");
    format!("its Allocations have flavors that queue {queue} cannot offer it: {pairs}; what they take stays taken")
}

/// The resources of a shape with their flavors.
fn pairs<'w>(world: &'w World, shape: &'w Shape) -> impl Iterator<Item = (&'w str, &'w str)> {
    let columns = world.cell.quota().columns();
    let name = |column| world.cell.resources().name(columns.resource(column));
    shape.charges.iter().map(move |(column, _)| (name(*column), columns.flavor(*column)))
}
