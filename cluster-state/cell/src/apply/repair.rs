//! What follows when jobs lose tasks with their nodes, and when those tasks stand again.
//!
//! A job's version moves whenever its unhealthy nodes do, so a plan made before a later loss is refused by its guard
//! and the next plan takes all losses together. Nothing here is ever charged to a job's retries.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::state::jobs::{JobState, TaskState};
use crate::state::repairs::{Loss, Losses, OpenRepair, RepairEnd, RepairState, UnhealthyCause, UnhealthyNode};
use ohm_model::{EventKind, Index, JobId, Move, NodeHealth, NodeId, RepairPolicy, StopCause};
use ohm_stdx::canary::{self, Canary};

impl Cell {
    /// Draws the consequences of everything one entry took away.
    pub(super) fn settle_losses(&mut self, losses: Losses, applied: &mut Applied) {
        losses.by_job.into_iter().for_each(|(job, loss)| self.settle_loss(job, &loss, applied));
    }

    fn settle_loss(&mut self, id: JobId, loss: &Loss, applied: &mut Applied) {
        let Some(job) = self.jobs.get(id).filter(|job| job.state == JobState::Active) else { return };
        let (name, standing) = (job.spec.name.clone(), job.live());
        let is_down = standing == 0 || job.is_down();
        let nodes: Vec<String> = loss.nodes.iter().map(|node| self.nodes.name(*node).to_string()).collect();
        if !is_down && self.open_repair(id, loss, &nodes) {
            self.mark_unhealthy(id, loss.nodes.iter().copied(), UnhealthyCause::Lost);
            self.arm_give_up(id);
        } else if self.jobs.get(id).is_some_and(|job| job.repair_state() == RepairState::Whole) {
            self.drop_repair(id);
        }
        // What moves was told to stop when its place was reserved: nothing is lost with it.
        let tasks = loss.tasks.len() as u32 - loss.moving;
        if tasks > 0 {
            self.tell(applied, EventKind::TasksLost { job: id, name, tasks, standing, nodes });
        }
        self.settle_stranded(id, applied);
        applied.jobs.push(id);
    }

    /// Whether there is something to repair: a service's group of which nothing stands starts anew instead.
    fn open_repair(&mut self, id: JobId, loss: &Loss, nodes: &[String]) -> bool {
        let (since, since_ms) = (self.applied, self.now_ms);
        let Some(job) = self.jobs.get_mut(id) else { return false };
        let mut any = false;
        for &(group, task) in &loss.tasks {
            let group = &mut job.groups[usize::from(group)];
            let waits = matches!(group.tasks[task as usize].state, TaskState::Pending | TaskState::BackingOff);
            if group.started && waits {
                group.lost.insert(task, 1);
                any = true;
            }
        }
        if !any {
            return false;
        }
        if !canary::sings(Canary::StaleRepair) {
            job.version = since;
        }
        if job.repairs.open.is_none() {
            job.repairs.begun += 1;
        }
        let new = || OpenRepair { since, since_ms, give_up_ms: 0, losses: 0, placed: 0, nodes: Vec::new() };
        let open = job.repairs.open.get_or_insert_with(new);
        open.losses += 1;
        for name in nodes {
            if !open.nodes.contains(name) {
                open.nodes.push(name.clone());
            }
        }
        true
    }

    /// Notes that `job` has to do without these nodes. Lost ones only while they are lost: what only rebooted is fine.
    pub(super) fn mark_unhealthy(&mut self, id: JobId, nodes: impl Iterator<Item = NodeId>, cause: UnhealthyCause) {
        let (since, since_ms) = (self.applied, self.now_ms);
        for node in nodes {
            let Some(record) = self.nodes.get(node) else { continue };
            if cause == UnhealthyCause::Lost && record.health != NodeHealth::Lost {
                continue;
            }
            let name = record.spec.name.clone();
            let Some(job) = self.jobs.get_mut(id) else { return };
            if !canary::sings(Canary::StaleRepair) {
                job.version = since;
            }
            job.repairs.unhealthy.retain(|entry| entry.name != name);
            job.repairs.unhealthy.push(UnhealthyNode { node: Some(node), name, cause, since, since_ms });
            self.jobs.by_unhealthy.entry(node).or_default().insert(id);
        }
    }

    /// The first loss below the minimum starts the clock of a policy that waits.
    pub(super) fn arm_give_up(&mut self, id: JobId) {
        let now_ms = self.now_ms;
        let Some(job) = self.jobs.get_mut(id) else { return };
        let waits = matches!(job.spec.repair.policy, RepairPolicy::Wait | RepairPolicy::Widen);
        let timeout_ms = job.spec.repair.timeout_seconds.saturating_mul(1000);
        let below = job.is_below_minimum();
        let Some(open) = job.repairs.open.as_mut().filter(|open| open.give_up_ms == 0) else { return };
        if !waits || timeout_ms == 0 || !below {
            return;
        }
        open.give_up_ms = now_ms.saturating_add(timeout_ms);
        let (due_ms, since) = (open.give_up_ms, open.since);
        self.arm(due_ms, Timer::Repair(id, since));
    }

    /// The time to wait is over: a gang that still stands below its minimum is evicted whole.
    pub(super) fn end_waiting(&mut self, id: JobId, since: Index, applied: &mut Applied) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (below, state) = (job.is_below_minimum(), job.repair_state());
        let Some(open) = job.repairs.open.as_mut().filter(|open| open.since == since) else { return };
        if !below || state != RepairState::Waiting {
            // Counted anew with the next loss that takes it below.
            open.give_up_ms = 0;
            return;
        }
        let seconds = job.spec.repair.timeout_seconds;
        self.give_up_repair(id, format!("no room within timeoutSeconds ({seconds})"), applied);
    }

    /// Evicts a gang that can't be repaired; it waits for its turn like a new one.
    pub(super) fn give_up_repair(&mut self, id: JobId, reason: String, applied: &mut Applied) {
        let (now_ms, version) = (self.now_ms, self.applied);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let name = job.spec.name.clone();
        job.close_repair(now_ms, RepairEnd::Failed(reason.clone()));
        job.version = version;
        self.drop_repair(id);
        self.release_reservation(id);
        self.tell(applied, EventKind::RepairFailed { job: id, name, reason });
        self.forget_kept_of(id, applied);
        self.stop_runs(id, StopCause::RepairFailed, applied);
        self.clear_nominations(id, applied);
        applied.jobs.push(id);
    }

    /// Ends whatever repair of `job` is under way.
    pub(super) fn drop_repair(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.repairs.open.is_none() && job.repairs.unhealthy.is_empty() && job.repair_state() == RepairState::Whole {
            return;
        }
        let nodes = self.jobs.get_mut(id).map(crate::state::jobs::Job::drop_repair).unwrap_or_default();
        nodes.into_iter().for_each(|node| self.jobs.forget_unhealthy(node, id));
    }

    /// Tasks that were lost stand again, as `moves` say.
    pub(super) fn note_moves(&mut self, id: JobId, moves: Vec<Move>, applied: &mut Applied) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let name = job.spec.name.clone();
        let placed: u32 = moves.iter().map(|step| step.count).sum();
        if let Some(open) = &mut job.repairs.open {
            open.placed += placed;
        }
        self.forget_lost_nodes(id);
        self.tell(applied, EventKind::RepairCommitted { job: id, name, moves });
    }

    /// Once nothing waits to be placed again, lost nodes are unhealthy for the job no more.
    pub(super) fn forget_lost_nodes(&mut self, id: JobId) {
        let version = self.applied;
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.repair_state() != RepairState::Waiting {
            let before = job.repairs.unhealthy.len();
            let gone = job.repairs.take_lost();
            if job.repairs.unhealthy.len() < before {
                job.version = version;
            }
            gone.into_iter().for_each(|node| self.jobs.forget_unhealthy(node, id));
        }
    }

    /// One of the tasks placed again runs, or is over; when the last of them runs the job is whole.
    pub(super) fn end_repair_of(&mut self, id: JobId, group: u16, task: u32, runs: bool, applied: &mut Applied) {
        let now_ms = self.now_ms;
        let Some(found) = self.jobs.get(id) else { return };
        if !found.groups[usize::from(group)].replaced.contains(task, 1) {
            return;
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.groups[usize::from(group)].replaced.remove(task, 1);
        if job.repair_state() != RepairState::Whole {
            return;
        }
        let name = job.spec.name.clone();
        if let Some(past) = runs.then(|| job.close_repair(now_ms, RepairEnd::Repaired)).flatten() {
            let took_ms = past.ended_ms.saturating_sub(past.since_ms);
            self.tell(applied, EventKind::Repaired { job: id, name, tasks: past.placed, took_ms });
        }
    }

    /// The node answers again: it is lost for nobody any more.
    pub(super) fn clear_unhealthy(&mut self, node: NodeId, applied: &mut Applied) {
        let version = self.applied;
        for id in self.jobs.by_unhealthy.get(&node).cloned().unwrap_or_default() {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let is_lost = |entry: &UnhealthyNode| entry.node == Some(node) && entry.cause == UnhealthyCause::Lost;
            if job.repairs.unhealthy.iter().any(is_lost) {
                job.repairs.unhealthy.retain(|entry| !is_lost(entry));
                job.version = version;
                applied.jobs.push(id);
            }
            if !job.repairs.unhealthy.iter().any(|entry| entry.node == Some(node)) {
                self.jobs.forget_unhealthy(node, id);
            }
        }
    }

    /// The node is removed: it stays unhealthy for whoever lost tasks with it, but only by its name.
    pub(super) fn detach_unhealthy(&mut self, node: NodeId, applied: &mut Applied) {
        for id in self.jobs.by_unhealthy.remove(&node).unwrap_or_default() {
            if let Some(job) = self.jobs.get_mut(id) {
                let entries = job.repairs.unhealthy.iter_mut().filter(|entry| entry.node == Some(node));
                entries.for_each(|entry| entry.node = None);
                applied.jobs.push(id);
            }
        }
    }
}
