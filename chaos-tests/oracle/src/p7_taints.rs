//! P7 for taints: what a `NoExecute` taint of a node drives away is told to stop when the taint comes, or, where it
//! tolerates the taint for a while, when so much time has passed since the taint came and since it was placed; not
//! before, and not much later. A taint that goes before drives nobody away. Kubernetes' words are spelled out here
//! once more.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use crate::p6_admission::Admissions;
use crate::p8_hard_constraints::speaks_of;
use ohm_model::{EventKind, GroupSpec, Index, JobId, NodeId, StopCause, Taint, TaintEffect};
use std::collections::{BTreeMap, BTreeSet};

/// Time-outs are looked at once in a while, and nobody looks while no server leads.
const SLACK_MS: u64 = 5_000;

type Place = (JobId, u16, u32);

/// Since when things stand, in stamped time.
#[derive(Default)]
pub(crate) struct Taints {
    since_ms: BTreeMap<NodeId, BTreeMap<Taint, u64>>,
    placed_ms: BTreeMap<Place, u64>,
    /// When it was first seen that a task has to leave and was not told to.
    overdue_ms: BTreeMap<Place, u64>,
    /// Nodes that were registered anew in the entry at hand: other labels drive away, too.
    renewed: BTreeSet<NodeId>,
}

impl Taints {
    pub(crate) fn entry_begins(&mut self, facts: &[Fact<'_>]) {
        let renewed = facts.iter().filter_map(|fact| match fact {
            Fact::Registered { node, .. } => Some(*node),
            _ => None,
        });
        self.renewed = renewed.collect();
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        let (at_ms, kind) = match *fact {
            Fact::Registered { at_ms, node, .. } => return self.date(node, at_ms, books),
            Fact::Happened { at_ms, kind } => (at_ms, kind),
            _ => return,
        };
        match kind {
            EventKind::NodeTainted { node, .. } => self.date(*node, at_ms, books),
            EventKind::NodeRemoved { .. } => self.since_ms.retain(|node, _| books.nodes.contains_key(node)),
            EventKind::Placed { job, group, first, count, .. } => {
                for task in *first..first + count {
                    // What came back with its node was placed before, nobody here knows when.
                    let came_back = books.has_returned(*job, *group, task) && !books.has_restarted(*job, *group, task);
                    self.placed_ms.insert((*job, *group, task), if came_back { 0 } else { at_ms });
                    self.overdue_ms.remove(&(*job, *group, task));
                }
            }
            EventKind::Ended { job, group, task, .. } => {
                self.placed_ms.remove(&(*job, *group, *task));
                self.overdue_ms.remove(&(*job, *group, *task));
            }
            EventKind::Stopping { job, group, task, node, cause: StopCause::Moved, .. } => {
                let wish = wish_of((*job, *group), (books, admissions));
                let due_ms = wish.and_then(|wish| self.due_ms(*node, (*job, *group, *task), &wish, books));
                if !self.renewed.contains(node) && due_ms.is_none_or(|due_ms| due_ms > at_ms) {
                    let name = books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                    let what = format!(
                        "entry {index}: task {group}/{task} of {name} is moved off node {node}, which may stay"
                    );
                    broken.push(Broken::new("P7", what));
                }
            }
            _ => {}
        }
    }

    /// Since when the node has each of its own taints.
    fn date(&mut self, node: NodeId, at_ms: u64, books: &Books) {
        let Some(book) = books.nodes.get(&node) else { return };
        let driving = book.own_taints().filter(|taint| taint.effect == TaintEffect::NoExecute);
        let known = self.since_ms.remove(&node).unwrap_or_default();
        let dated = driving.map(|taint| (taint.clone(), known.get(taint).copied().unwrap_or(at_ms)));
        self.since_ms.insert(node, dated.collect());
    }

    /// When the own taints of a node drive a task away; nothing is never.
    fn due_ms(&self, node: NodeId, place: Place, wish: &GroupSpec, books: &Books) -> Option<u64> {
        let book = books.nodes.get(&node)?;
        let placed_ms = self.placed_ms.get(&place).copied().unwrap_or(0);
        let since = |taint: &Taint| self.since_ms.get(&node).and_then(|known| known.get(taint)).copied().unwrap_or(0);
        let due =
            book.own_taints().filter(|taint| taint.effect == TaintEffect::NoExecute).filter_map(|taint| {
                match wish.tolerations.iter().find(|toleration| speaks_of(toleration, taint)) {
                    None => Some(0),
                    Some(first) => match first.toleration_seconds? {
                        0 => Some(0),
                        seconds => Some(since(taint).max(placed_ms).saturating_add(seconds.saturating_mul(1000))),
                    },
                }
            });
        due.min()
    }

    /// At the end of an entry with this stamp nobody stays who had to leave a while ago.
    pub(crate) fn entry_over(
        &mut self,
        (index, now_ms): (Index, u64),
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        let driving = self.since_ms.iter().filter(|(_, taints)| !taints.is_empty()).map(|(node, _)| *node);
        let nodes: Vec<NodeId> = driving.collect();
        for node in nodes {
            for (job, group, task, standing) in books.on_node(node).filter(|(.., standing)| !standing.stopping) {
                debug_assert_eq!(standing.node, node);
                let place = (job, group, task);
                let Some(wish) = wish_of((job, group), (books, admissions)) else { continue };
                if self.due_ms(node, place, &wish, books).is_none_or(|due_ms| due_ms > now_ms) {
                    self.overdue_ms.remove(&place);
                    continue;
                }
                let seen_ms = *self.overdue_ms.entry(place).or_insert(now_ms);
                if now_ms.saturating_sub(seen_ms) > SLACK_MS {
                    self.overdue_ms.insert(place, u64::MAX);
                    let what = format!(
                        "entry {index}: task {group}/{task} of job {job} stays on node {node}, whose taint it does not tolerate any more"
                    );
                    broken.push(Broken::new("P7", what));
                }
            }
        }
    }
}

/// A group with what checks add; nothing where nobody knows what they did.
fn wish_of((job, group): (JobId, u16), (books, admissions): (&Books, &Admissions)) -> Option<GroupSpec> {
    let spec = books.jobs.get(&job)?.groups.get(usize::from(group))?;
    Some(admissions.filtered(job, spec))
}
