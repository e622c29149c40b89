//! All counters of a cell, with who is counted by them and who asks for them.

use super::asks::Asks;
use super::counter::{Counter, CounterId, CounterSpec};
use super::ground::{Ground, GroundId, GroundSpec, Identity};
use super::marks::{Marked, Marks, MarksId};
use crate::state::shapes::{Shape, Shapes};
use ohm_model::selector::Labels;
use ohm_model::{GroupIndex, JobId, NodeId, ShapeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counts of a cell. Numbers inside are never used again, so that an overlay that outlives a counter changes no
/// other one.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskCounts {
    pub(super) inner: Option<Arc<Inner>>,
}

/// They are derived, so two cells that agree in the rest agree in them; see `check/task_counts.rs`.
impl PartialEq for TaskCounts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TaskCounts {}

/// What is kept once a group asks for anything.
#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    next: u32,
    pub(super) grounds: BTreeMap<GroundId, Arc<Ground>>,
    pub(super) by_ground: BTreeMap<GroundSpec, GroundId>,
    pub(super) counters: BTreeMap<CounterId, Arc<Counter>>,
    pub(super) by_spec: BTreeMap<CounterSpec, CounterId>,
    pub(super) asks: BTreeMap<ShapeId, (Arc<Shape>, Arc<Asks>)>,
    pub(super) marks: BTreeMap<MarksId, Arc<Marks>>,
    pub(super) by_labels: BTreeMap<(String, Labels), MarksId>,
    pub(super) jobs: BTreeMap<JobId, Marked>,
    /// What decides the domains of each node: as last looked at.
    pub(super) identities: BTreeMap<NodeId, Identity>,
}

/// What one group asks of the tasks around it, and who of them asks for something of the group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbourhood<'a> {
    inner: &'a Inner,
    /// Nothing where the group itself asks for nothing.
    pub(crate) asks: Option<&'a Asks>,
    pub(crate) marks: &'a Marks,
}

impl TaskCounts {
    /// Whether no group of the cell asks for anything of the tasks around it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.is_none()
    }

    /// What keeps a group with this shape away from nodes because of the tasks that run there; nothing where nothing
    /// can.
    pub(crate) fn of(&self, shape: ShapeId, job: JobId, group: GroupIndex) -> Option<Neighbourhood<'_>> {
        let near = self.around(shape, job, group, Asks::is_hard)?;
        (near.asks.is_some() || !near.marks.repelled.is_empty()).then_some(near)
    }

    /// What makes nodes better or worse for a group with this shape because of the tasks that run there; nothing where
    /// nothing does.
    pub(crate) fn preferred_by(&self, shape: ShapeId, job: JobId, group: GroupIndex) -> Option<Neighbourhood<'_>> {
        let near = self.around(shape, job, group, Asks::is_soft)?;
        (near.asks.is_some() || !near.marks.liked.is_empty()).then_some(near)
    }

    fn around(
        &self,
        shape: ShapeId,
        job: JobId,
        group: GroupIndex,
        asks_so: impl Fn(&Asks) -> bool,
    ) -> Option<Neighbourhood<'_>> {
        let inner = self.inner.as_deref()?;
        let marks = inner.marks.get(&inner.jobs.get(&job)?.marks(group)?)?;
        let asks = inner.asks.get(&shape).map(|(_, asks)| &**asks).filter(|asks| asks_so(asks));
        Some(Neighbourhood { inner, asks, marks })
    }

    /// The counters that a task of the group, of this shape, moves on `node`, each with the domain in which it does.
    pub(crate) fn moved_by(
        &self,
        (shape, job, group): (ShapeId, JobId, GroupIndex),
        node: NodeId,
        stops: bool,
    ) -> impl Iterator<Item = (CounterId, u32)> + '_ {
        let inner = self.inner.as_deref();
        let marks = inner.and_then(|inner| inner.marks.get(&inner.jobs.get(&job)?.marks(group)?));
        let counted = marks.into_iter().flat_map(|marks| &marks.counted);
        let carried = inner.and_then(|inner| inner.asks.get(&shape)).into_iter().flat_map(|(_, asks)| &asks.carried);
        let all = counted.chain(carried);
        all.filter_map(move |id| {
            let counter = inner?.counters.get(id)?;
            let domain = inner?.grounds.get(&counter.ground)?.counted_domain(node)?;
            (!(stops && counter.skips_stopping())).then_some((*id, domain))
        })
    }

    /// Counts `by` more tasks of the group, of this shape, on `node`. Returns whether any counter counts them.
    pub(crate) fn shift(
        &mut self,
        shapes: &Shapes,
        of: (ShapeId, JobId, GroupIndex),
        node: NodeId,
        (by, stops): (i64, bool),
    ) -> bool {
        let mut moved: Vec<(CounterId, u32)> = self.moved_by(of, node, stops).collect();
        let Some(inner) = self.inner.as_mut() else { return false };
        // The number of a shape that is gone may be that of another one, which is counted when the command is over.
        if let Some((known, asks)) = inner.asks.get(&of.0)
            && shapes.get(of.0).is_some_and(|now| now != known)
        {
            moved.retain(|(id, _)| !asks.carried.contains(id));
        }
        if !moved.is_empty() {
            let inner = Arc::make_mut(inner);
            moved.iter().for_each(|(id, domain)| inner.add(*id, *domain, by));
        }
        !moved.is_empty()
    }
}

impl<'a> Neighbourhood<'a> {
    pub(crate) fn counter(&self, id: CounterId) -> Option<&'a Counter> {
        self.inner.counters.get(&id).map(|counter| &**counter)
    }

    pub(crate) fn ground(&self, counter: &Counter) -> Option<&'a Ground> {
        self.inner.grounds.get(&counter.ground).map(|ground| &**ground)
    }

    /// Whether the counter counts the tasks of the group itself.
    pub(crate) fn counts_own(&self, id: CounterId) -> bool {
        self.marks.counted.contains(&id)
    }
}

impl Inner {
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Counts `by` more tasks.
    pub(super) fn add(&mut self, id: CounterId, domain: u32, by: i64) {
        if let Some(counter) = self.counters.get_mut(&id) {
            Arc::make_mut(counter).add(domain, by);
        }
    }
}
