//! P5: a required topology holds from the first start through every repair; only a repair of a job that says `widen`
//! leaves it, up to the level it names. Books: the domain that each group with such a wish stands in, by the labels of
//! its nodes.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use crate::p7_repairs::Repairs;
use ohm_model::{EventKind, GroupSpec, Index, JobId, JobSpec, NodeId, RepairPolicy, TopologyMode};
use std::collections::{BTreeMap, BTreeSet};

/// Where groups with a required topology stand.
#[derive(Default)]
pub(crate) struct RequiredTopology {
    domains: BTreeMap<(JobId, u16), Vec<String>>,
    /// Those of them that a repair took to the wider level.
    widened: BTreeSet<(JobId, u16)>,
    /// Tasks whose node left their domain in the entry at hand, and that have not been told to stop.
    strayed: BTreeSet<(JobId, u16, u32)>,
}

impl RequiredTopology {
    /// Judges one fact; `books` knows of it already, `repairs` does not.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, repairs): (&Books, &Repairs),
        broken: &mut Vec<Broken>,
    ) {
        match *fact {
            Fact::Registered { node, .. } => self.relabelled(node, books),
            Fact::Happened { kind: EventKind::Placed { job, group, node, .. }, .. } => {
                if repairs.is_hurt(*job, *group) {
                    self.widen(*job, *group, *node, books);
                }
                self.placed(index, *job, *group, *node, books, broken);
            }
            Fact::Happened { kind: EventKind::Stopping { job, group, task, .. }, .. } => {
                self.strayed.remove(&(*job, *group, *task));
            }
            Fact::Happened { kind: EventKind::Ended { job, group, task, .. }, .. } => {
                self.strayed.remove(&(*job, *group, *task));
                if books.live(*job, *group).next().is_none() {
                    self.domains.remove(&(*job, *group));
                    self.widened.remove(&(*job, *group));
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

    /// A repair that leaves the domain takes the group, and those it is placed with, to the wider level.
    fn widen(&mut self, job: JobId, group: u16, node: NodeId, books: &Books) {
        let Some(spec) = books.jobs.get(&job).filter(|spec| spec.repair.policy == RepairPolicy::Widen) else { return };
        let Some(wish) = required(&spec.groups, group) else { return };
        let at = |level: &str, node| books.domain(&wish.topology.topology, level, node);
        // A group that lost all its tasks is bound by those it is placed with.
        let here = at(&wish.topology.level, node);
        let known = partners(spec, group).find_map(|other| self.domains.get(&(job, other)));
        if self.is_widened(spec, job, group) || known.is_none() || known == here.as_ref() {
            return;
        }
        for other in partners(spec, group).filter(|other| required(&spec.groups, *other).is_some()) {
            let Some(known) = self.domains.get(&(job, other)) else { continue };
            // What stands there tells the wider domain, whatever its levels are called. Where all that stands has left
            // it with this node, the path of the domain begins with the wider one.
            let stands = books.live(job, other).map(|(_, standing)| standing.node).find(|&stood| stood != node);
            let depth = || at(&spec.repair.widen_to, node).map(|wide| wide.len());
            let wide = match stands {
                Some(stood) => at(&spec.repair.widen_to, stood),
                None => depth().map(|depth| known.iter().take(depth).cloned().collect()),
            };
            let Some(wide) = wide else { continue };
            self.domains.insert((job, other), wide);
            self.widened.insert((job, other));
        }
    }

    fn placed(&mut self, index: Index, job: JobId, group: u16, node: NodeId, books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let Some(wish) = required(&spec.groups, group) else { return };
        let Some(domain) = self.domain_of(spec, job, group, node, books) else {
            let what = format!("entry {index}: {}/{} stands on {node}, outside its topology", spec.name, wish.name);
            return broken.push(Broken::new("P5", what));
        };
        for (other, found) in spec.groups.iter().enumerate() {
            let other = other as u16;
            let same_level =
                found.topology.mode == TopologyMode::Required && found.topology.level == wish.topology.level;
            let Some(known) = self.domains.get(&(job, other)) else { continue };
            if are_together(spec, group, other) && same_level && *known != domain {
                let what = format!(
                    "entry {index}: {}/{} is placed in {domain:?} while {} stands in {known:?}",
                    spec.name, wish.name, found.name
                );
                broken.push(Broken::new("P5", what));
            }
        }
        self.domains.entry((job, group)).or_insert(domain);
        if self.is_widened(spec, job, group) {
            self.widened.insert((job, group));
        }
    }

    /// Whether a repair has taken the group, or one that it is placed with, to the wider level.
    pub(crate) fn is_widened(&self, spec: &JobSpec, job: JobId, group: u16) -> bool {
        let is_bound = |other: &u16| required(&spec.groups, *other).is_some();
        partners(spec, group).filter(is_bound).any(|other| self.widened.contains(&(job, other)))
    }

    /// The domain of `node` at the level that binds the group now.
    fn domain_of(&self, spec: &JobSpec, job: JobId, group: u16, node: NodeId, books: &Books) -> Option<Vec<String>> {
        let wish = required(&spec.groups, group)?;
        let level = match self.is_widened(spec, job, group) {
            true => &spec.repair.widen_to,
            false => &wish.topology.level,
        };
        books.domain(&wish.topology.topology, level, node)
    }

    fn relabelled(&mut self, node: NodeId, books: &Books) {
        for (job, group, task, standing) in books.on_node(node) {
            let (Some(spec), Some(known)) = (books.jobs.get(&job), self.domains.get(&(job, group))) else { continue };
            let now = self.domain_of(spec, job, group, node, books);
            if !standing.stopping && now.as_ref() != Some(known) {
                self.strayed.insert((job, group, task));
            }
        }
    }
}

fn required(groups: &[GroupSpec], group: u16) -> Option<&GroupSpec> {
    groups.get(usize::from(group)).filter(|spec| spec.topology.mode == TopologyMode::Required)
}

/// The groups that share one domain with `group`, itself among them.
fn partners(spec: &JobSpec, group: u16) -> impl Iterator<Item = u16> + '_ {
    (0..spec.groups.len() as u16).filter(move |&other| are_together(spec, group, other))
}

/// Whether two groups share their domain, or are the same.
fn are_together(spec: &JobSpec, group: u16, other: u16) -> bool {
    let label = |at: u16| spec.groups[usize::from(at)].place_with.as_str();
    group == other || (!label(group).is_empty() && label(group) == label(other))
}
