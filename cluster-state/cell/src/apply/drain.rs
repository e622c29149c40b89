//! Draining nodes: its beginning, its deadline and its end, and which jobs have to leave which nodes.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::state::drain::Drain;
use crate::state::nodes::DRAINING;
use crate::state::repairs::{UnhealthyCause, UnhealthyNode};
use ohm_model::{EventKind, JobId, NodeId, Outcome, Refusal, SessionId, StopCause};
use std::collections::BTreeSet;

impl Cell {
    pub(super) fn drain_node(
        &mut self,
        name: &str,
        deadline_ms: u64,
        at_once: u32,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let node = self.named_node(name)?;
        let (now_ms, since) = (self.now_ms, self.applied);
        let deadline_ms = if deadline_ms == 0 { 0 } else { now_ms.saturating_add(deadline_ms) };
        let Some(record) = self.nodes.record_mut(node) else { return Ok(Outcome::Done) };
        let former = record.drain;
        let began = former.map_or((since, now_ms), |drain| (drain.since, drain.since_ms));
        let drain = Drain { since: began.0, since_ms: began.1, deadline_ms, at_once: at_once.max(1) };
        record.drain = Some(drain);
        if former == Some(drain) {
            return Ok(Outcome::Done);
        }
        if deadline_ms > 0 {
            self.arm(deadline_ms, Timer::Drain(node));
        }
        self.nodes.set_flag(node, DRAINING, true);
        self.touch_node(node, applied);
        let runs = self.runs_on(node);
        self.tell(applied, EventKind::NodeDraining { node, name: name.to_string(), runs, deadline_ms });
        if former.is_none() {
            self.lose_rooms_to_leave(node, applied);
            self.settle_leaving(node, applied);
            self.tell_drained(node, applied);
        }
        // Jobs of services may move more at once than before.
        self.jobs_on(node).into_iter().for_each(|job| applied.jobs.push(job));
        Ok(Outcome::Done)
    }

    pub(super) fn undrain_node(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let node = self.named_node(name)?;
        let Some(record) = self.nodes.record_mut(node) else { return Ok(Outcome::Done) };
        if record.drain.take().is_some() {
            self.mark_node(node, DRAINING, false);
            self.touch_node(node, applied);
            self.tell(applied, EventKind::NodeUndrained { node, name: name.to_string() });
            self.settle_leaving(node, applied);
        }
        Ok(Outcome::Done)
    }

    /// The deadline of a drain: what still stands there is stopped, place or not, and repaired by its jobs' policies.
    pub(super) fn end_drain(&mut self, node: NodeId, applied: &mut Applied) {
        let drain = self.nodes.get(node).and_then(|record| record.drain);
        if drain.is_none_or(|drain| drain.deadline_ms == 0 || drain.deadline_ms > self.now_ms) {
            return;
        }
        let staying = self.runs.on_node(&self.nodes, node).filter(|(_, run)| run.stop.is_none());
        let slots: Vec<u32> = staying.map(|(slot, _)| slot).collect();
        if !slots.is_empty() {
            let (name, runs) = (self.nodes.name(node).to_string(), slots.len() as u32);
            self.tell(applied, EventKind::DrainDeadline { node, name, runs });
        }
        slots.into_iter().for_each(|slot| self.stop_run(slot, StopCause::Drained, applied));
    }

    /// Says so when nothing stands any more on a node that drains.
    pub(super) fn tell_drained(&self, node: NodeId, applied: &mut Applied) {
        let Some(drain) = self.nodes.get(node).and_then(|record| record.drain) else { return };
        if self.runs_on(node) == 0 {
            let (name, took_ms) = (self.nodes.name(node).to_string(), self.now_ms.saturating_sub(drain.since_ms));
            self.tell(applied, EventKind::NodeDrained { node, name, took_ms });
        }
    }

    /// Finds anew which jobs have to leave `node`; called when something may have changed that drives tasks away.
    pub(super) fn settle_leaving(&mut self, node: NodeId, applied: &mut Applied) {
        let known = self.jobs.by_unhealthy.get(&node).into_iter().flatten().copied();
        let jobs: BTreeSet<JobId> = known.chain(self.jobs_on(node)).collect();
        applied.jobs.extend(jobs.into_iter().filter(|job| self.settle_leaving_of(*job, node)));
    }

    /// The same for one job, whose groups tolerate something else by now, and all nodes that it stands on.
    pub(super) fn settle_leaving_by(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        let live = job.groups.iter().filter(|group| group.live > 0).flat_map(|group| group.tasks.iter());
        let runs = live.filter_map(|task| self.runs.get(task.run));
        let nodes: BTreeSet<NodeId> = runs.map(|run| run.node).filter(|node| self.may_be_left(*node)).collect();
        nodes.into_iter().for_each(|node| _ = self.settle_leaving_of(id, node));
    }

    /// A run of `job` on `node` ended or is to stop: perhaps it was the last one that had to leave.
    pub(super) fn settle_left(&mut self, job: JobId, node: NodeId, applied: &mut Applied) {
        let leaves = |entry: &UnhealthyNode| entry.node == Some(node) && entry.cause != UnhealthyCause::Lost;
        let is_known = self.jobs.get(job).is_some_and(|job| job.repairs.unhealthy.iter().any(leaves));
        if is_known && self.may_be_left(node) && self.settle_leaving_of(job, node) {
            applied.jobs.push(job);
        }
    }

    /// Whether anything has changed.
    fn settle_leaving_of(&mut self, id: JobId, node: NodeId) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let cause = self.leave_cause_of(job, node);
        let leaves = |cause: UnhealthyCause| cause != UnhealthyCause::Lost;
        let unhealthy = &job.repairs.unhealthy;
        let known = unhealthy.iter().find(|entry| entry.node == Some(node) && leaves(entry.cause));
        if known.map(|entry| entry.cause) == cause {
            return false;
        }
        if let Some(cause) = cause {
            self.mark_unhealthy(id, std::iter::once(node), cause);
            return true;
        }
        let version = self.applied;
        let Some(job) = self.jobs.get_mut(id) else { return false };
        job.repairs.unhealthy.retain(|entry| entry.node != Some(node) || !leaves(entry.cause));
        job.version = version;
        if !job.repairs.unhealthy.iter().any(|entry| entry.node == Some(node)) {
            self.jobs.forget_unhealthy(node, id);
        }
        true
    }

    fn jobs_on(&self, node: NodeId) -> BTreeSet<JobId> {
        self.runs.on_node(&self.nodes, node).map(|(_, run)| run.run.task.job).collect()
    }

    pub(super) fn touch_node(&mut self, node: NodeId, applied: &mut Applied) {
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
    }
}
