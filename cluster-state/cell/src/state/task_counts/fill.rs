//! Counting what stands, where nothing was counted before.

use super::counter::{Counter, CounterId};
use super::counts::{Inner, TaskCounts};
use super::ground::Ground;
use crate::cell::Cell;
use crate::state::runs::NO_RUN;
use ohm_model::{GroupIndex, JobId, NodeId, ShapeId};
use std::collections::BTreeMap;

/// One run that has room on a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) shape: ShapeId,
    pub(super) job: JobId,
    pub(super) group: GroupIndex,
    pub(super) node: NodeId,
    pub(super) stops: bool,
}

/// The runs that have room on `node`.
pub(super) fn claimed_on(cell: &Cell, node: NodeId) -> Vec<Claimed> {
    let live = cell.runs.on_node(&cell.nodes, node).map(|(_, run)| Claimed {
        shape: run.shape,
        job: run.run.task.job,
        group: run.run.task.group,
        node,
        stops: run.stop.is_some(),
    });
    let back = cell.kept.back_on(node).filter_map(|run| {
        let kept = cell.kept.get(run)?;
        Some(Claimed { shape: kept.shape, job: run.task.job, group: run.task.group, node, stops: false })
    });
    live.chain(back).collect()
}

/// The runs of a group that have room on a node.
pub(super) fn claimed_by(cell: &Cell, (job, group): (JobId, GroupIndex)) -> Vec<Claimed> {
    let state = cell.jobs.get(job).and_then(|job| job.groups.get(usize::from(group.0)));
    let slots = state.into_iter().flat_map(|state| state.tasks.iter()).map(|task| task.run);
    let live = slots.filter(|slot| *slot != NO_RUN).filter_map(|slot| {
        let run = cell.runs.get(slot)?;
        Some(Claimed { shape: run.shape, job, group, node: run.node, stops: run.stop.is_some() })
    });
    let back = cell.kept.of_job(job).filter(|(run, kept)| run.task.group == group && kept.back.is_some());
    let back = back.map(|(_, kept)| Claimed { shape: kept.shape, job, group, node: kept.node, stops: false });
    live.chain(back).collect()
}

impl Inner {
    /// Counts what stands for a counter that is new, by the labels of its group.
    pub(super) fn fill(&mut self, cell: &Cell, id: CounterId) {
        let marks = self.marks.values().filter(|marks| marks.counted.contains(&id));
        let groups: Vec<(JobId, GroupIndex)> = marks.flat_map(|marks| marks.groups.iter().copied()).collect();
        let claimed = groups.into_iter().flat_map(|group| claimed_by(cell, group));
        claimed.for_each(|claimed| self.count_claimed(id, claimed));
    }

    /// Counts what stands with a shape that is new, for what it asks for. Only runs of `jobs` can have it by now.
    pub(super) fn fill_carried(&mut self, cell: &Cell, shape: ShapeId, jobs: &[JobId]) {
        let Some(carried) = self.asks.get(&shape).map(|(_, asks)| asks.carried.clone()) else { return };
        if carried.is_empty() {
            return;
        }
        let mut jobs = jobs.to_vec();
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs.into_iter().filter_map(|job| cell.jobs.get(job)) {
            let groups = (0..job.groups.len()).map(|at| (job.id, GroupIndex(at as u16)));
            let claimed = groups.flat_map(|group| claimed_by(cell, group)).filter(|claimed| claimed.shape == shape);
            claimed.for_each(|claimed| carried.iter().for_each(|id| self.count_claimed(*id, claimed)));
        }
    }

    fn count_claimed(&mut self, id: CounterId, claimed: Claimed) {
        let counter = self.counters.get(&id).filter(|counter| !(counter.skips_stopping() && claimed.stops));
        let ground = counter.and_then(|counter| self.grounds.get(&counter.ground));
        if let Some(domain) = ground.and_then(|ground| ground.counted_domain(claimed.node)) {
            self.add(id, domain, 1);
        }
    }
}

/// The counts in the words of what they count, so that those of two cells can be compared: by counter, the tasks by the
/// label's value, and the nodes that count by it.
pub(crate) fn canonical(counts: &TaskCounts) -> Vec<String> {
    let Some(inner) = counts.inner.as_deref() else { return Vec::new() };
    let told = |counter: &Counter| {
        let ground: &Ground = inner.grounds.get(&counter.ground)?;
        let by_value: BTreeMap<&str, u32> =
            counter.domains().filter_map(|(domain, count)| Some((ground.value(domain)?, count))).collect();
        let levels: u32 = counter.levels().iter().map(|(level, domains)| level * domains).sum();
        let (spec, users, total) = (&counter.spec, counter.users, counter.total());
        Some(format!("{spec:?} asked {users} times: {by_value:?}, {levels} = {total}, nodes {:?}", ground.by_value()))
    };
    let mut lines: Vec<String> = inner.counters.values().filter_map(|counter| told(counter)).collect();
    lines.extend(inner.marks.values().map(|marks| {
        let (namespace, labels, groups) = (&marks.namespace, &marks.labels, &marks.groups);
        let (counted, repelled, liked) = (marks.counted.len(), marks.repelled.len(), marks.liked.len());
        format!("{namespace} {labels:?}: {groups:?}, {counted}, {repelled} and {liked}")
    }));
    lines.sort();
    lines
}
