//! Which flavors suit a group, and the shapes that it has with them (Kueue's flavor assigner, the part that does not
//! depend on what is used).
//!
//! A group takes one flavor from each resource group of its queue that covers something it asks for; groups that are
//! placed together take the same ones. Each way to do so is an offer: a shape of its own, with the labels and
//! tolerations of the flavors, charged to their quota.

use crate::cell::Cell;
use crate::state::admission::add_tolerations;
use crate::state::jobs::Job;
use crate::state::resources::PODS;
use crate::state::shapes::Shape;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::selector::Labels;
use ohm_model::{
    FlavorResource, GroupSpec, Operator, QueueSpec, Requirement, ResourceFlavor, ResourceGroup, ResourceId,
    SelectorTerm, ShapeId, Taint, TaintEffect, Toleration, resources,
};
use ohm_stdx::bug::{self, Bug};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a flavor does not suit a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FlavorMiss {
    /// The cell has no flavor of this name.
    Unknown,
    /// This taint of its nodes is tolerated neither by the group nor by the flavor.
    Taint(Taint),
    /// The group asks for nodes with other labels.
    NodeSelector,
    /// No affinity term of the group fits its labels.
    Affinity,
}

/// Why nothing is offered to a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NoOffer {
    /// No resource group of its queue covers this resource.
    NotCovered(String),
    /// No flavor of a resource group suits it: each with the reason.
    NoFlavor(Vec<(String, FlavorMiss)>),
    /// Flavors suit, but no node can have the labels of all that it needs together.
    Apart,
}

/// Whether `flavor` suits `group`, as far as labels and taints go. Only labels that the flavor names are looked at.
pub(crate) fn suits(flavor: &ResourceFlavor, group: &GroupSpec) -> Result<(), FlavorMiss> {
    let tolerates =
        |taint: &Taint| group.tolerations.iter().chain(&flavor.tolerations).any(|toleration| toleration.covers(taint));
    let repels = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule && !tolerates(taint);
    if let Some(taint) = flavor.node_taints.iter().find(repels) {
        return Err(FlavorMiss::Taint(taint.clone()));
    }
    let contradicts = |(key, wanted): (&String, &String)| flavor.node_labels.get(key).is_some_and(|has| has != wanted);
    if group.node_selector.iter().any(contradicts) {
        return Err(FlavorMiss::NodeSelector);
    }
    let fits = |term: &SelectorTerm| {
        let mut of_flavor = term.requirements.iter().filter(|want| flavor.node_labels.contains_key(&want.key));
        of_flavor.all(|want| want.matches(&flavor.node_labels))
    };
    if !group.affinity.is_empty() && !group.affinity.iter().any(fits) {
        return Err(FlavorMiss::Affinity);
    }
    Ok(())
}

/// The shapes that its queue offers to group `at` of `job`, in the order in which Kueue tries flavors: the first
/// flavor of each resource group first. `base` is its shape without a flavor.
pub(crate) fn offers(
    cell: &Cell,
    queue: &QueueSpec,
    (job, at): (&Job, usize),
    base: &Shape,
) -> Result<Vec<Shape>, NoOffer> {
    let mut offers = vec![Shape { charges: Vec::new(), unsuited: false, ..base.clone() }];
    for group in asked(cell, queue, base)? {
        let suiting = suiting(cell, group, (job, at))?;
        let mut wider = Vec::with_capacity(offers.len() * suiting.len());
        for offer in &offers {
            wider.extend(suiting.iter().map(|flavor| with_flavor(cell, offer, (group, flavor), base)));
        }
        offers = wider;
    }
    // Whoever gives no quota for tasks does not limit their number.
    let pods = base.charges.iter().filter(|(column, _)| cell.quota.columns.resource(*column) == PODS);
    let pods = pods.filter(|_| !queue.resource_groups.iter().any(|group| group.covers(resources::PODS)));
    offers.iter_mut().for_each(|shape| shape.charges.extend(pods.clone()));
    offers.retain_mut(|shape| {
        shape.charges.sort_unstable();
        let clashes = add_flavors(cell, &shape.charges, (&mut shape.node_selector, &mut shape.tolerations));
        shape.names_hosts |= shape.node_selector.contains_key(HOSTNAME_LABEL);
        clashes.is_empty()
    });
    if offers.is_empty() { Err(NoOffer::Apart) } else { Ok(offers) }
}

/// The resource groups of which a group with this shape needs a flavor.
fn asked<'q>(cell: &Cell, queue: &'q QueueSpec, base: &Shape) -> Result<Vec<&'q ResourceGroup>, NoOffer> {
    let mut asked = Vec::new();
    for &(resource, _) in &base.requests {
        let name = cell.resources.name(resource);
        match queue.resource_groups.iter().position(|group| group.covers(name)) {
            Some(at) => asked.push(at),
            None if resource == PODS => {}
            None => return Err(NoOffer::NotCovered(name.to_string())),
        }
    }
    asked.sort_unstable();
    asked.dedup();
    Ok(asked.into_iter().map(|at| &queue.resource_groups[at]).collect())
}

/// The flavors of `group` that suit group `at` of `job` and all that are placed with it.
fn suiting<'q>(
    cell: &'q Cell,
    group: &ResourceGroup,
    (job, at): (&Job, usize),
) -> Result<Vec<&'q ResourceFlavor>, NoOffer> {
    let (mut suiting, mut misses) = (Vec::new(), Vec::new());
    for quota in &group.flavors {
        let found = cell.quota.flavors.get(&quota.name).ok_or(FlavorMiss::Unknown);
        let suits_all = |flavor: &'q ResourceFlavor| {
            job.partners(at).try_for_each(|other| suits(flavor, &job.spec.groups[other])).map(|()| flavor)
        };
        match found.and_then(suits_all) {
            Ok(flavor) => suiting.push(flavor),
            Err(miss) => misses.push((quota.name.clone(), miss)),
        }
    }
    if suiting.is_empty() { Err(NoOffer::NoFlavor(misses)) } else { Ok(suiting) }
}

/// `offer` with `flavor` for what `group` covers.
fn with_flavor(cell: &Cell, offer: &Shape, (group, flavor): (&ResourceGroup, &ResourceFlavor), base: &Shape) -> Shape {
    let mut shape = offer.clone();
    for &(resource, request) in &base.requests {
        let name = cell.resources.name(resource);
        if group.covers(name) {
            let column = cell.quota.columns.find(&flavor.name, resource);
            shape.charges.extend(column.map(|column| (column, request)));
        }
    }
    shape
}

/// Adds what the flavors add that these columns are of. Returns their labels that are there with another value.
pub(crate) fn add_flavors(
    cell: &Cell,
    charges: &[(FlavorResource, i64)],
    (labels, tolerations): (&mut Labels, &mut Vec<Toleration>),
) -> Vec<Requirement> {
    let mut names: Vec<&str> = Vec::new();
    for &(column, _) in charges {
        let name = cell.quota.columns.flavor(column);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut clashes = Vec::new();
    for flavor in names.into_iter().filter_map(|name| cell.quota.flavors.get(name)) {
        for (key, value) in flavor.node_labels.iter().filter(|_| !bug::is_planted(Bug::FlavorAstray)) {
            if labels.entry(key.clone()).or_insert_with(|| value.clone()) != value {
                let values = vec![value.clone()];
                clashes.push(Requirement { key: key.clone(), operator: Operator::In, values });
            }
        }
        add_tolerations(tolerations, flavor.tolerations.iter().cloned());
    }
    clashes
}

/// What a group asks of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    /// Labels that nodes must have.
    pub labels: Labels,
    /// Alternatives of required affinity.
    pub affinity: Vec<SelectorTerm>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
}

/// What group `at` of `job` asks of nodes: its own filters, those of its flavors, and what the checks of a round that
/// is ready add. Nothing for a group that the job lacks.
pub fn filters_of(cell: &Cell, job: &Job, at: usize) -> Filters {
    let mut filters = own_filters_of(cell, job, at);
    job.admission.add_filters(&mut filters.labels, &mut filters.tolerations);
    filters
}

/// As [`filters_of`], without what checks add. Where a flavor that the group has was given other labels since than the
/// group asks for, no node meets both.
pub fn own_filters_of(cell: &Cell, job: &Job, at: usize) -> Filters {
    let (Some(group), Some(shape)) = (job.spec.groups.get(at), cell.shape_of(job, at)) else {
        return Filters { labels: Labels::new(), affinity: Vec::new(), tolerations: Vec::new() };
    };
    let (mut labels, mut tolerations) = (group.node_selector.clone(), group.tolerations.clone());
    let mut affinity = group.affinity.clone();
    let clashes = add_flavors(cell, &shape.charges, (&mut labels, &mut tolerations));
    if !clashes.is_empty() {
        if affinity.is_empty() {
            affinity.push(SelectorTerm::default());
        }
        affinity.iter_mut().for_each(|term| term.requirements.extend(clashes.iter().cloned()));
    }
    Filters { labels, affinity, tolerations }
}

/// The flavors that group `at` of `job` has, by resource; none while nothing of the job stands or is reserved, nor
/// others were told to stop for it.
pub fn flavors_of(cell: &Cell, job: &Job, at: usize) -> BTreeMap<String, String> {
    let is_open = job.may_choose_flavors() && cell.preemptions.get(job.id).is_none();
    if is_open { BTreeMap::new() } else { flavors_in_use(cell, job, at) }
}

/// The flavors of the shape of a group, by resource.
pub fn flavors_in_use(cell: &Cell, job: &Job, at: usize) -> BTreeMap<String, String> {
    let flavors = job.groups.get(at).map(|group| flavors_of_shape(cell, group.shape)).unwrap_or_default();
    let name = |(resource, flavor): (ResourceId, &str)| (cell.resources.name(resource).to_string(), flavor.to_string());
    flavors.into_iter().map(name).collect()
}

/// The flavors of a shape, by resource.
pub(crate) fn flavors_of_shape(cell: &Cell, shape: ShapeId) -> BTreeMap<ResourceId, &str> {
    let columns = &cell.quota.columns;
    let charges = cell.shapes.get(shape).into_iter().flat_map(|shape| &shape.charges);
    let flavors = charges.map(|(column, _)| (columns.resource(*column), columns.flavor(*column)));
    flavors.filter(|(_, flavor)| !flavor.is_empty()).collect()
}

/// What a column of the quota tree is called: the resource, with its flavor before it where there is one.
pub fn column_name(cell: &Cell, column: FlavorResource) -> String {
    let resource = cell.resources.name(cell.quota.columns.resource(column));
    match cell.quota.columns.flavor(column) {
        "" => resource.to_string(),
        flavor => format!("{flavor}/{resource}"),
    }
}

/// Why nothing is offered to group `at` of `job`; nothing where something is, or where its queue names no flavors.
pub fn no_offer(cell: &Cell, job: &Job, at: usize) -> Option<NoOffer> {
    let queue = &cell.quota.get(&job.spec.queue)?.spec;
    let base = cell.shape_of(job, at).filter(|shape| shape.unsuited)?;
    offers(cell, queue, (job, at), base).err()
}

/// The flavor that a shape has of each resource group of a queue, where it needs one.
pub fn flavors_by_group<'c>(cell: &'c Cell, queue: &QueueSpec, shape: &Shape) -> Vec<Option<&'c str>> {
    let columns = &cell.quota.columns;
    let flavor = |group: &ResourceGroup| {
        let mut charged = shape.charges.iter().map(|(column, _)| *column);
        let column = charged.find(|column| group.covers(cell.resources.name(columns.resource(*column))));
        column.map(|column| columns.flavor(column))
    };
    queue.resource_groups.iter().map(flavor).collect()
}
