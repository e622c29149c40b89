//! P8, rules about other tasks: whoever is placed stands near what its group must be near, away from what it must not
//! be near and from what must not be near it, and no less evenly spread than it says. What Kubernetes' words mean is
//! spelled out here once more, on purpose: every task that stands is looked at, nothing is counted ahead.

use crate::books::{Books, NodeBook};
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p6_admission::Admissions;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::selector::{Labels, Operator, Requirement};
use ohm_model::{
    Command, EventKind, GroupSpec, Index, JobId, JobSpec, Namespace, NeighbourTerm, Neighbours, NodeHealth, NodeId,
    OnDisconnect, Outcome, SpreadConstraint, TaintEffect, split_job_name,
};
use std::collections::{BTreeMap, BTreeSet};

type Task = (JobId, u16, u32);

/// The books.
#[derive(Default)]
pub(crate) struct Neighbourhoods {
    namespaces: BTreeMap<String, Labels>,
    /// What the tasks that stand ask for: their group asked for it when they were placed.
    carried: BTreeMap<Task, Neighbours>,
    /// Where tasks stood that may live on although their node was lost.
    cut_off: BTreeSet<(Task, NodeId)>,
}

/// One task where it stands.
#[derive(Clone, Copy)]
struct Stands<'b> {
    task: Task,
    node: &'b NodeBook,
    stopping: bool,
    job: &'b JobSpec,
    labels: &'b Labels,
}

impl Stands<'_> {
    fn namespace(&self) -> &str {
        split_job_name(&self.job.name).0
    }
}

impl Neighbourhoods {
    /// Takes note of the namespaces that an entry puts.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>]) {
        for (command, outcome) in taken {
            if let (Command::PutNamespace(Namespace { name, labels }), Outcome::Done) = (command, outcome) {
                self.namespaces.insert(name.clone(), labels.clone());
            }
        }
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        let Fact::Happened { kind, .. } = *fact else { return };
        match *kind {
            EventKind::Placed { job, group, first, count, node } => {
                let Some(wish) = books.jobs.get(&job).and_then(|spec| spec.groups.get(usize::from(group))) else {
                    return;
                };
                let returns = books.has_returned(job, group, first);
                for task in first..first + count {
                    self.cut_off.retain(|(known, _)| *known != (job, group, task));
                    match &wish.neighbours {
                        Some(asked) if !returns => {
                            drop(self.carried.insert((job, group, task), Neighbours::clone(asked)));
                        }
                        Some(_) => {}
                        None => drop(self.carried.remove(&(job, group, task))),
                    }
                }
                if !returns {
                    let wish = admissions.filtered(job, wish);
                    let placed = (first..first + count).map(|task| (job, group, task)).collect();
                    let found = self.objection(books, &wish, (&placed, node));
                    broken.extend(found.map(|why| {
                        let job = books.jobs.get(&job).map_or("", |spec| spec.name.as_str());
                        let on = books.nodes.get(&node).map_or("a node", |book| book.spec.name.as_str());
                        let what = format!("entry {index} places {job}/{} on {on}, but {why}", wish.name);
                        Broken::new("P8", what)
                    }));
                }
            }
            EventKind::Ended { job, group, task, node, .. } => {
                let keeps = |spec: &JobSpec| spec.on_disconnect == OnDisconnect::Keep;
                let lost = books.nodes.get(&node).is_none_or(|book| book.health == NodeHealth::Lost);
                if lost && books.jobs.get(&job).is_some_and(keeps) {
                    self.cut_off.insert(((job, group, task), node));
                }
            }
            _ => {}
        }
    }

    /// Why tasks of a group that were just placed may not stand where they do.
    fn objection(&self, books: &Books, wish: &GroupSpec, (placed, node): (&BTreeSet<Task>, NodeId)) -> Option<String> {
        if wish.neighbours.is_none() && self.carried.is_empty() {
            return None;
        }
        let node = books.nodes.get(&node)?;
        let standing = standing(books);
        let own = *standing.iter().find(|stands| placed.contains(&stands.task))?;
        self.misplaced(books, wish, &own, (&standing, placed, node))
    }

    /// Why one more task of a group may not stand on a node, that of the others the tasks around it leave room for.
    pub(crate) fn keeps_away(
        &self,
        books: &Books,
        (job, group): (JobId, u16),
        wish: &GroupSpec,
        node: NodeId,
    ) -> Option<String> {
        if wish.neighbours.is_none() && self.carried.is_empty() {
            return None;
        }
        let (spec, node) = (books.jobs.get(&job)?, books.nodes.get(&node)?);
        let task = (job, group, u32::MAX);
        let own = Stands { task, node, stopping: false, job: spec, labels: &wish.labels };
        let standing: Vec<Stands<'_>> = standing(books).into_iter().chain([own]).collect();
        self.misplaced(books, wish, &own, (&standing, &[task].into(), node))
    }

    /// Whether any rule about other tasks may keep tasks of a group away from nodes.
    pub(crate) fn concern(&self, books: &Books, (job, group): (JobId, u16)) -> bool {
        let Some(spec) = books.jobs.get(&job) else { return false };
        let Some(wish) = spec.groups.get(usize::from(group)) else { return false };
        let Some(node) = books.nodes.values().next().filter(|_| !self.carried.is_empty()) else {
            return wish.neighbours.is_some();
        };
        let own = Stands { task: (job, group, u32::MAX), node, stopping: false, job: spec, labels: &wish.labels };
        let standing = standing(books);
        let mut terms = standing.iter().flat_map(|there| {
            let carried = self.carried.get(&there.task).into_iter().flat_map(|asked| &asked.anti_affinity);
            carried.map(move |term| (there, term))
        });
        wish.neighbours.is_some() || terms.any(|(there, term)| self.means(term, there, &own))
    }

    /// Why `own`, which is among those that stand, may not stand on `node` with those that are `placed` there.
    fn misplaced(
        &self,
        books: &Books,
        wish: &GroupSpec,
        own: &Stands<'_>,
        (standing, placed, node): (&[Stands<'_>], &BTreeSet<Task>, &NodeBook),
    ) -> Option<String> {
        let others = || standing.iter().filter(|stands| stands.task != own.task);
        for there in others() {
            let asked = self.carried.get(&there.task).into_iter().flat_map(|asked| &asked.anti_affinity);
            let mut met = asked.filter(|term| is_together(there.node, node, &term.topology_key));
            if let Some(term) = met.find(|term| self.means(term, there, own)) {
                let (name, key) = (&there.job.name, &term.topology_key);
                return Some(format!("a task of {name} in its {key} must not be near it"));
            }
        }
        let asked = wish.neighbours.as_ref()?;
        for term in &asked.anti_affinity {
            let near = |there: &&Stands<'_>| is_together(there.node, node, &term.topology_key);
            if let Some(there) = others().filter(near).find(|there| self.means(term, own, there)) {
                return Some(format!("it must not be near {} by {}", there.job.name, term.topology_key));
            }
        }
        if let Some(why) = self.is_far(books, asked, own, (standing, placed, node)) {
            return Some(why);
        }
        let uneven = |constraint: &&SpreadConstraint| is_uneven(books, wish, constraint, own, standing);
        let constraint = asked.hard_spread().find(uneven)?;
        Some(format!("its tasks would be spread over {} too unevenly", constraint.topology_key))
    }

    /// What it must be near and is not.
    fn is_far(
        &self,
        books: &Books,
        asked: &Neighbours,
        own: &Stands<'_>,
        (standing, placed, node): (&[Stands<'_>], &BTreeSet<Task>, &NodeBook),
    ) -> Option<String> {
        let meets = |there: &Stands<'_>| asked.affinity.iter().all(|term| self.means(term, own, there));
        let before: Vec<&Stands<'_>> =
            standing.iter().filter(|there| !placed.contains(&there.task) && meets(there)).collect();
        // The first of its own may stand where it likes; the others of its row stand with it. Who stands on a node
        // without the label is in no domain.
        let is_somewhere =
            |there: &&Stands<'_>| asked.affinity.iter().any(|term| value(there.node, &term.topology_key).is_some());
        let is_first = !before.iter().any(is_somewhere) && meets(own);
        let has_labels = asked.affinity.iter().all(|term| value(node, &term.topology_key).is_some());
        let near = |term: &&NeighbourTerm| before.iter().any(|there| is_together(there.node, node, &term.topology_key));
        let far = asked.affinity.iter().find(|term| !(near(term) || is_first && has_labels))?;
        (!self.are_cut_off(books)).then(|| format!("no task that it must be near stands in its {}", far.topology_key))
    }

    /// Whether tasks are cut off: one may stand there again by now, or may have been all that somebody must be near.
    fn are_cut_off(&self, books: &Books) -> bool {
        self.cut_off.iter().any(|((job, ..), _)| books.jobs.contains_key(job))
    }

    /// Whether it is known of whom a group must be near where they stand.
    pub(crate) fn is_known(&self, books: &Books, wish: &GroupSpec) -> bool {
        let is_near_some = wish.neighbours.as_ref().is_some_and(|asked| !asked.affinity.is_empty());
        !is_near_some || !self.are_cut_off(books)
    }

    /// Whether a term of `who` means the task `whom`.
    fn means(&self, term: &NeighbourTerm, who: &Stands<'_>, whom: &Stands<'_>) -> bool {
        let namespace = whom.namespace();
        let by_name = match (term.namespaces.is_empty(), &term.namespace_selector) {
            (true, None) => namespace == who.namespace(),
            _ => term.namespaces.contains(namespace),
        };
        let by_label = term.namespace_selector.as_ref().is_some_and(|selector| {
            let mut labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
            labels.insert("kubernetes.io/metadata.name".into(), namespace.into());
            selector.iter().all(|requirement| fits(requirement, &labels))
        });
        (by_name || by_label) && selected(&term.selector, whom.labels)
    }
}

/// Every task that stands, with where and as what.
fn standing(books: &Books) -> Vec<Stands<'_>> {
    let mut standing = Vec::new();
    for (&id, job) in &books.jobs {
        for (group, spec) in (0u16..).zip(&job.groups) {
            for (task, there) in books.live(id, group) {
                let Some(node) = books.nodes.get(&there.node) else { continue };
                let task = (id, group, task);
                standing.push(Stands { task, node, stopping: there.stopping, job, labels: &spec.labels });
            }
        }
    }
    standing
}

/// Whether the tasks that a constraint counts are spread more unevenly, by the domain of `own`, than it allows.
fn is_uneven(
    books: &Books,
    wish: &GroupSpec,
    constraint: &SpreadConstraint,
    own: &Stands<'_>,
    standing: &[Stands<'_>],
) -> bool {
    let key = &constraint.topology_key;
    let Some(domain) = value(own.node, key) else { return true };
    let hard: Vec<&String> =
        wish.neighbours.iter().flat_map(|asked| asked.hard_spread()).map(|one| &one.topology_key).collect();
    let counts = |node: &NodeBook| {
        let lives = node.health != NodeHealth::Lost && hard.iter().all(|key| value(node, key).is_some());
        lives
            && (!constraint.honours_affinity || is_admitted(wish, node))
            && (!constraint.honours_taints || is_tolerated(wish, node))
    };
    let mut tasks: BTreeMap<&str, u64> = BTreeMap::new();
    for node in books.nodes.values().filter(|node| counts(node)) {
        tasks.extend(value(node, key).map(|domain| (domain, 0)));
    }
    let is_said = constraint.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    let is_meant = |there: &&Stands<'_>| {
        let same = there.namespace() == own.namespace();
        is_said && !there.stopping && same && selected(&constraint.selector, there.labels) && counts(there.node)
    };
    for there in standing.iter().filter(is_meant) {
        if let Some(tasks) = value(there.node, key).and_then(|domain| tasks.get_mut(domain)) {
            *tasks += 1;
        }
    }
    let fewest = match (tasks.len() as u64) < u64::from(constraint.min_domains) {
        true => 0,
        false => tasks.values().copied().min().unwrap_or(0),
    };
    let here = tasks.get(domain).copied().unwrap_or(0);
    here > fewest + u64::from(constraint.max_skew)
}

/// Whether two nodes are in one domain of this label.
fn is_together(one: &NodeBook, other: &NodeBook, key: &str) -> bool {
    value(one, key).is_some_and(|domain| value(other, key) == Some(domain))
}

fn value<'n>(node: &'n NodeBook, key: &str) -> Option<&'n str> {
    match node.spec.labels.get(key) {
        None if key == HOSTNAME_LABEL => Some(&node.spec.name),
        value => value.map(String::as_str),
    }
}

fn is_admitted(wish: &GroupSpec, node: &NodeBook) -> bool {
    let of_labels = wish.node_selector.iter().all(|(key, wanted)| value(node, key) == Some(wanted.as_str()));
    of_labels
        && (wish.affinity.is_empty() || wish.affinity.iter().any(|term| crate::p8_hard_constraints::meets(node, term)))
}

fn is_tolerated(wish: &GroupSpec, node: &NodeBook) -> bool {
    let hard = node.own_taints().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
    let mut hard = hard
        .map(|taint| wish.tolerations.iter().any(|toleration| crate::p8_hard_constraints::covers(toleration, taint)));
    hard.all(|covered| covered)
}

fn selected(selector: &Option<Vec<Requirement>>, labels: &Labels) -> bool {
    selector.as_ref().is_some_and(|all| all.iter().all(|requirement| fits(requirement, labels)))
}

/// Whether labels are as a requirement wants them.
pub(crate) fn fits(requirement: &Requirement, labels: &Labels) -> bool {
    let label = labels.get(&requirement.key);
    let is_named = label.is_some_and(|label| requirement.values.iter().any(|value| value == label));
    match requirement.operator {
        Operator::In => is_named,
        Operator::NotIn => !is_named,
        Operator::Exists => label.is_some(),
        Operator::DoesNotExist | Operator::Gt | Operator::Lt => label.is_none(),
    }
}
