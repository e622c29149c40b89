//! What becomes of kept runs: remembered with their node, judged when it returns, placed again or forgotten.

use super::Applied;
use crate::cell::Cell;
use crate::rooms::overlay::Overlay;
use crate::rooms::room::{Asker, Room, What, Wish};
use crate::state::jobs::{Job, JobState, TaskState};
use crate::state::kept::KeptRun;
use ohm_model::transaction::Row;
use ohm_model::{
    Conflict, ConflictReason, EventKind, Grain, Guard, Incarnation, Index, JobGuard, JobId, NodeHealth, NodeId,
    OnDisconnect, Placement, Reconcile, RunRef, SessionId, ShapeId, Shard, StopCause, Transaction,
};
use ohm_stdx::canary::{self, Canary};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What its job's rule says of a kept run whose node is back.
enum Fate {
    /// It lives on, once the attempt of this number is over, if one stands.
    Lives(Option<Incarnation>),
    /// It is stopped.
    Ends(&'static str),
}

impl Cell {
    /// Remembers the runs that live on although their node is lost. Those that were back are away again.
    pub(super) fn keep_runs_on(&mut self, node: NodeId, applied: &mut Applied) {
        self.withdraw_kept(node, applied);
        let stays = |run: &crate::state::runs::Run| {
            let job = self.jobs.get(run.run.task.job)?;
            let keeps = job.spec.on_disconnect == OnDisconnect::Keep && job.state == JobState::Active;
            let counts = run.run.task.task.0 < job.spec.groups.get(usize::from(run.run.task.group.0))?.count;
            let kept = KeptRun {
                node,
                shape: run.shape,
                revision: run.revision,
                placed: run.placed,
                placed_ms: run.placed_ms,
                started_ms: run.started_ms,
                pid: run.pid,
                devices: run.devices.clone(),
                back: None,
            };
            (keeps && counts && run.stop.is_none()).then_some((run.run, kept))
        };
        let found: Vec<(RunRef, KeptRun)> =
            self.runs.on_node(&self.nodes, node).filter_map(|(_, run)| stays(run)).collect();
        if !canary::sings(Canary::ForgetKept) {
            for (run, kept) in found {
                self.shapes.join_again(kept.shape, 1);
                self.kept.insert(run, kept);
            }
        }
    }

    /// Says whether a kept run lives on where it is. While it does, it has its room there as a live run has, although
    /// no task counts it yet.
    fn set_back(&mut self, run: RunRef, back: Option<Option<Incarnation>>, applied: &mut Applied) {
        let Some(kept) = self.kept.get(run).cloned() else { return };
        self.kept.set_back(run, back);
        match (kept.back.is_some(), back.is_some()) {
            (false, true) => {
                if let Some(shape) = self.shapes.get(kept.shape).cloned() {
                    self.take_room(kept.node, &shape, kept.masks());
                }
            }
            (true, false) => self.give_room_of(&kept),
            _ => return,
        }
        self.touch_node(kept.node, applied);
    }

    fn give_room_of(&mut self, kept: &KeptRun) {
        if let Some(shape) = self.shapes.get(kept.shape).filter(|_| kept.back.is_some()).cloned() {
            self.give_room(kept.node, &shape, kept.masks());
        }
    }

    /// What lives on there is away again, or is to be judged anew.
    pub(super) fn withdraw_kept(&mut self, node: NodeId, applied: &mut Applied) {
        let back: Vec<RunRef> = self.kept.back_on(node).collect();
        back.into_iter().for_each(|run| self.set_back(run, None, applied));
    }

    /// Forgets a kept run. Where its node is there, its agent hears of it with the next wanted set and stops it.
    fn forget_kept(&mut self, run: RunRef, applied: &mut Applied) {
        let Some(kept) = self.kept.remove(run) else { return };
        self.give_room_of(&kept);
        self.shapes.leave(kept.shape);
        self.tell_forgotten(run, &kept, applied);
        self.tell_drained(kept.node, applied);
    }

    fn tell_forgotten(&mut self, run: RunRef, kept: &KeptRun, applied: &mut Applied) {
        if self.nodes.get(kept.node).is_some_and(|record| record.health != NodeHealth::Lost) {
            self.nodes.touch(kept.node, self.applied, SessionId(0));
            applied.nodes.push(kept.node);
        }
        applied.jobs.push(run.task.job);
    }

    /// Forgets every kept run of a job that is closed, given up or evicted whole.
    pub(super) fn forget_kept_of(&mut self, job: JobId, applied: &mut Applied) {
        self.forget_kept_where(job, |_, _| true, applied);
    }

    /// Forgets the kept runs of a job that are meant.
    pub(super) fn forget_kept_where(
        &mut self,
        job: JobId,
        is_meant: impl Fn(&RunRef, &KeptRun) -> bool,
        applied: &mut Applied,
    ) {
        let runs = self.kept.of_job(job).filter(|(run, kept)| is_meant(run, kept)).map(|(run, _)| *run);
        let runs: Vec<RunRef> = runs.collect();
        runs.into_iter().for_each(|run| self.forget_kept(run, applied));
    }

    /// Forgets every kept run on a node: its machine booted again, or it is removed.
    pub(super) fn forget_kept_on(&mut self, node: NodeId, applied: &mut Applied) {
        let runs: Vec<RunRef> = self.kept.on_node(node).collect();
        runs.into_iter().for_each(|run| self.forget_kept(run, applied));
    }

    /// A node reports the end of a run that the cell does not count any more.
    pub(super) fn kept_ended(&mut self, run: RunRef, node: NodeId, applied: &mut Applied) {
        if self.kept.get(run).is_some_and(|kept| kept.node == node) {
            self.forget_kept(run, applied);
        }
    }

    /// A node is back, and these runs live there: each kept one lives on or is stopped, by its job's rule.
    pub(super) fn reconcile(&mut self, node: NodeId, alive: &BTreeSet<RunRef>, applied: &mut Applied) {
        let mut returned: Vec<RunRef> = self.kept.on_node(node).collect();
        // They take room in this order: what nothing stands for, then the most important.
        returned.sort_by_key(|run| (self.is_replaced(*run), Reverse(self.priority_of_run(*run)), *run));
        let mut unopposed = Vec::new();
        for run in returned {
            match self.fate(run, alive) {
                Fate::Ends(reason) => {
                    self.tell_reconciled(run, node, false, reason, applied);
                    self.forget_kept(run, applied);
                }
                Fate::Lives(replacement) => {
                    self.set_back(run, Some(replacement), applied);
                    if replacement.is_some() {
                        self.tell_reconciled(run, node, true, "once its replacement is over", applied);
                        self.clear_the_way(run, applied);
                    } else {
                        unopposed.push(run);
                    }
                }
            }
        }
        for run in unopposed.into_iter().filter(|run| self.waits_for_gang(*run)) {
            self.tell_reconciled(run, node, true, "once the replacements of its gang are over", applied);
        }
    }

    fn is_replaced(&self, run: RunRef) -> bool {
        let group = self.jobs.get(run.task.job).and_then(|job| job.groups.get(usize::from(run.task.group.0)));
        let task = group.and_then(|group| group.tasks.get(run.task.task.0 as usize));
        task.is_some_and(|task| task.state == TaskState::Live)
    }

    fn priority_of_run(&self, run: RunRef) -> i32 {
        self.jobs.get(run.task.job).map_or(i32::MIN, |job| job.spec.priority)
    }

    /// Whether others of the run's gang live on once their replacements are over: it comes back with them.
    fn waits_for_gang(&self, run: RunRef) -> bool {
        let whole = self.jobs.get(run.task.job).is_some_and(|job| job.starts_whole());
        whole && self.kept.of_job(run.task.job).any(|(_, kept)| matches!(kept.back, Some(Some(_))))
    }

    /// Stops what stands in the way of a run that lives on.
    fn clear_the_way(&mut self, run: RunRef, applied: &mut Applied) {
        let (task, own) = (run.task, run.incarnation);
        self.forget_kept_where(
            task.job,
            |other, kept| other.task == task && other.incarnation != own && kept.back.is_some(),
            applied,
        );
        if canary::sings(Canary::KeepBoth) {
            return;
        }
        let Some(job) = self.jobs.get(task.job) else { return };
        let slot = job.groups[usize::from(task.group.0)].tasks[task.task.0 as usize].run;
        self.stop_run(slot, StopCause::Reconciled, applied);
    }

    fn fate(&self, run: RunRef, alive: &BTreeSet<RunRef>) -> Fate {
        let Some(kept) = self.kept.get(run) else { return Fate::Ends("it is not known") };
        if !alive.contains(&run) {
            return Fate::Ends("it ended while its node was away");
        }
        let (task, group) = (run.task, usize::from(run.task.group.0));
        let Some(job) = self.jobs.get(task.job).filter(|job| job.state == JobState::Active) else {
            return Fate::Ends("its job is closed");
        };
        let found = job.groups.get(group).and_then(|group| group.tasks.get(task.task.0 as usize));
        let Some(found) = found.filter(|_| task.task.0 < job.spec.groups[group].count) else {
            return Fate::Ends("its task was taken away");
        };
        match found.state {
            TaskState::Pending | TaskState::BackingOff if self.has_room_for(job, run, kept) => Fate::Lives(None),
            TaskState::Pending | TaskState::BackingOff => Fate::Ends("its node has no room left for it"),
            TaskState::Live => {
                let Some(standing) = self.runs.get(found.run) else { return Fate::Lives(None) };
                if !self.has_room_for(job, run, kept) || !self.is_good_for(job, run, kept) {
                    return Fate::Ends("its place is no longer good for it, and its replacement stays");
                }
                let waiting = self.kept.of_job(task.job).filter(|(other, kept)| {
                    other.task == task && other.incarnation != run.incarnation && kept.back.is_some()
                });
                let rival = waiting.map(|(other, kept)| (other.incarnation, kept.started_ms)).next();
                let rival = rival.unwrap_or((standing.run.incarnation, standing.started_ms));
                match outlives(job.spec.reconcile, (run.incarnation, kept.started_ms), rival) {
                    true => Fate::Lives(Some(standing.run.incarnation)),
                    false => Fate::Ends("its replacement stays, by the job's rule"),
                }
            }
            _ => Fate::Ends("its task is over"),
        }
    }

    /// Whether there is room for the run beside what runs on its node and lives on there.
    fn has_room_for(&self, job: &Job, run: RunRef, kept: &KeptRun) -> bool {
        let wish = Wish::Return { devices: kept.masks() };
        let asker = Asker::with_shape(self, job, (run.task.group, kept.shape), wish);
        let over = Overlay::over(self);
        asker.is_some_and(|asker| Room::beside(&asker, What { cell: self, over: &over }, kept.node, 1).count == 1)
    }

    /// Whether nothing would drive the run away again, and its group still belongs there: nobody is to be stopped in
    /// vain.
    fn is_good_for(&self, job: &Job, run: RunRef, kept: &KeptRun) -> bool {
        let (group, node) = (usize::from(run.task.group.0), kept.node);
        let driven = self.leave_cause(kept.shape, node).is_some()
            || self.shapes.get(kept.shape).is_some_and(|shape| self.repels(node, shape));
        let domain = job.shared_domain(group);
        !driven && domain.is_none_or(|domain| self.domain_key(job, group, node) == Some(domain))
    }

    /// Gives those that live on their task and their room again, once nothing is in their way. Called after every
    /// command.
    pub(super) fn settle_kept(&mut self, applied: &mut Applied) {
        let jobs: BTreeSet<JobId> = self.kept.back().iter().map(|run| run.task.job).collect();
        for id in jobs {
            let (mut free, mut outrun, mut waits) = (Vec::new(), Vec::new(), false);
            let Some(job) = self.jobs.get(id) else { continue };
            let whole = job.starts_whole();
            for (run, kept) in self.kept.of_job(id) {
                let Some(after) = kept.back else { continue };
                let group = job.groups.get(usize::from(run.task.group.0));
                let Some(task) = group.and_then(|group| group.tasks.get(run.task.task.0 as usize)) else { continue };
                let standing = self.runs.get(task.run).map(|standing| standing.run.incarnation);
                match task.state {
                    TaskState::Pending | TaskState::BackingOff => free.push(*run),
                    TaskState::Live if standing == after => waits = true,
                    _ => outrun.push((*run, kept.node)),
                }
            }
            for (run, node) in outrun {
                self.tell_reconciled(run, node, false, "its task went on without it", applied);
                self.forget_kept(run, applied);
            }
            // A gang comes back together: one by one they would fall short of its minimum.
            let together = whole && waits;
            if !free.is_empty() && !together {
                self.adopt(id, &free, applied);
            }
        }
    }

    /// Judges whether these runs may stand where they do, as if they were placed there, and lets those live that may.
    fn adopt(&mut self, id: JobId, runs: &[RunRef], applied: &mut Applied) {
        runs.iter().for_each(|run| self.end_waiting_of(*run));
        // From here on they are placements like any others: they take their room anew.
        let kept: BTreeMap<RunRef, KeptRun> =
            runs.iter().filter_map(|run| Some((*run, self.kept.remove(*run)?))).collect();
        kept.values().for_each(|found| self.give_room_of(found));
        let Some(job) = self.jobs.get(id) else { return };
        let transaction = adoption(job.shard, job.version, self.applied, &kept);
        let mut scratch = std::mem::take(&mut self.scratch);
        let made: Vec<(ShapeId, u32)> = kept.values().map(|found| (found.shape, found.revision)).collect();
        let verdict = self.judge_adoption(&transaction, &made, &mut scratch);
        self.scratch = scratch;
        let accepted: BTreeSet<RunRef> = kept
            .keys()
            .enumerate()
            .filter(|(row, _)| verdict.accepted_of(&transaction, *row) > 0)
            .map(|(_, run)| *run)
            .collect();
        for (row, (run, found)) in kept.iter().enumerate() {
            let lives = accepted.contains(run);
            let of_row = |conflict: &&Conflict| conflict.row == Row::Place(row as u32);
            // What a gang falls short of is told once.
            let told = || verdict.conflicts.iter().find(of_row).or(verdict.conflicts.first());
            let refused = || told().map(|conflict| conflict.reason);
            let reason = match (lives, found.back) {
                (true, Some(Some(_))) => "by the job's rule, in place of its replacement".to_string(),
                (true, _) => "nothing stands in its place".to_string(),
                (false, _) if refused() == Some(ConflictReason::GangShort) => {
                    "what is back of its gang is less than its minimum".to_string()
                }
                (false, _) => {
                    format!("it may not stand there any more: {}", refused().map_or("", |reason| reason.name()))
                }
            };
            self.tell_reconciled(*run, found.node, lives, &reason, applied);
            if !lives {
                self.tell_forgotten(*run, found, applied);
            }
        }
        let attempts: Vec<Incarnation> = accepted.iter().map(|run| self.attempts_at(*run)).collect();
        self.perform(SessionId(0), &transaction, &verdict, &made, applied);
        made.into_iter().for_each(|(shape, _)| drop(self.shapes.leave(shape)));
        let nodes: BTreeSet<NodeId> = kept.values().map(|found| found.node).collect();
        for (run, attempts) in accepted.into_iter().zip(attempts) {
            self.resume_run(run, attempts, &kept[&run], applied);
        }
        // What drives away from there while nobody saw them drives them away now, each by its own number.
        for node in nodes {
            self.evict_repelled(node, applied);
            self.end_drain(node, applied);
            self.settle_leaving(node, applied);
            self.tell_drained(node, applied);
        }
    }

    fn attempts_at(&self, run: RunRef) -> Incarnation {
        let group = self.jobs.get(run.task.job).and_then(|job| job.groups.get(usize::from(run.task.group.0)));
        group.and_then(|group| group.tasks.get(run.task.task.0 as usize)).map_or(run.incarnation, |task| task.attempts)
    }

    /// What failed and waits to be tried again waits no more: an earlier attempt lives.
    fn end_waiting_of(&mut self, run: RunRef) {
        let Some(job) = self.jobs.get_mut(run.task.job) else { return };
        let group = &mut job.groups[usize::from(run.task.group.0)];
        let task = &mut group.tasks[run.task.task.0 as usize];
        if task.state == TaskState::BackingOff {
            task.state = TaskState::Pending;
            group.backing_off -= 1;
            group.pending.insert(run.task.task.0, 1);
        }
    }

    /// The placement that was just performed is no new attempt: it is the old one, which runs.
    fn resume_run(&mut self, run: RunRef, attempts: Incarnation, kept: &KeptRun, applied: &mut Applied) {
        let (group, index) = (usize::from(run.task.group.0), run.task.task.0 as usize);
        let Some(job) = self.jobs.get_mut(run.task.job) else { return };
        let task = &mut job.groups[group].tasks[index];
        (task.incarnation, task.attempts) = (run.incarnation, attempts);
        let slot = task.run;
        let is_it = |past: &crate::state::jobs::PastRun| {
            (past.group, past.task, past.incarnation) == (run.task.group.0, run.task.task.0, run.incarnation)
        };
        job.past.retain(|past| !is_it(past));
        if let Some(found) = self.runs.slab.get_mut(slot) {
            (found.run, found.placed_ms) = (run, kept.placed_ms);
        }
        self.run_started(slot, kept.pid, applied);
        if let Some(found) = self.runs.slab.get_mut(slot).filter(|_| kept.started_ms > 0) {
            found.started_ms = kept.started_ms;
        }
    }

    fn tell_reconciled(&self, run: RunRef, node: NodeId, lives: bool, reason: &str, applied: &mut Applied) {
        let name = self.jobs.get(run.task.job).map_or_else(String::new, |job| job.spec.name.clone());
        let (job, group, task) = (run.task.job, run.task.group.0, run.task.task.0);
        let (incarnation, reason) = (run.incarnation, reason.to_string());
        self.tell(applied, EventKind::Reconciled { job, name, group, task, incarnation, node, lives, reason });
    }
}

/// Whether the first of two runs of a task lives on; each by its number and the stamped time of its start, 0 before.
fn outlives(rule: Reconcile, kept: (Incarnation, u64), rival: (Incarnation, u64)) -> bool {
    match rule {
        Reconcile::Newer => kept.0 > rival.0,
        Reconcile::Original => kept.0 < rival.0,
        Reconcile::LongestRunning => rival.1 == 0 || (kept.1 != 0 && kept.1 <= rival.1),
    }
}

/// The kept runs as rows of a transaction, each where it stands.
fn adoption(shard: Shard, version: Index, seen: Index, kept: &BTreeMap<RunRef, KeptRun>) -> Transaction {
    let row = |(run, kept): (&RunRef, &KeptRun)| Placement {
        job: run.task.job,
        group: run.task.group,
        first: run.task.task,
        count: 1,
        node: kept.node,
        class: Default::default(),
        devices: kept.devices.iter().flat_map(|masks| masks.iter().copied()).collect(),
    };
    let guard = kept.keys().next().map(|run| JobGuard { job: run.task.job, version, reserved: false });
    Transaction {
        shard,
        epoch: Default::default(),
        seen,
        grain: Grain::PerTask,
        guard: Guard::Fits,
        jobs: guard.into_iter().collect(),
        evict: Vec::new(),
        place: kept.iter().map(row).collect(),
        nominate: Vec::new(),
        reserve: Vec::new(),
    }
}
