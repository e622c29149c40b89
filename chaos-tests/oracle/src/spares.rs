//! Spares, the room that is held for tasks a group may lose: wherever an entry touched one, there is room for it beside
//! what stands (P1), it is in the domain of its group (P5), its group still wants it (P6), and a task of its group may
//! stand there (P8). Books: what is held where, from `SpareHeld` and `SpareGone` alone. (Used first: `p7_spares`.
//! Charged: `p8_quota`.)

use crate::books::{Books, Standing};
use crate::facts::{Fact, Rules};
use crate::history::Broken;
use crate::p6_admission::Admissions;
use crate::p8_hard_constraints::objection;
use crate::rooms::users_of_ports;
use ohm_model::{
    Amounts, EventKind, GroupSpec, HostPort, Index, JobId, JobSpec, NodeHealth, NodeId, RepairPolicy, TopologyMode,
    resources,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is held, and what the entry at hand touches.
#[derive(Default)]
pub(crate) struct Spares {
    held: BTreeMap<(JobId, u16), BTreeMap<NodeId, u32>>,
    /// Jobs that are over or suspended.
    closed: BTreeSet<JobId>,
    /// Jobs that held spares when topologies changed: what their domains were is not known.
    unsure: BTreeSet<JobId>,
    touched_nodes: BTreeSet<NodeId>,
    touched_jobs: BTreeSet<JobId>,
    now_ms: u64,
}

impl Spares {
    /// Takes note of the rules of an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, rules: &Rules<'_>) {
        self.touched_nodes.clear();
        self.touched_jobs.clear();
        if !rules.topologies.is_empty() {
            self.unsure.extend(self.held.keys().map(|(job, _)| *job));
        }
    }

    /// Where spares of the group are held, and for how many tasks.
    pub(crate) fn of(&self, job: JobId, group: u16) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.held.get(&(job, group)).into_iter().flatten().map(|(node, count)| (*node, *count))
    }

    /// The spares on `node`: whose, and for how many tasks.
    pub(crate) fn on_node(&self, node: NodeId) -> impl Iterator<Item = (JobId, u16, u32)> + '_ {
        let here = move |on_nodes: &BTreeMap<NodeId, u32>| on_nodes.get(&node).copied();
        self.held.iter().filter_map(move |((job, group), on_nodes)| Some((*job, *group, here(on_nodes)?)))
    }

    /// Whether spares of other jobs are held on `node`.
    pub(crate) fn has_others(&self, job: JobId, node: NodeId) -> bool {
        self.held.iter().any(|((other, _), on_nodes)| *other != job && on_nodes.contains_key(&node))
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        let (node, job) = match *fact {
            Fact::Registered { node, .. } => (Some(node), None),
            Fact::Submitted { .. } => (None, None),
            Fact::Updated { job, .. } => (None, Some(job)),
            Fact::Happened { kind, .. } => (node_of(kind), job_of(kind)),
        };
        self.touched_nodes.extend(node);
        self.touched_jobs.extend(job);
        let Fact::Happened { at_ms, kind } = *fact else { return };
        self.now_ms = self.now_ms.max(at_ms);
        match kind {
            EventKind::SpareHeld { job, group, node, count, .. } => {
                *self.held.entry((*job, *group)).or_default().entry(*node).or_insert(0) += count;
                self.judge_node(index, (*job, *group, *node), (books, admissions), true, broken);
            }
            EventKind::SpareGone { job, group, node, count, .. } => {
                self.let_go(index, (*job, *group, *node, *count), books, broken);
            }
            EventKind::JobState { job, state, .. } => match state.as_str() {
                "pending" | "running" => drop(self.closed.remove(job)),
                _ => drop(self.closed.insert(*job)),
            },
            _ => {}
        }
    }

    fn let_go(
        &mut self,
        index: Index,
        (job, group, node, count): (JobId, u16, NodeId, u32),
        books: &Books,
        broken: &mut Vec<Broken>,
    ) {
        let on_nodes = self.held.entry((job, group)).or_default();
        let left = on_nodes.get(&node).copied().unwrap_or(0);
        if left < count {
            let what =
                format!("entry {index}: {count} spares of {} on {node} are gone, of {left}", name(books, job, group));
            broken.push(Broken::new("P1", what));
        }
        on_nodes.insert(node, left.saturating_sub(count));
        on_nodes.retain(|_, count| *count > 0);
        self.held.retain(|_, on_nodes| !on_nodes.is_empty());
        if !self.held.keys().any(|(other, _)| *other == job) {
            self.unsure.remove(&job);
        }
    }

    /// Judges what must hold when the entry is over, of what it touched.
    pub(crate) fn entry_over(
        &self,
        index: Index,
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        for ((job, group), on_nodes) in &self.held {
            let on_touched = on_nodes.keys().any(|node| self.touched_nodes.contains(node));
            if on_touched || self.touched_jobs.contains(job) {
                self.judge_need(index, (*job, *group), books, broken);
                self.judge_domain(index, (*job, *group), books, broken);
            }
            for node in on_nodes.keys().filter(|node| self.touched_nodes.contains(node)) {
                self.judge_node(index, (*job, *group, *node), (books, admissions), false, broken);
            }
        }
        for node in &self.touched_nodes {
            self.judge_room(index, *node, books, broken);
        }
    }

    /// P1: what stands on the node and the spares held there find room beside each other. What a spare does not ask
    /// for may be overdrawn: a node that shrank keeps what stands there for a while. Room that moves or preemptors are
    /// given is not counted.
    fn judge_room(&self, index: Index, node: NodeId, books: &Books, broken: &mut Vec<Broken>) {
        let here = |((job, group), on_nodes): (&(JobId, u16), &BTreeMap<NodeId, u32>)| {
            let count = on_nodes.get(&node)?;
            let spec = books.jobs.get(job).and_then(|spec| spec.groups.get(usize::from(*group)))?;
            Some(((*job, *group), spec, *count))
        };
        let spares: Vec<((JobId, u16), &GroupSpec, u32)> = self.held.iter().filter_map(here).collect();
        let Some(book) = books.nodes.get(&node).filter(|_| !spares.is_empty()) else { return };
        let mut needed = Amounts::new();
        let mut ports: BTreeMap<HostPort, u32> = BTreeMap::new();
        for (_, spec, count) in &spares {
            add(&mut needed, &mut ports, spec, *count);
        }
        let (asked, asked_ports) = (needed.clone(), ports.clone());
        for (job, group, task, _) in books.on_node(node) {
            if let Some(spec) = books.made_of(job, group, task) {
                add(&mut needed, &mut ports, spec, 1);
            }
        }
        for (resource, amount) in needed.iter().filter(|(resource, _)| asked.get(*resource).is_some_and(|of| *of > 0)) {
            let capacity = book.spec.capacity.get(resource).copied().unwrap_or(0);
            if *amount > capacity {
                let what = format!(
                    "entry {index}: node {node} holds {amount} {resource} of {capacity}, the spares there counted"
                );
                broken.push(Broken::new("P1", what));
            }
        }
        let is_asked = |port: &HostPort| asked_ports.contains_key(port);
        if let Some((port, users)) = users_of_ports(&ports).find(|(port, users)| *users > 1 && is_asked(port)) {
            let what = format!("entry {index}: port {port} of node {node} has {users} users, the spares there counted");
            broken.push(Broken::new("P1", what));
        }
    }

    /// P5: a spare is where the tasks of its group, and of those placed with it, stand. How far a repair that widens
    /// has gone is judged elsewhere; what is to stop may be on a node that has left the domain.
    fn judge_domain(&self, index: Index, (job, group): (JobId, u16), books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job).filter(|spec| spec.repair.policy != RepairPolicy::Widen) else { return };
        let Some(wish) = spec.groups.get(usize::from(group)) else { return };
        if wish.topology.mode != TopologyMode::Required || self.unsure.contains(&job) {
            return;
        }
        let domain = |node: NodeId| books.domain(&wish.topology.topology, &wish.topology.level, node);
        let stands = partners(spec, group).flat_map(|other| books.live(job, other)).find(stays);
        let Some(fixed) = stands.and_then(|(_, standing)| domain(standing.node)) else { return };
        for (node, _) in self.of(job, group) {
            let found = domain(node);
            if found.as_ref() != Some(&fixed) {
                let what = format!(
                    "entry {index}: a spare of {} is held in {found:?}, it stands in {fixed:?}",
                    name(books, job, group)
                );
                broken.push(Broken::new("P5", what));
            }
        }
    }

    /// P6: nothing is held for a job that is over, suspended, or of which nothing stands, nor more than is asked for. A
    /// service starts group by group, and what has begun of one is not told.
    fn judge_need(&self, index: Index, (job, group): (JobId, u16), books: &Books, broken: &mut Vec<Broken>) {
        let count: u32 = self.of(job, group).map(|(_, count)| count).sum();
        let Some(spec) = books.jobs.get(&job) else { return };
        let wanted = spec.groups.get(usize::from(group)).map_or(0, |wish| wish.spares);
        let stands = || (0..spec.groups.len() as u16).any(|other| books.live(job, other).any(|task| stays(&task)));
        let why = match () {
            () if self.closed.contains(&job) => "is over or suspended".to_string(),
            () if count > wanted => format!("asks for {wanted}"),
            () if !books.is_endless(job) && !stands() => "stands nowhere".to_string(),
            () => return,
        };
        let what = format!("entry {index}: {count} spares are held for {}, which {why}", name(books, job, group));
        broken.push(Broken::new("P6", what));
    }

    /// P8: a task of the group might stand there. One that is `new` was held on a node that takes work; a node that is
    /// only suspected since then keeps it.
    fn judge_node(
        &self,
        index: Index,
        (job, group, node): (JobId, u16, NodeId),
        (books, admissions): (&Books, &Admissions),
        new: bool,
        broken: &mut Vec<Broken>,
    ) {
        let Some(wish) = books.jobs.get(&job).and_then(|spec| spec.groups.get(usize::from(group))) else { return };
        let wish = admissions.filtered(job, wish);
        let standing = books.live(job, group).filter(|(_, standing)| standing.node == node).count();
        let held = self.of(job, group).find(|(on, _)| *on == node).map_or(0, |(_, count)| count);
        // What else this command does may take the room: what is over is given back before the entry is.
        let beside = if new { 0 } else { standing + held as usize };
        let why = match books.nodes.get(&node) {
            None => Some("the node is not there".to_string()),
            Some(book) if !new && book.health == NodeHealth::Suspect => None,
            Some(book) => objection(&wish, book, beside, self.now_ms),
        };
        if let Some(why) = why {
            let what = format!("entry {index}: a spare of {} is held on {node}, but {why}", name(books, job, group));
            broken.push(Broken::new("P8", what));
        }
    }
}

fn add(needed: &mut Amounts, ports: &mut BTreeMap<HostPort, u32>, spec: &GroupSpec, count: u32) {
    for (resource, amount) in &spec.requests {
        *needed.entry(resource.clone()).or_insert(0) += amount * i64::from(count);
    }
    *needed.entry(resources::PODS.to_string()).or_insert(0) += i64::from(count);
    for port in &spec.ports {
        *ports.entry(*port).or_insert(0) += count;
    }
}

fn stays((_, standing): &(u32, Standing)) -> bool {
    !standing.stopping
}

/// The groups that share one domain with `group` and say so in the same words, itself among them.
fn partners(spec: &JobSpec, group: u16) -> impl Iterator<Item = u16> + '_ {
    let own = &spec.groups[usize::from(group)];
    (0..spec.groups.len() as u16).filter(move |other| {
        let found = &spec.groups[usize::from(*other)];
        let together = !own.place_with.is_empty() && own.place_with == found.place_with;
        *other == group || (together && own.topology == found.topology)
    })
}

fn name(books: &Books, job: JobId, group: u16) -> String {
    let spec = books.jobs.get(&job);
    let wish = spec.and_then(|spec| spec.groups.get(usize::from(group)));
    format!("{}/{}", spec.map_or("?", |spec| &spec.name), wish.map_or("?", |wish| &wish.name))
}

/// The node that an event is about, where it may change what the node takes.
pub(crate) fn node_of(kind: &EventKind) -> Option<NodeId> {
    match kind {
        EventKind::Placed { node, .. }
        | EventKind::Ended { node, .. }
        | EventKind::SpareHeld { node, .. }
        | EventKind::SpareGone { node, .. }
        | EventKind::NodeHealth { node, .. }
        | EventKind::NodeDraining { node, .. }
        | EventKind::NodeUndrained { node, .. }
        | EventKind::NodeCordoned { node, .. }
        | EventKind::NodeCondition { node, .. }
        | EventKind::NodeReleased { node, .. }
        | EventKind::NodeReleasing { node, .. } => Some(*node),
        _ => None,
    }
}

fn job_of(kind: &EventKind) -> Option<JobId> {
    match kind {
        EventKind::Placed { job, .. }
        | EventKind::Ended { job, .. }
        | EventKind::Stopping { job, .. }
        | EventKind::SpareHeld { job, .. }
        | EventKind::SpareGone { job, .. }
        | EventKind::JobState { job, .. } => Some(*job),
        _ => None,
    }
}
