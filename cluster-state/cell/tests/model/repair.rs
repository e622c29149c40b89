//! Losses and repairs in the plain model.

use crate::state::{Alarm, Phase, Plain, PlainJob, PlainRepair, State};
use ohm_cell::RequestState;
use ohm_model::{Index, JobId, NodeHealth, NodeId, Placement, RepairPolicy, StopCause};
use std::collections::{BTreeMap, BTreeSet};

fn drives(cause: StopCause) -> bool {
    matches!(cause, StopCause::NodeShrunk | StopCause::Drained | StopCause::Moved)
}

impl PlainRepair {
    /// Whether some were unhealthy.
    pub(crate) fn forget_nodes(&mut self) -> bool {
        let some = !self.unhealthy.is_empty() || !self.removed.is_empty();
        self.unhealthy.clear();
        self.removed.clear();
        some
    }
}

impl PlainJob {
    /// Fewer tasks that stay than the minimum, in any started group.
    fn is_short(&self, stays: impl Fn(u16) -> u32) -> bool {
        let groups = 0..self.spec.groups.len() as u16;
        self.whole() && groups.into_iter().any(|at| self.started[usize::from(at)] && stays(at) < self.needed(at))
    }

    /// Nothing is open any more, and what it knew of nodes counts no more.
    pub(crate) fn drop_repair(&mut self) {
        let (failed, requested) = (self.repair.failed, self.repair.requested);
        self.repair = PlainRepair { failed, requested, ..Default::default() };
    }

    /// The groups that would wait for tasks they lost, if `accepted` were placed and were a repair.
    pub(crate) fn half_repaired(&self, accepted: &BTreeSet<(u16, u32)>) -> BTreeSet<u16> {
        if !self.whole() || self.repair.lost.is_disjoint(accepted) {
            return BTreeSet::new();
        }
        let waits = |place: &&(u16, u32)| self.tasks[place].phase == Phase::Pending;
        self.repair.lost.difference(accepted).filter(waits).map(|(group, _)| *group).collect()
    }

    pub(crate) fn nothing_lost(&self) -> bool {
        self.repair.lost.is_empty() && self.repair.replaced.is_empty()
    }
}

impl Plain {
    /// Whether something of the job stops because its node drives it away.
    pub(crate) fn is_driven(&self, id: JobId) -> bool {
        self.runs.iter().any(|run| run.job == id && run.stop.is_some_and(drives))
    }

    /// How many tasks of the group still stop that their nodes drive away, and that have no room elsewhere.
    pub(crate) fn driven_out(&self, id: JobId, group: u16) -> u32 {
        let moving = &self.jobs[&id].moving;
        let of_group = self.runs.iter().filter(|run| run.job == id && run.group == group);
        let driven = of_group.filter(|run| run.stop.is_some_and(drives) && !moving.contains(&(group, run.task)));
        driven.count() as u32
    }

    /// Whether what is lost waits for more of the same loss.
    pub(crate) fn awaits_ends(&self, id: JobId) -> bool {
        let groups = 0..self.jobs[&id].spec.groups.len() as u16;
        self.is_below_minimum(id) && groups.into_iter().any(|group| self.driven_out(id, group) > 0)
    }

    /// A run of the job ended: perhaps nothing is open any more.
    pub(crate) fn settle_open(&mut self, id: JobId, lost: bool) {
        let driven = self.is_driven(id);
        let job = self.jobs.get_mut(&id).expect("a job");
        let nothing_open = !lost && job.repair.open.is_some() && job.nothing_lost() && !driven;
        if job.live() == 0 || nothing_open {
            job.drop_repair();
        }
    }

    pub(crate) fn is_below_minimum(&self, id: JobId) -> bool {
        let job = &self.jobs[&id];
        let moving = |group: u16| job.moving.iter().filter(|place| place.0 == group).count() as u32;
        job.is_short(|group| self.staying(id, group) + moving(group))
    }

    /// How many tasks of the group run and are not to stop.
    pub(crate) fn staying(&self, id: JobId, group: u16) -> u32 {
        self.runs.iter().filter(|run| run.job == id && run.group == group && run.stop.is_none()).count() as u32
    }

    pub(crate) fn settle_losses(&mut self) {
        let mut by_job: BTreeMap<JobId, Vec<(u16, u32, NodeId)>> = BTreeMap::new();
        for (job, group, task, node) in std::mem::take(&mut self.losses) {
            by_job.entry(job).or_default().push((group, task, node));
        }
        for (job, lost) in by_job {
            self.settle_loss(job, &lost);
            if self.jobs[&job].state == State::Active {
                self.settle_stranded(job);
            }
        }
    }

    fn settle_loss(&mut self, id: JobId, lost: &[(u16, u32, NodeId)]) {
        let stays = self.runs.iter().any(|run| run.job == id && run.stop.is_none());
        let (index, driven) = (self.index, self.is_driven(id));
        let job = self.jobs.get_mut(&id).expect("a job");
        if job.state != State::Active {
            return;
        }
        let found: Vec<(u16, u32)> = lost
            .iter()
            .map(|(group, task, _)| (*group, *task))
            .filter(|place| job.started[usize::from(place.0)])
            .filter(|place| matches!(job.tasks[place].phase, Phase::Pending | Phase::BackingOff))
            .collect();
        let stands = if job.whole() { stays } else { job.live() > 0 };
        if !stands || found.is_empty() {
            if job.nothing_lost() && !(driven && job.repair.open.is_some()) {
                job.drop_repair();
            }
            return;
        }
        job.repair.lost.extend(found);
        job.version = index;
        let open = job.repair.open.unwrap_or((index, None));
        let lost_nodes = lost.iter().map(|(_, _, node)| *node);
        let gone = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.health == NodeHealth::Lost);
        let gone: Vec<NodeId> = lost_nodes.filter(gone).collect();
        for node in &gone {
            job.repair.removed.remove(&self.nodes[node].spec.name);
        }
        job.repair.unhealthy.extend(gone);
        job.repair.open = Some(open);
        job.repair.requests.retain(|request| request.state != RequestState::Failed);
        job.repair.without_room.retain(|group| self.claims.contains_key(&(id, *group)));
        job.repair.last_ms = self.now_ms;
        self.start_waiting(id);
    }

    /// A policy that waits counts from when its gang is below its minimum.
    pub(crate) fn start_waiting(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        let (timeout_ms, policy) = (job.spec.repair.timeout_seconds * 1000, job.spec.repair.policy);
        let Some((since, None)) = job.repair.open else { return };
        if policy == RepairPolicy::Wait && timeout_ms > 0 && self.is_below_minimum(id) {
            let due_ms = self.now_ms + timeout_ms;
            self.jobs.get_mut(&id).expect("a job").repair.open = Some((since, Some(due_ms)));
            self.alarm(due_ms, Alarm::Repair(id, since));
        }
    }

    pub(crate) fn end_waiting(&mut self, id: JobId, since: Index) {
        let now_ms = self.now_ms;
        let is_due = |open: (Index, Option<u64>)| open.0 == since && open.1.is_some_and(|due_ms| due_ms <= now_ms);
        let Some(job) = self.jobs.get(&id).filter(|job| job.repair.open.is_some_and(is_due)) else {
            return;
        };
        if !job.repair.lost.is_empty() && self.awaits_ends(id) {
            let due_ms = now_ms + self.jobs[&id].spec.repair.timeout_seconds * 1000;
            self.jobs.get_mut(&id).expect("a job").repair.open = Some((since, Some(due_ms)));
            return self.alarm(due_ms, Alarm::Repair(id, since));
        }
        if !job.repair.lost.is_empty() && self.is_below_minimum(id) {
            return self.give_up(id);
        }
        self.jobs.get_mut(&id).expect("a job").repair.open = Some((since, None));
    }

    pub(crate) fn give_up(&mut self, id: JobId) {
        let version = self.index;
        let job = self.jobs.get_mut(&id).expect("a job");
        job.version = version;
        job.release();
        job.drop_repair();
        job.repair.failed += 1;
        self.forget_kept_of(id);
        self.stop_job(id, StopCause::RepairFailed);
    }

    /// Tasks of an accepted row that were lost stand again.
    /// Says whether any of the tasks had been lost.
    pub(crate) fn note_placed(&mut self, placement: &Placement, count: u32) -> bool {
        let (version, mut moved) = (self.index, false);
        let job = self.jobs.get_mut(&placement.job).expect("a job");
        for task in placement.first.0..placement.first.0 + count {
            let place = (placement.group.0, task);
            if job.repair.lost.remove(&place) {
                job.repair.replaced.insert(place);
                moved = true;
                // Seen from the end of the command: the nodes are forgotten with the last one.
                if job.repair.lost.is_empty() && job.repair.forget_nodes() {
                    job.version = version;
                }
            }
        }
        moved
    }

    pub(crate) fn run_started(&mut self, id: JobId, group: u16, task: u32) {
        let driven = self.is_driven(id);
        let job = self.jobs.get_mut(&id).expect("a job");
        if job.repair.replaced.remove(&(group, task)) && job.nothing_lost() && !driven {
            job.repair.open = None;
        }
    }

    pub(crate) fn clear_unhealthy(&mut self, node: NodeId, moves_version: bool) {
        let version = self.index;
        for job in self.jobs.values_mut() {
            let was_unhealthy = job.repair.unhealthy.remove(&node);
            match moves_version {
                true if was_unhealthy => job.version = version,
                false if was_unhealthy => drop(job.repair.removed.insert(self.nodes[&node].spec.name.clone())),
                _ => {}
            }
        }
    }
}
