//! What commands do to the plain model, one rule after the other.

use crate::brought::PlainRelease;
use crate::state::{Alarm, Phase, Plain, PlainHold, PlainJob, PlainNode, PlainRun, PlainTask, State, request};
use ohm_model::{
    ClassKind, Exit, JobId, JobSpec, NodeHealth, NodeId, NodeSpec, QueueSpec, RunReport, RunReportKind, SessionId,
    StopCause,
};
use std::cmp::Reverse;

pub(crate) const NOBODY: SessionId = SessionId(0);

fn name(run: &PlainRun) -> (JobId, u16, u32) {
    (run.job, run.group, run.task)
}

impl Plain {
    pub(crate) fn register(&mut self, id: NodeId, spec: &NodeSpec, key: u64, instance: u64, boot: u64) -> bool {
        let mut spec = spec.clone();
        spec.labels.entry("kubernetes.io/hostname".into()).or_insert(spec.name.clone());
        let Some(known) = self.nodes.get(&id).cloned() else {
            self.registrations += 1;
            let (incarnation, registered) = (self.registrations, self.index);
            let health = NodeHealth::Ready;
            let (conditions, heard, returns, held, put, since) = Default::default();
            let node = PlainNode {
                spec,
                key,
                instance,
                boot,
                incarnation,
                registered,
                health,
                cordoned: false,
                drain: None,
                conditions,
                heard,
                returns,
                held,
                put,
                since,
                kept: false,
                release: PlainRelease::InUse,
            };
            self.nodes.insert(id, node);
            self.touch(id, NOBODY);
            return true;
        };
        if known.key == key && boot < known.boot {
            return false;
        }
        let lost = known.health == NodeHealth::Lost;
        if known.key == key && boot != known.boot && !lost {
            return false;
        }
        if known.key == key && known.instance == instance && known.spec == spec && !lost {
            return true;
        }
        if known.key != key && !lost {
            return false;
        }
        self.withdraw_kept(id);
        if known.boot != boot || known.key != key {
            self.forget_kept(|kept| kept.run.node == id);
            self.end_all_on(id, Exit::Vanished);
            self.settle_losses();
        }
        self.clear_unhealthy(id, true);
        self.note_return(id);
        self.registrations += 1;
        let relabelled = known.spec.labels != spec.labels || known.spec.taints != spec.taints;
        let node = self.nodes.get_mut(&id).expect("a node");
        if known.boot != boot || known.key != key || !spec.labels.contains_key("provisioning.ohm/request") {
            node.release = PlainRelease::InUse;
        }
        (node.spec, node.key, node.instance, node.boot) = (spec, key, instance, boot);
        (node.incarnation, node.health, node.heard) = (self.registrations, NodeHealth::Ready, 0);
        self.touch(id, NOBODY);
        if relabelled {
            self.stop_where(id, StopCause::Moved, |plain, run| plain.is_driven_out(run));
            self.watch_tolerations(id);
        }
        self.evict_excess(id);
        true
    }

    /// Whether labels and taints of its node drive the run away: a `NoExecute` taint, or a required domain left.
    pub(crate) fn is_driven_out(&self, run: &PlainRun) -> bool {
        let group = self.group_of(run);
        let domain = &self.jobs[&run.job].domain[usize::from(run.group)];
        self.leaves_at(run).is_some_and(|due_ms| due_ms <= self.now_ms)
            || (domain.is_some() && self.domain(group, run.node) != *domain)
    }

    fn evict_excess(&mut self, node: NodeId) {
        let (present, _) = self.devices(node);
        let on_lost = |run: &PlainRun| run.masks.iter().any(|mask| present < 64 && mask >> present != 0);
        self.stop_where(node, StopCause::NodeShrunk, |_, run| on_lost(run));
        let resources = ["cpu", "memory", "pods", crate::state::GPU];
        let request_of = |plain: &Plain, run: &PlainRun, resource: &str| -> i64 {
            request(plain.group_of(run)).get(resource).copied().unwrap_or(0)
        };
        // What would be missing if these runs, and all that stop anyway, were gone.
        let missing = |plain: &Plain, victims: &[PlainRun]| -> Vec<&str> {
            let gone = |run: &&PlainRun| run.stop.is_some() || victims.iter().any(|one| name(one) == name(run));
            let left = |resource: &&str| {
                let given = plain.runs_on(node).filter(gone).map(|run| request_of(plain, run, resource)).sum::<i64>();
                plain.free(node, resource) + given < 0
            };
            resources.into_iter().filter(left).collect()
        };
        let mut order: Vec<PlainRun> = self.runs_on(node).filter(|run| run.stop.is_none()).cloned().collect();
        order.sort_by_key(|run| (self.jobs[&run.job].spec.priority, Reverse(run.placed), Reverse(name(run))));
        let mut victims: Vec<PlainRun> = Vec::new();
        for run in order {
            if missing(self, &victims).iter().any(|resource| request_of(self, &run, resource) > 0) {
                victims.push(run);
            }
        }
        for at in (0..victims.len()).rev() {
            let mut fewer = victims.clone();
            fewer.remove(at);
            if missing(self, &fewer).is_empty() {
                victims = fewer;
            }
        }
        self.stop_where(node, StopCause::NodeShrunk, |_, run| victims.iter().any(|one| name(one) == name(run)));
    }

    pub(crate) fn stop_where(&mut self, node: NodeId, cause: StopCause, which: impl Fn(&Plain, &PlainRun) -> bool) {
        for at in 0..self.runs.len() {
            let run = &self.runs[at];
            if run.node == node && run.stop.is_none() && which(self, run) {
                self.runs[at].stop = Some(cause);
                self.touch(node, NOBODY);
            }
        }
    }

    fn end_all_on(&mut self, node: NodeId, exit: Exit) {
        while let Some(at) = self.runs.iter().position(|run| run.node == node) {
            let run = self.runs[at].clone();
            self.end(&run, exit);
        }
    }

    pub(crate) fn conclude(&mut self, id: NodeId, incarnation: u32, health: NodeHealth) -> bool {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.incarnation == incarnation) else { return false };
        if node.health == health {
            return true;
        }
        if node.health == NodeHealth::Lost {
            return false;
        }
        self.nodes.get_mut(&id).expect("a node").health = health;
        self.touch(id, NOBODY);
        if health == NodeHealth::Lost {
            self.keep_runs_on(id);
            self.end_all_on(id, Exit::NodeLost);
            self.lose_rooms(id);
            self.settle_losses();
            self.remove_released(id);
        }
        true
    }

    pub(crate) fn cordon(&mut self, id: NodeId, cordoned: bool) {
        let node = self.nodes.get_mut(&id).expect("a node");
        if std::mem::replace(&mut node.cordoned, cordoned) != cordoned {
            self.touch(id, NOBODY);
        }
    }

    pub(crate) fn remove_node(&mut self, id: NodeId) -> bool {
        if self.occupants(id).next().is_some() {
            return false;
        }
        self.lose_all_rooms(id);
        self.clear_unhealthy(id, false);
        self.forget_kept(|kept| kept.run.node == id);
        self.nodes.remove(&id);
        self.touch(id, NOBODY);
        true
    }

    pub(crate) fn submit(&mut self, id: JobId, spec: JobSpec, shard: ohm_model::Shard) {
        let mut job = PlainJob {
            state: if spec.suspended { State::Suspended } else { State::Active },
            version: self.index,
            queued: self.index,
            submitted_ms: self.now_ms,
            shard,
            tasks: Default::default(),
            started: vec![false; spec.groups.len()],
            domain: vec![None; spec.groups.len()],
            reserved: false,
            admission: Default::default(),
            ready: Default::default(),
            repair: Default::default(),
            moving: Default::default(),
            leaving: Default::default(),
            first_placed_ms: None,
            floor: 0,
            endless: self.kind_of(spec.class) == Some(ClassKind::Service),
            spec,
        };
        for (group, spec) in job.spec.groups.iter().enumerate() {
            let new = PlainTask {
                phase: Phase::Pending,
                incarnation: 0,
                attempts: 0,
                failures: 0,
                refusals: 0,
                stood: false,
            };
            job.tasks.extend((0..spec.count).map(|task| ((group as u16, task), new.clone())));
        }
        self.jobs.insert(id, job);
    }

    pub(crate) fn cancel(&mut self, id: JobId) -> bool {
        match self.jobs[&id].state {
            State::Cancelled => true,
            State::Succeeded | State::Failed => false,
            State::Active | State::Suspended => {
                self.finish(id, State::Cancelled, StopCause::Cancelled);
                true
            }
        }
    }

    /// Whether it could be forgotten now.
    pub(crate) fn forget(&mut self, id: JobId) -> bool {
        let job = &self.jobs[&id];
        let over = !matches!(job.state, State::Active | State::Suspended) && job.live() == 0;
        if over {
            self.jobs.remove(&id);
        }
        over
    }

    pub(crate) fn suspend(&mut self, id: JobId, suspended: bool) -> bool {
        let version = self.index;
        let job = self.jobs.get_mut(&id).expect("a job");
        if !matches!(job.state, State::Active | State::Suspended) {
            return false;
        }
        let (from, to) = match suspended {
            true => (State::Active, State::Suspended),
            false => (State::Suspended, State::Active),
        };
        if job.state == from {
            (job.state, job.version) = (to, version);
            job.ready = if suspended { job.ready } else { job.ready.afresh() };
            if suspended {
                job.release();
                job.drop_repair();
                self.forget_kept_of(id);
                self.stop_job(id, StopCause::Suspended);
            } else if let Some(first) = &mut job.first_placed_ms {
                *first = self.now_ms;
                let due = self.now_ms + job.spec.active_deadline_seconds * 1000;
                if job.spec.active_deadline_seconds > 0 {
                    self.alarm(due, Alarm::Deadline(id));
                }
            }
            self.finish_if_over(id);
        }
        true
    }

    pub(crate) fn finish_if_over(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if job.state == State::Active && (0..job.spec.groups.len() as u16).all(|group| job.is_over(group)) {
            self.finish(id, State::Succeeded, StopCause::JobFailed);
        }
    }

    pub(crate) fn stop_job(&mut self, id: JobId, cause: StopCause) {
        for at in 0..self.runs.len() {
            if self.runs[at].job == id && self.runs[at].stop.is_none() {
                self.runs[at].stop = Some(cause);
                self.touch(self.runs[at].node, NOBODY);
            }
        }
        self.clear_holds(id);
    }

    pub(crate) fn clear_holds(&mut self, id: JobId) {
        self.jobs.get_mut(&id).expect("a job").moving.clear();
        self.clear_holds_of(id, |hold| hold.is_move() || hold.is_preemptor());
    }

    pub(crate) fn clear_holds_of(&mut self, id: JobId, which: impl Fn(&PlainHold) -> bool) {
        let (gone, kept) = std::mem::take(&mut self.holds).into_iter().partition(|hold| hold.job == id && which(hold));
        let gone: Vec<PlainHold> = gone;
        self.holds = kept;
        gone.into_iter().for_each(|hold| self.touch(hold.node, NOBODY));
    }

    pub(crate) fn finish(&mut self, id: JobId, state: State, cause: StopCause) {
        let version = self.index;
        let job = self.jobs.get_mut(&id).expect("a job");
        (job.state, job.version) = (state, version);
        job.release();
        job.drop_repair();
        for task in job.tasks.values_mut() {
            if matches!(task.phase, Phase::Pending | Phase::BackingOff) {
                task.phase = Phase::Stopped;
            }
        }
        let forget = self.now_ms + (job.spec.ttl_seconds_after_finished * 1000).max(10_000);
        self.forget_kept_of(id);
        self.stop_job(id, cause);
        self.alarm(forget, Alarm::Forget(id));
    }

    pub(crate) fn report(&mut self, node: NodeId, reports: &[RunReport]) {
        for report in reports {
            let (task, incarnation) = (report.run.task, report.run.incarnation.0);
            let named = self.runs.iter().find(|run| {
                run.node == node
                    && (run.job, run.group, run.task, run.incarnation)
                        == (task.job, task.group.0, task.task.0, incarnation)
            });
            match (named.cloned(), &report.kind) {
                (Some(run), RunReportKind::Ended { exit, .. }) => self.end(&run, *exit),
                (Some(run), RunReportKind::Started { .. }) => {
                    let same = self.runs.iter_mut().find(|other| name(other) == name(&run));
                    same.into_iter().for_each(|run| run.started_ms = run.started_ms.or(Some(self.now_ms)));
                    self.run_started(run.job, run.group, run.task);
                }
                (None, RunReportKind::Ended { .. }) => self.forget_kept(|kept| {
                    let run = &kept.run;
                    run.node == node
                        && (run.job, run.group, run.task, run.incarnation)
                            == (task.job, task.group.0, task.task.0, incarnation)
                }),
                (Some(_), RunReportKind::Ready { .. }) | (None, _) => {}
            }
        }
        self.settle_losses();
    }

    fn end(&mut self, run: &PlainRun, exit: Exit) {
        self.note_end(run, exit);
        if self.starts_again(run, exit) {
            return;
        }
        self.runs.retain(|other| name(other) != name(run));
        self.touch(run.node, NOBODY);
        let job = self.jobs.get_mut(&run.job).expect("a job of a run");
        let (is_service, retries, active) = (job.endless, job.spec.retries, job.state == State::Active);
        let open = active || job.state == State::Suspended;
        let task = job.tasks.get_mut(&(run.group, run.task)).expect("a task of a run");
        let (succeeded, leaves) = (exit == Exit::Code(0), run.task >= job.spec.groups[usize::from(run.group)].count);
        let own = matches!(exit, Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory | Exit::OverRequest);
        let charged = own || matches!(exit, Exit::StartFailed | Exit::Unhealthy);
        let refused = run.stop.is_none() && matches!(exit, Exit::NeverStarted | Exit::LeaseExpired);
        let well = run.started_ms.is_some_and(|started| started + 600_000 <= self.now_ms);
        task.refusals *= u32::from(run.started_ms.is_none() || (refused && !well));
        task.phase = match () {
            () if leaves => Phase::Removed,
            () if !open && succeeded && run.stop.is_none() => Phase::Succeeded,
            () if !open => Phase::Stopped,
            () if refused => {
                task.refusals += 1;
                Phase::BackingOff
            }
            () if run.stop.is_some() || !charged => Phase::Pending,
            () if succeeded && !is_service => Phase::Succeeded,
            () => {
                if is_service && well {
                    task.failures = 0;
                }
                task.failures += 1;
                if !is_service && task.failures > retries { Phase::Failed } else { Phase::BackingOff }
            }
        };
        let failures = if refused { task.refusals } else { task.failures };
        let phase = task.phase;
        let lost = !leaves
            && match run.stop {
                None => active && !charged,
                Some(cause) => active && matches!(cause, StopCause::NodeShrunk | StopCause::Drained | StopCause::Moved),
            };
        if lost {
            self.losses.push((run.job, run.group, run.task, run.node));
        }
        job.repair.replaced.remove(&(run.group, run.task));
        let moves = job.moving.contains(&(run.group, run.task));
        job.tasks.retain(|_, task| task.phase != Phase::Removed);
        let group = usize::from(run.group);
        if job.count(run.group, Phase::Live) == 0 {
            job.domain[group] = None;
        }
        job.restart_if_down(open);
        self.settle_open(run.job, lost);
        let job = &self.jobs[&run.job];
        let all_over = (0..job.spec.groups.len() as u16).all(|group| job.is_over(group));
        if moves {
            self.alarm(self.now_ms + 60_000, Alarm::Room(run.job, run.group, run.task, run.incarnation));
        }
        match phase {
            Phase::Failed if active => self.finish(run.job, State::Failed, StopCause::JobFailed),
            Phase::BackingOff => {
                let wait = (1000u64 << (failures - 1).min(20)).min(300_000);
                self.alarm(self.now_ms + wait, Alarm::BackOff(run.job, run.group, run.task, run.incarnation));
            }
            _ if active && all_over => self.finish(run.job, State::Succeeded, StopCause::JobFailed),
            _ => {}
        }
    }

    /// Alarms ring on a grid: 64 ms, 65,536 ms for those more than ten minutes away.
    pub(crate) fn alarm(&mut self, due_ms: u64, alarm: Alarm) {
        let grid = if due_ms.saturating_sub(self.now_ms) > 600_000 { 65_536 } else { 64 };
        self.alarms.push((due_ms.div_ceil(grid) * grid, alarm));
    }

    pub(crate) fn tick(&mut self) {
        while let Some(at) = self.alarms.iter().position(|(due, _)| *due <= self.now_ms) {
            let earliest = self.alarms.iter().map(|(due, _)| *due).min().unwrap_or(0);
            let at = self.alarms.iter().position(|(due, _)| *due == earliest).unwrap_or(at);
            let (_, alarm) = self.alarms.remove(at);
            self.ring(alarm);
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        let now_ms = self.now_ms;
        match alarm {
            Alarm::BackOff(id, group, task, incarnation) => {
                let task = self.jobs.get_mut(&id).and_then(|job| job.tasks.get_mut(&(group, task)));
                let waits = |task: &&mut PlainTask| task.phase == Phase::BackingOff && task.incarnation == incarnation;
                task.filter(waits).into_iter().for_each(|task| task.phase = Phase::Pending);
            }
            Alarm::Deadline(id) => {
                let Some(job) = self.jobs.get(&id) else { return };
                let first = job.first_placed_ms.unwrap_or(now_ms);
                let seconds = job.spec.active_deadline_seconds;
                if job.state == State::Active && seconds > 0 && first + seconds * 1000 <= now_ms {
                    self.finish(id, State::Failed, StopCause::DeadlineExceeded);
                }
            }
            Alarm::Forget(id) => match self.jobs.get(&id) {
                Some(job) if job.live() > 0 => self.alarm(now_ms + 10_000, Alarm::Forget(id)),
                _ => drop(self.jobs.remove(&id)),
            },
            Alarm::HoldDown(node) => self.end_hold_down(node),
            Alarm::Repair(id, since) => self.end_waiting(id, since),
            Alarm::Admission(id, round) => self.admission_due(id, round),
            Alarm::Drain(node) => self.end_drain(node),
            Alarm::Toleration(node) => {
                self.stop_repelled(node);
                self.watch_tolerations(node);
            }
            Alarm::Claim(id) => self.end_claims(id),
            Alarm::Idle(node) => self.end_idle(node),
            Alarm::RepairRequest(id) => self.repair_request_due(id),
            Alarm::Ready(id) => self.ready_due(id),
            Alarm::Room(id, group, task, incarnation) => self.end_room(id, (group, task), incarnation),
            Alarm::Hold(node) => {
                self.end_heads_on(node, |hold| hold.is_over(now_ms));
                let before = self.holds.len();
                self.holds.retain(|hold| hold.node != node || !hold.is_over(now_ms));
                if self.holds.len() < before {
                    self.touch(node, NOBODY);
                }
            }
        }
    }

    /// Adds or replaces a queue that is known to be right.
    pub(crate) fn put_queue(&mut self, spec: &QueueSpec) {
        self.queues.insert(spec.name.clone(), spec.clone());
    }
}

impl PlainJob {
    pub(crate) fn is_over(&self, group: u16) -> bool {
        let count = self.spec.groups[usize::from(group)].count;
        self.count(group, Phase::Succeeded) + self.count(group, Phase::Skipped) == count
    }

    /// A gang of which nothing stands, or a service's group, starts anew with the tasks it had left out.
    pub(crate) fn restart_if_down(&mut self, is_open: bool) {
        for group in 0..self.spec.groups.len() as u16 {
            let down = if self.whole() { self.live() == 0 } else { self.count(group, Phase::Live) == 0 };
            if is_open && down && self.started[usize::from(group)] && !self.is_over(group) {
                self.started[usize::from(group)] = false;
                let left_out =
                    self.tasks.iter_mut().filter(|((at, _), task)| *at == group && task.phase == Phase::Skipped);
                left_out.for_each(|(_, task)| task.phase = Phase::Pending);
                self.repair.lost.retain(|(at, _)| *at != group);
                self.repair.replaced.retain(|(at, _)| *at != group);
            }
        }
    }
}
