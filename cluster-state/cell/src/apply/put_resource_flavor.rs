//! Resource flavors are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::apply::steps::offers::offer_all;
use crate::apply::steps::rounds::reshape;
use crate::state::jobs::Group;
use crate::state::shapes::Shape;
use ohm_model::queue::RESOURCE_FLAVORS_MAX;
use ohm_model::{JobId, Outcome, QueueSpec, Refusal, ResourceFlavor};
use std::collections::BTreeSet;

/// Adds or changes a flavor. What has it from before goes by what it says now, wherever it is placed from here on.
pub(crate) fn put_resource_flavor(tx: &mut Tx<'_>, flavor: &ResourceFlavor) -> Result<Outcome, Refusal> {
    check_names(flavor)?;
    if tx.quota.flavors.get(&flavor.name).is_none() && tx.quota.flavors.iter().len() >= RESOURCE_FLAVORS_MAX {
        let problem = format!("the cell has {RESOURCE_FLAVORS_MAX} resource flavors already; remove one first");
        return Err(Refusal::Invalid { field: "metadata.name".into(), problem });
    }
    if tx.quota.flavors.get(&flavor.name) == Some(flavor) {
        return Ok(Outcome::Done);
    }
    tx.quota.flavors.put(flavor.clone());
    let naming: BTreeSet<String> =
        tx.quota.iter().filter(|node| names(&node.spec, &flavor.name)).map(|node| node.spec.name.clone()).collect();
    offer_all(tx, |queue| naming.contains(queue));
    reshape_holders(tx, &flavor.name);
    Ok(Outcome::Done)
}

/// What has the flavor goes by what it says now.
fn reshape_holders(tx: &mut Tx<'_>, flavor: &str) {
    let cell = &tx.cell;
    let is_of = |shape: &Shape| shape.charges.iter().any(|(column, _)| cell.quota.columns.flavor(*column) == flavor);
    let has = |group: &Group| cell.shapes.get(group.shape).is_some_and(|shape| is_of(shape));
    let holders = cell.jobs.iter().filter(|job| job.groups.iter().any(has));
    let holders: Vec<JobId> = holders.map(|job| job.id).collect();
    for job in holders {
        reshape(tx, job);
        tx.touch_job(job);
    }
}

pub(crate) fn remove_resource_flavor(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if tx.quota.flavors.get(name).is_none() {
        return Err(Refusal::NotFound { kind: "resource flavor".into(), name: name.into() });
    }
    if let Some(node) = tx.quota.iter().find(|node| names(&node.spec, name)) {
        let state = format!("named by {} {}", if node.spec.is_cohort { "cohort" } else { "queue" }, node.spec.name);
        let hint = "take it out of its `resourceGroups` first".to_string();
        return Err(Refusal::WrongState { kind: "resource flavor".into(), name: name.into(), state, hint });
    }
    tx.quota.flavors.remove(name);
    reshape_holders(tx, name);
    Ok(Outcome::Done)
}

fn names(queue: &QueueSpec, flavor: &str) -> bool {
    queue.resource_groups.iter().flat_map(|group| &group.flavors).any(|quota| quota.name == flavor)
}
