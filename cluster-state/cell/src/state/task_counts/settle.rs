//! What a command has changed of shapes, jobs and nodes is counted when it is over. Runs are counted as they move.

use super::asks::Asks;
use super::counter::{Counter, CounterId, CounterSpec};
use super::counts::{Inner, TaskCounts};
use super::fill::{claimed_by, claimed_on};
use super::ground::{Ground, GroundId, Identity};
use super::marks::{Marked, Marks, MarksId};
use crate::cell::Cell;
use ohm_model::neighbours::bare_namespace;
use ohm_model::selector::Labels;
use ohm_model::{GroupIndex, JobId, NodeId, ShapeId, split_job_name};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Counts everything anew: after a restore, and when namespaces mean others.
pub(crate) fn count_anew(cell: &mut Cell) {
    cell.task_counts = TaskCounts::default();
    drop(cell.shapes.take_asking());
    let shapes = cell.shapes.slab().iter().filter(|(_, (shape, _))| shape.neighbours.is_some());
    let shapes: Vec<ShapeId> = shapes.map(|(slot, _)| ShapeId(slot)).collect();
    let nodes: Vec<NodeId> = cell.nodes.iter().map(|(node, _)| node).collect();
    let jobs: Vec<JobId> = cell.jobs.iter().map(|job| job.id).collect();
    settle(cell, &shapes, &nodes, &jobs);
}

/// The same cell with everything counted anew.
pub(crate) fn counted_anew(mut cell: Cell) -> Cell {
    count_anew(&mut cell);
    cell
}

/// Counts what has changed: shapes that came or went, nodes, jobs. Returns whether any count may be another one.
pub(crate) fn settle(cell: &mut Cell, shapes: &[ShapeId], nodes: &[NodeId], jobs: &[JobId]) -> bool {
    let mut arc = std::mem::take(&mut cell.task_counts).inner.unwrap_or_default();
    let inner = Arc::make_mut(&mut arc);
    let mut changed = !shapes.is_empty();
    nodes.iter().for_each(|node| changed |= inner.look_at(cell, *node));
    if inner.jobs.is_empty() {
        cell.jobs.iter().for_each(|job| changed |= inner.mark(cell, job.id));
    } else {
        jobs.iter().for_each(|job| changed |= inner.mark(cell, *job));
    }
    shapes.iter().for_each(|shape| inner.settle_shape(cell, *shape, jobs));
    let asks_any = !inner.asks.is_empty();
    cell.task_counts = TaskCounts { inner: asks_any.then_some(arc) };
    changed
}

impl Inner {
    /// Looks at what decides the domains of `node`, and moves its tasks to other domains where that has changed.
    fn look_at(&mut self, cell: &Cell, node: NodeId) -> bool {
        let identity = Identity::of(&cell.nodes, node);
        if self.identities.get(&node).copied() == identity {
            return false;
        }
        match identity {
            Some(identity) => drop(self.identities.insert(node, identity)),
            None => drop(self.identities.remove(&node)),
        }
        let looked = |(id, ground): (&GroundId, &mut Arc<Ground>)| {
            Arc::make_mut(ground).look_at(&cell.nodes, node).map(|change| (*id, change))
        };
        let changes: Vec<_> = self.grounds.iter_mut().filter_map(looked).collect();
        if changes.is_empty() {
            return false;
        }
        for claimed in claimed_on(cell, node) {
            for id in self.counting((claimed.shape, claimed.job, claimed.group), claimed.stops) {
                let ground = self.counters.get(&id).map(|counter| counter.ground);
                let change = changes.iter().find(|(changed, _)| Some(*changed) == ground);
                let Some((_, (former, now))) = change else { continue };
                former.iter().for_each(|domain| self.add(id, *domain, -1));
                now.iter().for_each(|domain| self.add(id, *domain, 1));
            }
        }
        true
    }

    /// The counters that count a run with this shape of this group.
    fn counting(&self, (shape, job, group): (ShapeId, JobId, GroupIndex), stops: bool) -> Vec<CounterId> {
        let marks = self.jobs.get(&job).and_then(|marked| self.marks.get(&marked.marks(group)?));
        let counted = marks.into_iter().flat_map(|marks| &marks.counted);
        let carried = self.asks.get(&shape).into_iter().flat_map(|(_, asks)| &asks.carried);
        let skips = |id: &&CounterId| self.counters.get(*id).is_some_and(|counter| counter.skips_stopping());
        counted.chain(carried).filter(|id| !(stops && skips(id))).copied().collect()
    }

    /// Looks up by what the groups of `job` are meant, and counts their tasks otherwise where that has changed.
    fn mark(&mut self, cell: &Cell, id: JobId) -> bool {
        let job = cell.jobs.get(id);
        let known = self.jobs.get(&id).cloned();
        if let (Some(job), Some(known)) = (job, &known)
            && Arc::ptr_eq(&job.spec, &known.spec)
        {
            return false;
        }
        let mut marked = Vec::new();
        for (at, group) in job.into_iter().flat_map(|job| job.spec.groups.iter().enumerate()) {
            let namespace = job.map_or("", |job| split_job_name(&job.spec.name).0);
            let marks = self.join_marks(cell, namespace, &group.labels);
            let group = GroupIndex(at as u16);
            let former = known.as_ref().and_then(|known| known.marks(group));
            if former != Some(marks) {
                self.change_marks(cell, (id, group), (former, marks));
            }
            marked.push(marks);
        }
        for (at, former) in known.iter().flat_map(|known| known.groups.iter().enumerate()) {
            if marked.get(at) != Some(former) {
                self.leave_marks(*former, (id, GroupIndex(at as u16)));
            }
        }
        match job {
            Some(job) => drop(self.jobs.insert(id, Marked { spec: Arc::clone(&job.spec), groups: marked })),
            None => drop(self.jobs.remove(&id)),
        }
        known.is_some()
    }

    fn join_marks(&mut self, cell: &Cell, namespace: &str, labels: &Labels) -> MarksId {
        let content = (namespace.to_string(), labels.clone());
        if let Some(&known) = self.by_labels.get(&content) {
            return known;
        }
        let id = MarksId(self.number());
        let mut marks = Marks { namespace: content.0.clone(), labels: content.1.clone(), ..Marks::default() };
        self.counters.iter().for_each(|(id, counter)| note_counter(cell, &mut marks, *id, counter));
        self.by_labels.insert(content, id);
        self.marks.insert(id, Arc::new(marks));
        id
    }

    /// The tasks of the group are meant by other marks from now on.
    fn change_marks(&mut self, cell: &Cell, of: (JobId, GroupIndex), (former, now): (Option<MarksId>, MarksId)) {
        if let Some(marks) = self.marks.get_mut(&now) {
            Arc::make_mut(marks).groups.insert(of);
        }
        let Some(former) = former else { return };
        let counted = |marks| self.marks.get(&marks).map(|marks: &Arc<Marks>| marks.counted.clone());
        let (before, after) = (counted(former).unwrap_or_default(), counted(now).unwrap_or_default());
        for claimed in claimed_by(cell, of) {
            self.count_under(&claimed.node, before.difference(&after), claimed.stops, -1);
            self.count_under(&claimed.node, after.difference(&before), claimed.stops, 1);
        }
    }

    fn count_under<'c>(&mut self, node: &NodeId, counters: impl Iterator<Item = &'c CounterId>, stops: bool, by: i64) {
        for id in counters {
            let Some(counter) = self.counters.get(id).filter(|counter| !(stops && counter.skips_stopping())) else {
                continue;
            };
            let domain = self.grounds.get(&counter.ground).and_then(|ground| ground.counted_domain(*node));
            domain.into_iter().for_each(|domain| self.add(*id, domain, by));
        }
    }

    fn leave_marks(&mut self, id: MarksId, of: (JobId, GroupIndex)) {
        let Some(marks) = self.marks.get_mut(&id) else { return };
        let marks = Arc::make_mut(marks);
        marks.groups.remove(&of);
        if marks.groups.is_empty() {
            let content = (std::mem::take(&mut marks.namespace), std::mem::take(&mut marks.labels));
            self.by_labels.remove(&content);
            self.marks.remove(&id);
        }
    }

    /// A shape came, or went, or its number is that of another one.
    fn settle_shape(&mut self, cell: &Cell, id: ShapeId, jobs: &[JobId]) {
        let now = cell.shapes.get(id).filter(|shape| shape.neighbours.is_some());
        let known = self.asks.get(&id).map(|(shape, _)| shape);
        if now == known {
            return;
        }
        let former = self.asks.remove(&id);
        if let Some(shape) = now {
            let mut fresh = BTreeSet::new();
            let asks = Asks::of(shape, |spec| self.join_counter(cell, spec, &mut fresh));
            self.asks.insert(id, (Arc::clone(shape), Arc::new(asks)));
            fresh.into_iter().for_each(|counter| self.fill(cell, counter));
            self.fill_carried(cell, id, jobs);
        }
        for counter in former.iter().flat_map(|(_, asks)| asks.counters()) {
            self.leave_counter(counter);
        }
    }

    fn join_counter(&mut self, cell: &Cell, spec: CounterSpec, fresh: &mut BTreeSet<CounterId>) -> CounterId {
        if let Some(&known) = self.by_spec.get(&spec) {
            if let Some(counter) = self.counters.get_mut(&known) {
                Arc::make_mut(counter).users += 1;
            }
            return known;
        }
        let ground = self.join_ground(cell, &spec);
        let id = CounterId(self.number());
        let mut counter = Counter::new(spec.clone(), ground);
        counter.users = 1;
        self.marks.values_mut().for_each(|marks| note_counter(cell, Arc::make_mut(marks), id, &counter));
        self.by_spec.insert(spec, id);
        self.counters.insert(id, Arc::new(counter));
        fresh.insert(id);
        id
    }

    fn join_ground(&mut self, cell: &Cell, spec: &CounterSpec) -> GroundId {
        let known = self.by_ground.get(&spec.ground).copied();
        let id = known.unwrap_or_else(|| {
            let id = GroundId(self.number());
            let mut ground = Ground::new(spec.ground.clone());
            for (node, _) in cell.nodes.iter() {
                ground.look_at(&cell.nodes, node);
                if let Some(identity) = Identity::of(&cell.nodes, node) {
                    self.identities.insert(node, identity);
                }
            }
            self.by_ground.insert(spec.ground.clone(), id);
            self.grounds.insert(id, Arc::new(ground));
            id
        });
        if let Some(ground) = self.grounds.get_mut(&id) {
            Arc::make_mut(ground).users += 1;
        }
        id
    }

    fn leave_counter(&mut self, id: CounterId) {
        let Some(counter) = self.counters.get_mut(&id) else { return };
        let counter = Arc::make_mut(counter);
        counter.users -= 1;
        if counter.users > 0 {
            return;
        }
        let (spec, ground) = (counter.spec.clone(), counter.ground);
        self.counters.remove(&id);
        self.by_spec.remove(&spec);
        for marks in self.marks.values_mut() {
            if marks.counted.contains(&id) || marks.repelled.contains(&id) || marks.liked.contains_key(&id) {
                let marks = Arc::make_mut(marks);
                marks.counted.remove(&id);
                marks.repelled.remove(&id);
                marks.liked.remove(&id);
            }
        }
        let Some(found) = self.grounds.get_mut(&ground) else { return };
        let found = Arc::make_mut(found);
        found.users -= 1;
        if found.users == 0 {
            self.grounds.remove(&ground);
            self.by_ground.remove(&spec.ground);
        }
    }
}

/// Takes note of whether a counter counts tasks with these marks, or those that must not or like to be near them.
fn note_counter(cell: &Cell, marks: &mut Marks, id: CounterId, counter: &Counter) {
    let bare = || bare_namespace(&marks.namespace);
    let namespace = cell.namespaces.get(&marks.namespace).cloned().unwrap_or_else(bare);
    if counter.spec.whom.means(&namespace, &marks.labels) {
        marks.counted.insert(id);
    }
    if counter.spec.whom.repels(&namespace, &marks.labels) {
        marks.repelled.insert(id);
    }
    if let Some(weight) = counter.spec.whom.likes(&namespace, &marks.labels) {
        marks.liked.insert(id, weight);
    }
}
