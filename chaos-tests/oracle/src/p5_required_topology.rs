//! P5: a required topology holds from the first start through every repair. Books: the domain that each group with such
//! a wish stands in, by the labels of its nodes.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, GroupSpec, Index, JobId, NodeId, TopologyMode};
use std::collections::{BTreeMap, BTreeSet};

/// Where groups with a required topology stand.
#[derive(Default)]
pub(crate) struct RequiredTopology {
    domains: BTreeMap<(JobId, u16), Vec<String>>,
    /// Tasks whose node left their domain in the entry at hand, and that have not been told to stop.
    strayed: BTreeSet<(JobId, u16, u32)>,
}

impl RequiredTopology {
    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        match *fact {
            Fact::Registered { node, .. } => self.relabelled(node, books),
            Fact::Happened { kind: EventKind::Placed { job, group, node, .. }, .. } => {
                self.placed(index, *job, *group, *node, books, broken);
            }
            Fact::Happened { kind: EventKind::Stopping { job, group, task, .. }, .. } => {
                self.strayed.remove(&(*job, *group, *task));
            }
            Fact::Happened { kind: EventKind::Ended { job, group, task, .. }, .. } => {
                self.strayed.remove(&(*job, *group, *task));
                if books.live(*job, *group).next().is_none() {
                    self.domains.remove(&(*job, *group));
                }
            }
            _ => {}
        }
    }

    /// Judges what must hold when the entry is over.
    pub(crate) fn entry_over(&mut self, index: Index, books: &Books, broken: &mut Vec<Broken>) {
        for (job, group, task) in std::mem::take(&mut self.strayed) {
            let name = books.jobs.get(&job).map_or("?", |spec| spec.name.as_str());
            let what = format!("entry {index}: task {group}/{task} of {name} stays on a node that left its domain");
            broken.push(Broken::new("P5", what));
        }
    }

    fn placed(&mut self, index: Index, job: JobId, group: u16, node: NodeId, books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let Some(wish) = required(&spec.groups, group) else { return };
        let Some(domain) = books.domain(&wish.topology.topology, &wish.topology.level, node) else {
            let what = format!("entry {index}: {}/{} stands on {node}, outside its topology", spec.name, wish.name);
            return broken.push(Broken::new("P5", what));
        };
        for (other, found) in spec.groups.iter().enumerate() {
            let together =
                other == usize::from(group) || (!wish.place_with.is_empty() && found.place_with == wish.place_with);
            let same_level =
                found.topology.mode == TopologyMode::Required && found.topology.level == wish.topology.level;
            let Some(known) = self.domains.get(&(job, other as u16)) else { continue };
            if together && same_level && *known != domain {
                let what = format!(
                    "entry {index}: {}/{} is placed in {domain:?} while {} stands in {known:?}",
                    spec.name, wish.name, found.name
                );
                broken.push(Broken::new("P5", what));
            }
        }
        self.domains.entry((job, group)).or_insert(domain);
    }

    fn relabelled(&mut self, node: NodeId, books: &Books) {
        for (job, group, task, standing) in books.on_node(node) {
            let wish = books.jobs.get(&job).and_then(|spec| required(&spec.groups, group));
            let (Some(wish), Some(known)) = (wish, self.domains.get(&(job, group))) else { continue };
            let now = books.domain(&wish.topology.topology, &wish.topology.level, node);
            if !standing.stopping && now.as_ref() != Some(known) {
                self.strayed.insert((job, group, task));
            }
        }
    }
}

fn required(groups: &[GroupSpec], group: u16) -> Option<&GroupSpec> {
    groups.get(usize::from(group)).filter(|spec| spec.topology.mode == TopologyMode::Required)
}
