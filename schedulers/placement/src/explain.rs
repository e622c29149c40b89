//! Why nodes don't take a group: every node counted under the first filter that keeps it out.
//!
//! The counts come from the same filters that a placement passes. Where class and columns decide alone, the class's
//! verdict is asked once and the columns are compared directly; a property test holds the two ways equal.

use crate::demand::REFUSED;
use crate::filters::shortages;
use crate::placer::{Pass, Placer};
use crate::subject::Subject;
use crate::table::{CLOSED, class_of};
use ohm_framework::{Explanation, Miss, Obstacle};
use ohm_model::NodeId;
use std::collections::BTreeMap;

/// How often each reason stands, and how near the nearest nodes are.
#[derive(Clone, Debug, Default)]
struct Tally {
    by_kind: BTreeMap<u32, u32>,
    others: Vec<(Miss, u32)>,
    open: u32,
}

impl Placer {
    /// Counts all nodes for `subject`.
    pub fn explain(&mut self, pass: &mut Pass<'_>, subject: &Subject<'_>, of: u32, obstacle: Obstacle) -> Explanation {
        let nodes = subject.view.cell().nodes();
        let mut explanation = Explanation::of_obstacle(subject.job.id, subject.view.seen(), of, obstacle);
        explanation.group = subject.group;
        explanation.total_nodes = nodes.len() as u32;
        pass.examined += nodes.len() as u64;
        let (slot, _) = self.index(subject);
        let (table, index) = self.parts(slot);
        let plain = index.demand.is_plain() && subject.excluded.is_empty() && subject.fence.is_none();
        let mut tally = Tally::default();
        let mut fit = 0u64;
        for (node, record) in nodes.iter() {
            let kind = table.kind(node);
            if !plain || kind == CLOSED {
                tally.note(subject.first_miss(node));
                fit += u64::from(if nodes.is_schedulable(node) { subject.room(node) } else { 0 });
                note_near(&mut explanation, subject, node, &record.spec.name);
                continue;
            }
            if index.demand.kind_cost(kind) == REFUSED {
                *tally.by_kind.entry(kind).or_insert(0) += 1;
                continue;
            }
            match index.demand.room(table, node) {
                0 => {
                    tally.note(subject.first_miss_of_resources(node));
                    note_near(&mut explanation, subject, node, &record.spec.name);
                }
                room => {
                    tally.open += 1;
                    fit += u64::from(room);
                }
            }
        }
        tally.report(subject, &mut explanation);
        explanation.fit = fit.min(u64::from(u32::MAX)) as u32;
        explanation
    }
}

impl Tally {
    /// The list stays short: one entry per distinct reason, the last one found first.
    fn note(&mut self, miss: Option<Miss>) {
        let Some(miss) = miss else {
            self.open += 1;
            return;
        };
        match self.others.iter_mut().find(|(known, _)| *known == miss) {
            Some((_, count)) => *count += 1,
            None => self.others.push((miss, 1)),
        }
    }

    fn report(self, subject: &Subject<'_>, explanation: &mut Explanation) {
        explanation.open_nodes = self.open;
        for (kind, count) in self.by_kind {
            let content = class_of(kind).and_then(|(class, _)| subject.view.cell().classes().get(class));
            let verdict = content.map(|content| subject.shape.admits_class(content));
            let miss = match verdict {
                Some(Err(miss)) => Miss::from(miss),
                // A class that is refused has a reason; a class that vanished has no nodes.
                Some(Ok(())) | None => Miss::NodeSelector,
            };
            explanation.miss_many(miss, count);
        }
        for (miss, count) in self.others {
            explanation.miss_many(miss, count);
        }
    }
}

/// Takes note of a node that is short of one resource and of nothing else.
fn note_near(explanation: &mut Explanation, subject: &Subject<'_>, node: NodeId, name: &str) {
    let mut short = shortages(subject, node);
    let (Some((resource, asked, free)), None) = (short.next(), short.next()) else { return };
    let known = explanation.nearest.iter().find(|near| near.resource == resource);
    // Names decide ties, so that the answer does not depend on slots.
    if known.is_some_and(|near| near.free > free || (near.free == free && near.node.as_str() <= name)) {
        return;
    }
    if subject.passes_all_but_resources(node) {
        explanation.nearest.retain(|near| near.resource != resource);
        explanation.near(resource, asked, free, name);
        explanation.nearest.sort_by_key(|near| near.resource);
    }
}
