//! Why nodes don't take a group: every node counted under the first filter that keeps it out.
//!
//! The counts come from the same filters that a placement passes. Where class and columns decide alone, the class's
//! verdict is asked once and the columns are compared directly; a property test holds the two ways equal. What was
//! counted for a shape is remembered until a node changes: a long queue of equal jobs is explained at the price of one.

use crate::demand::{Demand, REFUSED};
use crate::placer::{Pass, Placer};
use crate::subject::Subject;
use crate::table::{CLOSED, NodeTable, class_of};
use crate::topology::Refusal;
use ohm_cell::{Fence, short_of};
use ohm_framework::{Explanation, Miss, NearMiss, Obstacle};
use ohm_model::{NodeId, ResourceId};
use std::collections::BTreeMap;

/// What was counted over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    misses: BTreeMap<Miss, u32>,
    nearest: BTreeMap<ResourceId, NearMiss>,
    open: u32,
    fit: u64,
}

/// Counts, and the state of the table and the topology domain they are for.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    clock: u64,
    fence: Option<(String, usize, Option<u32>)>,
    counts: Counts,
}

impl Told {
    fn is_within(&self, fence: Option<Fence<'_>>) -> bool {
        match (&self.fence, fence) {
            (None, None) => true,
            (Some((name, level, key)), Some(fence)) => {
                *name == fence.topology.spec.name && (*level, *key) == (fence.level, fence.key)
            }
            _ => false,
        }
    }
}

impl Placer {
    /// Counts all nodes for `subject`, which found no seats in its topology.
    pub(crate) fn explain_refusal(
        &mut self,
        pass: &Pass<'_>,
        subject: &Subject<'_>,
        refusal: Refusal<'_>,
    ) -> Box<Explanation> {
        let subject = Subject { fence: Some(refusal.fence), ..*subject };
        let mut why = self.explain(pass, &subject, refusal.of, refusal.obstacle);
        (why.fit, why.slice) = (refusal.fit, refusal.slice);
        Box::new(why)
    }

    /// Counts all nodes for `subject`.
    pub fn explain(&mut self, pass: &Pass<'_>, subject: &Subject<'_>, of: u32, obstacle: Obstacle) -> Explanation {
        let nodes = subject.view.cell().nodes();
        let (slot, scanned) = self.index(subject);
        let (table, index) = self.parts(slot);
        let plain = index.demand.is_plain() && !subject.shape.counts_own_tasks();
        // With nominated room about, the counts depend on whose group it is.
        let shared = plain && table.singled().next().is_none();
        let known = index.told.as_ref().filter(|told| shared && told.clock == table.clock());
        let counts = match known.filter(|told| told.is_within(subject.fence)) {
            Some(told) => told.counts.clone(),
            None => {
                pass.look_at(scanned + nodes.len() as u64);
                count(subject, table, &index.demand, plain)
            }
        };
        let mut explanation = Explanation::of_obstacle(subject.job.id, subject.view.seen(), of, obstacle);
        explanation.group = subject.group;
        explanation.total_nodes = nodes.len() as u32;
        explanation.open_nodes = counts.open;
        explanation.fit = counts.fit.min(u64::from(u32::MAX)) as u32;
        if shared {
            let fence = subject.fence.map(|fence| (fence.topology.spec.name.clone(), fence.level, fence.key));
            index.told = Some(Told { clock: table.clock(), fence, counts: counts.clone() });
        }
        explanation.misses = counts.misses;
        explanation.nearest = counts.nearest.into_values().collect();
        explanation
    }
}

fn count(subject: &Subject<'_>, table: &NodeTable, demand: &Demand, plain: bool) -> Counts {
    let mut counts = Counts::default();
    let mut by_kind: BTreeMap<u32, u32> = BTreeMap::new();
    // Nodes in a row mostly share their reason: it is put into the map when it changes.
    let mut last: (Option<Miss>, u32) = (None, 0);
    for (node, record) in subject.view.cell().nodes().iter() {
        let kind = table.kind(node);
        let name = record.spec.name.as_str();
        let (room, miss) = if !plain || kind == CLOSED {
            let miss = subject.first_miss(node);
            if subject.is_near(node) {
                let free = |resource| subject.view.free(node, resource);
                counts.note_near(shortages(subject, free), name);
            }
            (if miss.is_none() { subject.room(node) } else { 0 }, miss)
        } else if demand.kind_cost(kind) == REFUSED {
            *by_kind.entry(kind).or_insert(0) += 1;
            continue;
        } else if subject.fence.is_some_and(|fence| !fence.holds(node)) {
            (0, subject.first_miss(node))
        } else {
            let room = demand.room(table, node);
            (room, if room == 0 { counts.note_short(subject, table, node, name) } else { None })
        };
        counts.fit += u64::from(room);
        match miss {
            None => counts.open += 1,
            Some(_) if last.0 == miss => last.1 += 1,
            Some(_) => counts.note_misses(std::mem::replace(&mut last, (miss, 1))),
        }
    }
    counts.note_misses(last);
    for (kind, nodes) in by_kind {
        let content = class_of(kind).and_then(|(class, _)| subject.view.cell().classes().get(class));
        let miss = content.and_then(|content| subject.shape.admits_class(content).err());
        counts.note_misses((miss.map(Miss::from), nodes));
    }
    counts
}

/// The resources that are short of for one task, as (resource, asked, free).
fn shortages(subject: &Subject<'_>, free: impl Fn(ResourceId) -> i64) -> impl Iterator<Item = (ResourceId, i64, i64)> {
    let requests = subject.shape.requests.iter();
    let amounts = requests.map(move |&(resource, asked)| (resource, asked, free(resource)));
    amounts.filter(|(_, asked, free)| free < asked)
}

impl Counts {
    fn note_misses(&mut self, (miss, nodes): (Option<Miss>, u32)) {
        if let Some(miss) = miss {
            *self.misses.entry(miss).or_insert(0) += nodes;
        }
    }

    /// Why a node whose class is fine has no room, by the columns.
    fn note_short(&mut self, subject: &Subject<'_>, table: &NodeTable, node: NodeId, name: &str) -> Option<Miss> {
        let short = || shortages(subject, |resource| table.free(node, resource));
        self.note_near(short(), name);
        short_of(subject.view.cell(), node, short())
    }

    /// Takes note of a node that is short of one resource and of nothing else. Names decide ties.
    fn note_near(&mut self, mut short: impl Iterator<Item = (ResourceId, i64, i64)>, name: &str) {
        let (Some((resource, asked, free)), None) = (short.next(), short.next()) else { return };
        match self.nearest.get_mut(&resource) {
            Some(near) if near.free > free || (near.free == free && near.node.as_str() <= name) => {}
            Some(near) => {
                near.free = free;
                name.clone_into(&mut near.node);
            }
            None => {
                let node = name.to_string();
                self.nearest.insert(resource, NearMiss { resource, asked, free, node });
            }
        }
    }
}
