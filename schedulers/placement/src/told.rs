//! What was counted over all nodes for an explanation, and remembered until a node changes.

use crate::subject::Subject;
use crate::table::NodeTable;
use ohm_cell::{Fence, short_of};
use ohm_framework::{Miss, NearMiss};
use ohm_model::{NodeId, ResourceId};
use std::collections::BTreeMap;

/// What was counted over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) misses: BTreeMap<Miss, u32>,
    pub(crate) nearest: BTreeMap<ResourceId, NearMiss>,
    pub(crate) open: u32,
    pub(crate) fit: u64,
}

/// Counts, and the state of the table and the topology domain they are for.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) clock: u64,
    pub(crate) fence: Option<(String, usize, Option<u32>)>,
    pub(crate) counts: Counts,
}

impl Told {
    pub(crate) fn is_within(&self, fence: Option<Fence<'_>>) -> bool {
        match (&self.fence, fence) {
            (None, None) => true,
            (Some((name, level, key)), Some(fence)) => {
                *name == fence.topology.spec.name && (*level, *key) == (fence.level, fence.key)
            }
            _ => false,
        }
    }
}

/// The resources that are short of for one task, as (resource, asked, free).
pub(crate) fn shortages(
    subject: &Subject<'_>,
    free: impl Fn(ResourceId) -> i64,
) -> impl Iterator<Item = (ResourceId, i64, i64)> {
    let requests = subject.shape.requests.iter();
    let amounts = requests.map(move |&(resource, asked)| (resource, asked, free(resource)));
    amounts.filter(|(_, asked, free)| free < asked)
}

impl Counts {
    pub(crate) fn note_misses(&mut self, (miss, nodes): (Option<Miss>, u32)) {
        if let Some(miss) = miss {
            *self.misses.entry(miss).or_insert(0) += nodes;
        }
    }

    /// Why a node whose class is fine has no room, by the columns.
    pub(crate) fn note_short(&mut self, subject: &Subject<'_>, table: &NodeTable, node: NodeId) -> Option<Miss> {
        let short = || shortages(subject, |resource| table.free(node, resource));
        self.note_near(short(), || subject.view.cell().nodes().name(node));
        short_of(subject.view.cell(), node, short())
    }

    /// Takes note of a node that is short of one resource and of nothing else. Names decide ties; the name of a node is
    /// far from its amounts, so it is asked for only where it decides.
    pub(crate) fn note_near<'n>(
        &mut self,
        mut short: impl Iterator<Item = (ResourceId, i64, i64)>,
        name: impl Fn() -> &'n str,
    ) {
        let (Some((resource, asked, free)), None) = (short.next(), short.next()) else { return };
        match self.nearest.get_mut(&resource) {
            Some(near) if near.free > free || (near.free == free && near.node.as_str() <= name()) => {}
            Some(near) => {
                near.free = free;
                name().clone_into(&mut near.node);
            }
            None => {
                let node = name().to_string();
                self.nearest.insert(resource, NearMiss { resource, asked, free, node });
            }
        }
    }
}
