//! P8 of flavors: a job of a queue that gives quota by flavor has one for everything it asks for when something of it
//! is placed; each is one that its queue lists for that resource, resources that are covered together are of one
//! flavor, groups that are placed together have the same ones, and the node has the labels of all of them.

use crate::amounts::asks;
use crate::books::Books;
use crate::facts::Fact;
use crate::flavors::{Flavors, OfGroup};
use crate::history::Broken;
use crate::p8_quota::Quotas;
use ohm_model::resources::PODS;
use ohm_model::{EventKind, GroupSpec, Index, JobSpec, QueueSpec};
use std::collections::BTreeMap;

/// Judges one fact; `quotas` knows what queues give.
pub(crate) fn watch(
    index: Index,
    fact: &Fact<'_>,
    (books, flavors, quotas): (&Books, &Flavors, &Quotas),
    broken: &mut Vec<Broken>,
) {
    if flavors.is_changing {
        return;
    }
    match *fact {
        Fact::Happened { kind: EventKind::FlavorsAssigned { job, groups, .. }, .. } => {
            let Some(spec) = books.jobs.get(job) else { return };
            let Some(queue) = quotas.tree().queue(&spec.queue) else { return };
            let given: Vec<&OfGroup> = groups.iter().map(|(_, flavors)| flavors).collect();
            if let Some(problem) = problem_of(queue, spec, &given) {
                let what = format!("entry {index}: {} of queue {} {problem}", spec.name, spec.queue);
                broken.push(Broken::new("P8", what));
            }
        }
        Fact::Happened { kind: EventKind::Placed { job, group, first, node, .. }, .. }
            if !books.has_returned(*job, *group, *first) =>
        {
            let (Some(spec), Some(book)) = (books.jobs.get(job), books.nodes.get(node)) else { return };
            let Some(group) = spec.groups.get(usize::from(*group)) else { return };
            let place = format!("entry {index} places {} on {}", spec.name, book.spec.name);
            if flavors.has_queue(&spec.queue) && flavors.of(*job, &group.name).is_none() {
                broken.push(Broken::new("P8", format!("{place}, and it has no flavors")));
            }
            for flavor in flavors.specs_of(*job, &group.name) {
                let lacking = flavor.node_labels.iter().find(|(key, value)| book.spec.labels.get(*key) != Some(*value));
                if let Some((key, value)) = lacking {
                    let what = format!("{place}, which lacks {key}={value} of its flavor {}", flavor.name);
                    broken.push(Broken::new("P8", what));
                }
            }
        }
        _ => {}
    }
}

fn problem_of(queue: &QueueSpec, spec: &JobSpec, flavors: &[&OfGroup]) -> Option<String> {
    let groups = spec.groups.iter().zip(flavors);
    groups.clone().find_map(|(group, flavors)| problem_of_group(queue, group, flavors)).or_else(|| {
        let together = groups.filter(|(group, _)| !group.place_with.is_empty());
        let mut of_label: BTreeMap<(&str, usize), &str> = BTreeMap::new();
        for (group, flavors) in together {
            for (resource, flavor) in *flavors {
                let at = queue.resource_groups.iter().position(|group| group.covered_resources.contains(resource))?;
                let known = of_label.entry((&group.place_with, at)).or_insert(flavor);
                if *known != flavor {
                    return Some(format!("has {known} and {flavor} for groups that are placed together"));
                }
            }
        }
        None
    })
}

fn problem_of_group(queue: &QueueSpec, group: &GroupSpec, flavors: &OfGroup) -> Option<String> {
    for resource in asks(group, 1).into_iter().filter(|(_, amount)| *amount > 0).map(|(name, _)| name) {
        let covering = queue.resource_groups.iter().find(|group| group.covered_resources.contains(&resource));
        let Some(covering) = covering else {
            if resource == PODS {
                continue;
            }
            return Some(format!("asks for {resource}, which no resource group covers"));
        };
        let Some(flavor) = flavors.get(&resource) else {
            return Some(format!("has no flavor for {resource} of group {}", group.name));
        };
        if !covering.flavors.iter().any(|quota| quota.name == *flavor) {
            return Some(format!("has {flavor} for {resource}, which the queue does not list"));
        }
        let others = flavors.iter().filter(|(other, _)| covering.covered_resources.contains(other));
        if let Some((other, also)) = others.into_iter().find(|(_, also)| *also != flavor) {
            return Some(format!("has {flavor} for {resource} and {also} for {other}"));
        }
    }
    None
}
