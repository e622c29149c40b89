//! Why nodes don't take a group: every node counted under the first filter that keeps it out.
//!
//! The counts come from the same filters that a placement passes. Where class and columns decide alone, the class's
//! verdict is asked once and the columns are compared directly; a property test holds the two ways equal. What was
//! counted for a shape is remembered until a node changes: a long queue of equal jobs is explained at the price of one.

use crate::demand::Demand;
use crate::demand_key::REFUSED;
use crate::placer::{Pass, Placer};
use crate::subject::Subject;
use crate::table::{CLOSED, NodeTable, class_of};
use crate::told::{Counts, Told, shortages};
use crate::topology::Refusal;
use ohm_cell::miss_outside;
use ohm_framework::{Explanation, Miss, Obstacle};
use std::collections::BTreeMap;

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

    /// Counts all nodes for `subject`; none where it is only asked what would be, which nobody is told, or where the
    /// pass counts none.
    pub fn explain(&mut self, pass: &Pass<'_>, subject: &Subject<'_>, of: u32, obstacle: Obstacle) -> Explanation {
        if !pass.counts() {
            let why = Explanation::of_obstacle(subject.job.id, subject.view.seen(), of, obstacle);
            return Explanation { group: subject.group, ..why };
        }
        let nodes = subject.view.cell().nodes();
        let (slot, scanned) = self.index(subject);
        let (table, index) = self.parts(slot);
        let surrounded = subject.surroundings().is_some();
        let plain = index.demand.is_plain() && !subject.shape.counts_own_tasks() && !surrounded;
        // With nominated room about, the counts depend on whose group it is.
        let shared = plain && table.singled().next().is_none();
        let is_known = |told: &&Told| shared && told.clock == table.clock() && told.is_within(subject.fence);
        let counts = match index.told.as_ref().filter(is_known) {
            Some(told) => told.counts.clone(),
            None => {
                pass.look_at(scanned + nodes.len() as u64);
                let counts = count(subject, table, &index.demand, plain);
                if shared {
                    let fence = subject.fence.map(|fence| (fence.topology.spec.name.clone(), fence.level, fence.key));
                    index.told = Some(Told { clock: table.clock(), fence, counts: counts.clone() });
                }
                counts
            }
        };
        let mut explanation = Explanation::of_obstacle(subject.job.id, subject.view.seen(), of, obstacle);
        explanation.group = subject.group;
        explanation.total_nodes = nodes.len() as u32;
        explanation.open_nodes = counts.open;
        explanation.fit = counts.fit.min(u64::from(u32::MAX)) as u32;
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
    let nodes = subject.view.cell().nodes();
    for node in nodes.present() {
        let kind = table.kind(node);
        let (room, miss) = if !plain || kind == CLOSED {
            let miss = subject.first_miss(node);
            if subject.is_near(node) {
                let free = |resource| subject.view.free(node, resource);
                counts.note_near(shortages(subject, free), || nodes.name(node));
            }
            (if miss.is_none() { subject.room(node) } else { 0 }, miss)
        } else if demand.kind_cost(kind) == REFUSED {
            *by_kind.entry(kind).or_insert(0) += 1;
            continue;
        } else if let Some(fence) = subject.fence.filter(|fence| !fence.holds(node)) {
            (0, Some(miss_outside(fence, node)))
        } else {
            let room = demand.room(table, node);
            (room, if room == 0 { counts.note_short(subject, table, node) } else { None })
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
