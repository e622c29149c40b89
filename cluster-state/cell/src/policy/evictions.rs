//! Runs that may not stay on a node that has changed: its taints repel them, their group belongs elsewhere, or there is
//! no room for them any more.

use crate::apply::Tx;
use crate::apply::steps::room::runs_on_lost_devices;
use crate::apply::steps::runs::stop_run;
use crate::cell::Cell;
use crate::state::nodes::SHRUNK;
use crate::state::runs::Run;
use crate::state::shapes::Shape;
use crate::state::tolerance::repelled_at;
use ohm_model::{EventKind, NodeId, ResourceId, StopCause};
use std::cmp::Reverse;
use std::sync::Arc;

/// Whether a `NoExecute` taint of `node` itself drives away what has this shape and was placed at `placed_ms`.
pub(crate) fn repels(cell: &Cell, node: NodeId, shape: &Shape, placed_ms: u64) -> bool {
    let Some(record) = cell.nodes.get(node) else { return false };
    repelled_at(record, shape, placed_ms).is_some_and(|due_ms| due_ms <= cell.now_ms)
}

/// Stops runs that a `NoExecute` taint drives away, now that it came or was tolerated for long enough.
pub(crate) fn evict_repelled(tx: &mut Tx<'_>, node: NodeId) {
    let repelled = |run: &Run| tx.shapes.get(run.shape).is_some_and(|shape| repels(tx, node, shape, run.placed_ms));
    let runs = tx.runs.on_node(&tx.nodes, node);
    let slots: Vec<u32> = runs.filter(|(_, run)| repelled(run)).map(|(slot, _)| slot).collect();
    slots.into_iter().for_each(|slot| stop_run(tx, slot, StopCause::Moved));
}

/// Stops runs whose group requires a domain that the relabelled node is no longer in (P5).
pub(crate) fn evict_strayed(tx: &mut Tx<'_>, node: NodeId) {
    let strayed = |run: &Run| {
        let job = tx.job(run.run.task.job);
        let group = usize::from(run.run.task.group.0);
        let domain = job.groups[group].domain;
        domain.is_some() && tx.domain_key(job, group, node) != domain
    };
    let runs = tx.runs.on_node(&tx.nodes, node);
    let slots: Vec<u32> = runs.filter(|(_, run)| strayed(run)).map(|(slot, _)| slot).collect();
    slots.into_iter().for_each(|slot| stop_run(tx, slot, StopCause::Moved));
}

/// A node that shrank below what it holds stops runs until the rest fits (P1): those on devices that are gone, then
/// the least important and youngest, as few as that order needs. What is to stop anyway is counted first.
pub(crate) fn evict_excess(tx: &mut Tx<'_>, node: NodeId) {
    let lost_devices = runs_on_lost_devices(tx, node);
    lost_devices.iter().for_each(|slot| stop_run(tx, *slot, StopCause::NodeShrunk));
    let mut missing: Vec<i64> =
        (0..tx.resources.len() as u16).map(|column| -tx.nodes.free(node, ResourceId(column))).collect();
    let is_over = missing.iter().any(|missing| *missing > 0);
    tx.mark_node(node, SHRUNK, is_over || !lost_devices.is_empty());
    if !is_over {
        return;
    }
    let mut candidates = Vec::new();
    for (slot, run) in tx.runs.on_node(&tx.nodes, node) {
        let (Some(job), Some(shape)) = (tx.jobs.get(run.run.task.job), tx.shapes.get(run.shape)) else {
            continue;
        };
        if run.stop.is_some() {
            shape.requests.iter().for_each(|&(column, amount)| missing[usize::from(column.0)] -= amount);
        } else {
            let rank = (job.spec.priority, Reverse(run.placed), Reverse(run.run.task));
            candidates.push((rank, slot, Arc::clone(shape)));
        }
    }
    candidates.sort_by_key(|(rank, ..)| *rank);
    for slot in choose_victims(&mut missing, candidates.into_iter().map(|(_, slot, shape)| (slot, shape))) {
        stop_run(tx, slot, StopCause::NodeShrunk);
    }
}

/// The first candidates that give `missing` back, without those that the others make needless.
fn choose_victims(missing: &mut [i64], candidates: impl Iterator<Item = (u32, Arc<Shape>)>) -> Vec<u32> {
    let mut victims = Vec::new();
    for (slot, shape) in candidates {
        if shape.requests.iter().any(|(column, _)| missing[usize::from(column.0)] > 0) {
            shape.requests.iter().for_each(|&(column, amount)| missing[usize::from(column.0)] -= amount);
            victims.push((slot, shape));
        }
    }
    let mut chosen = Vec::new();
    for (slot, shape) in victims.into_iter().rev() {
        let needless = shape.requests.iter().all(|&(column, amount)| missing[usize::from(column.0)] + amount <= 0);
        if needless {
            shape.requests.iter().for_each(|&(column, amount)| missing[usize::from(column.0)] += amount);
        } else {
            chosen.push(slot);
        }
    }
    chosen.reverse();
    chosen
}

/// The deadline of a drain: what still runs there is stopped, place or not, and repaired by its jobs' policies.
pub(crate) fn end_drain(tx: &mut Tx<'_>, node: NodeId) {
    let drain = tx.nodes.get(node).and_then(|record| record.drain);
    if drain.is_none_or(|drain| drain.deadline_ms == 0 || drain.deadline_ms > tx.now_ms) {
        return;
    }
    let staying = tx.runs.on_node(&tx.nodes, node).filter(|(_, run)| run.stop.is_none());
    let slots: Vec<u32> = staying.map(|(slot, _)| slot).collect();
    if !slots.is_empty() {
        let (name, runs) = (tx.nodes.name(node).to_string(), slots.len() as u32);
        tx.tell(EventKind::DrainDeadline { node, name, runs });
    }
    slots.into_iter().for_each(|slot| stop_run(tx, slot, StopCause::Drained));
}
