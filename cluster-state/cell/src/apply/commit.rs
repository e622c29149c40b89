//! Committing a transaction: the verdict first, then everything it accepted.

use super::Applied;
use crate::cell::Cell;
use crate::state::admission::Standing;
use crate::state::jobs::{Group, Job, TaskState};
use crate::state::nodes::NOMINATED;
use crate::state::repairs::RepairState;
use crate::state::runs::{NO_RUN, Run};
use crate::state::shapes::Shape;
use ohm_model::transaction::Row;
use ohm_model::{
    ConflictReason, EventKind, Grain, GroupIndex, Incarnation, JobId, Move, NodeId, Outcome, Placement, Purpose,
    RepairPolicy, ResourceId, RunRef, SessionId, ShapeId, StopCause, TaskIndex, TaskRef, Transaction, Verdict,
};
use ohm_stdx::canary::{self, Canary};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a transaction changes that is cheaper to change once than for every row: the quota of its queues, and the
/// pending tasks of the group at hand.
#[derive(Default)]
struct Deferred {
    by_queue: BTreeMap<String, usize>,
    charges: Vec<(String, Vec<(ResourceId, i64)>)>,
    last: usize,
    placed: Option<(JobId, GroupIndex, u32, u32)>,
    /// The job that was told to have changed last.
    named: Option<JobId>,
    /// Groups that may leave their domain: decided for the whole transaction, as the judge does, whatever its earlier
    /// rows have placed already.
    may_widen: Vec<(JobId, usize)>,
    /// Tasks that were lost and stand again.
    moves: BTreeMap<JobId, Vec<Move>>,
}

impl Deferred {
    fn charge(&mut self, queue: &str, requests: &[(ResourceId, i64)], count: u32) {
        if self.charges.get(self.last).is_none_or(|(known, _)| known != queue) {
            self.last = self.by_queue.get(queue).copied().unwrap_or(self.charges.len());
        }
        if self.last == self.charges.len() {
            self.by_queue.insert(queue.to_string(), self.last);
            self.charges.push((queue.to_string(), Vec::new()));
        }
        let amounts = &mut self.charges[self.last].1;
        for &(resource, request) in requests {
            let amount = request * i64::from(count);
            match amounts.iter_mut().find(|(column, _)| *column == resource) {
                Some((_, sum)) => *sum += amount,
                None => amounts.push((resource, amount)),
            }
        }
    }
}

impl Cell {
    pub(super) fn commit(&mut self, session: SessionId, transaction: &Transaction, applied: &mut Applied) -> Outcome {
        for placement in &transaction.place {
            self.warm(placement);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let verdict = self.judge(session, transaction, &mut scratch);
        self.scratch = scratch;
        if !verdict.conflicts.is_empty() {
            self.tell_conflicts(session, &verdict, applied);
        }
        let nothing = transaction.grain == Grain::AllOrNothing && !verdict.conflicts.is_empty();
        if !nothing && !verdict.conflicts.iter().any(|conflict| conflict.row == Row::Whole) {
            self.perform(session, transaction, &verdict, &[], applied);
        }
        Outcome::Verdict(verdict)
    }

    pub(super) fn warm(&mut self, placement: &Placement) {
        let Some(job) = self.jobs.get(placement.job) else { return };
        let Some(group) = job.groups.get(usize::from(placement.group.0)) else { return };
        let shape = group.shape;
        if placement.class == self.nodes.class(placement.node) {
            self.shapes.remember(shape, placement.class, &self.classes);
        }
    }

    fn tell_conflicts(&self, session: SessionId, verdict: &Verdict, applied: &mut Applied) {
        let mut reasons: BTreeMap<ConflictReason, u32> = BTreeMap::new();
        verdict.conflicts.iter().for_each(|conflict| *reasons.entry(conflict.reason).or_insert(0) += 1);
        let (scheduler, reasons) = (self.session_name(session), reasons.into_iter().collect());
        self.tell(applied, EventKind::Conflicted { scheduler, reasons });
    }

    /// Does what `verdict` has accepted. `made` says for each row what its runs are made of; without it they are of the
    /// current shape and revision of their group.
    pub(super) fn perform(
        &mut self,
        session: SessionId,
        transaction: &Transaction,
        verdict: &Verdict,
        made: &[(ShapeId, u32)],
        applied: &mut Applied,
    ) {
        if transaction.is_move() {
            return self.perform_move(transaction, applied);
        }
        let refused: BTreeSet<Row> = verdict.conflicts.iter().map(|conflict| conflict.row).collect();
        self.give_up_repairs(transaction, &refused, applied);
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            if !refused.contains(&Row::Evict(row as u32))
                && let Some(slot) = self.live_slot(*run)
            {
                self.stop_run(slot, *cause, applied);
            }
        }
        let mut deferred = Deferred { may_widen: self.may_widen(transaction), ..Deferred::default() };
        for (row, placement) in transaction.place.iter().enumerate() {
            match verdict.accepted_of(transaction, row) {
                0 => {}
                count => self.place(session, placement, (count, made.get(row).copied()), &mut deferred, applied),
            }
        }
        self.cut_pending(deferred.placed.take());
        for (job, moves) in std::mem::take(&mut deferred.moves) {
            self.note_moves(job, moves, applied);
            // A run that came back with its node is where it was: nobody starts again for it.
            if session.0 != 0 {
                self.restart_survivors(job, applied);
            }
        }
        for (queue, amounts) in &deferred.charges {
            self.charge_queue(queue, amounts.iter().copied());
        }
        transaction.jobs.iter().for_each(|guard| self.settle_start(guard.job, applied));
        for (row, nomination) in transaction.nominate.iter().enumerate() {
            match nomination.purpose {
                _ if refused.contains(&Row::Nominate(row as u32)) => {}
                Purpose::Spare => self.hold_spare(nomination, applied),
                Purpose::Preemptor { .. } => self.nominate(nomination, applied),
                Purpose::Move => {}
            }
        }
        for (row, job) in transaction.reserve.iter().enumerate() {
            if !refused.contains(&Row::Reserve(row as u32)) {
                self.reserve(*job, applied);
            }
        }
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            if *cause == StopCause::Preempted && !refused.contains(&Row::Evict(row as u32)) {
                self.settle_preempted(run.task.job, applied);
            }
        }
    }

    fn place(
        &mut self,
        session: SessionId,
        placement: &Placement,
        (count, made): (u32, Option<(ShapeId, u32)>),
        deferred: &mut Deferred,
        applied: &mut Applied,
    ) {
        let (node, group_index) = (placement.node, usize::from(placement.group.0));
        let Some(job) = self.jobs.get(placement.job) else { return };
        let (spec, was_live, was_started) = (Arc::clone(&job.spec), job.live() > 0, job.started_ms > 0);
        let free = job.reserved.is_empty() || canary::sings(Canary::ChargeReserved);
        let charged = free && !spec.queue.is_empty();
        let group = &job.groups[group_index];
        let (shape_id, revision) = made.unwrap_or((group.shape, group.revision));
        let Some(shape) = self.shapes.join_again(shape_id, count) else { return };
        self.note_admitted(placement.job);
        self.widen((placement.job, group_index), node, deferred);
        let domain = self.jobs.get(placement.job).and_then(|job| self.domain_key(job, group_index, node));
        self.use_spares(placement, count, applied);
        self.collect_moves(placement, count, &mut deferred.moves);
        self.start_runs(placement, count, (shape_id, revision), &shape, domain);
        for &(resource, request) in &shape.requests {
            self.nodes.give(node, resource, -request * i64::from(count));
        }
        if charged {
            deferred.charge(&spec.queue, &shape.requests, count);
        }
        self.defer_cut(placement, count, deferred);
        self.take_ports(node, &shape.ports);
        if self.nodes.flags(node) & NOMINATED != 0 {
            self.use_nomination(placement.job, placement.group, node, count);
        }
        self.settle_moved(placement, count, applied);
        self.nodes.touch(node, self.applied, session);
        applied.nodes.push(node);
        if deferred.named.replace(placement.job) != Some(placement.job) {
            applied.jobs.push(placement.job);
        }
        let (job, group, first) = (placement.job, placement.group.0, placement.first.0);
        self.tell(applied, EventKind::Placed { job, group, first, count, node });
        if !was_live {
            self.tell_state(job, "", applied);
        }
        if !was_started {
            self.arm_deadline(job);
        }
    }

    /// Rows of a gang ascend, so most of them lengthen one range of tasks that are no longer pending.
    fn defer_cut(&mut self, placement: &Placement, count: u32, deferred: &mut Deferred) {
        let row = (placement.job, placement.group, placement.first.0, count);
        match &mut deferred.placed {
            Some((job, group, first, length))
                if (*job, *group, *first + *length) == (placement.job, placement.group, placement.first.0) =>
            {
                *length += count;
            }
            placed => {
                let before = placed.replace(row);
                self.cut_pending(before);
            }
        }
    }

    fn may_widen(&self, transaction: &Transaction) -> Vec<(JobId, usize)> {
        let jobs = transaction.jobs.iter().filter_map(|guard| self.jobs.get(guard.job));
        let widening = |job: &'_ Arc<Job>| {
            let groups = 0..job.groups.len();
            groups.filter(|&group| job.widening_level(group).is_some()).map(|group| (job.id, group)).collect::<Vec<_>>()
        };
        jobs.filter(|job| job.spec.repair.policy == RepairPolicy::Widen).flat_map(widening).collect()
    }

    /// A repair that leaves the domain of a group takes it, and the groups it is placed with, to the wider level.
    fn widen(&mut self, (id, group): (JobId, usize), node: NodeId, deferred: &Deferred) {
        if !deferred.may_widen.contains(&(id, group)) {
            return;
        }
        let Some(job) = self.jobs.get(id).filter(|job| !job.is_widened(group)) else { return };
        let Some((name, level)) = job.binding_level(group) else { return };
        let Some(topology) = self.topologies.get(name) else { return };
        let levels = topology.level(level).zip(topology.level(&job.spec.repair.widen_to));
        let (Some((level, wide)), Some(shared)) = (levels, job.shared_domain(group)) else { return };
        if topology.key_of(node, level) == Some(shared) {
            return;
        }
        let around = |other: usize| Some((other, topology.key_above(level, job.groups[other].domain?, wide)?));
        let wider: Vec<(usize, u32)> = job.partners(group).filter_map(around).collect();
        let Some(job) = self.jobs.get_mut(id) else { return };
        for (other, domain) in wider {
            (job.groups[other].domain, job.groups[other].widened) = (Some(domain), true);
        }
    }

    fn give_up_repairs(&mut self, transaction: &Transaction, refused: &BTreeSet<Row>, applied: &mut Applied) {
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            let job = self.jobs.get(run.task.job);
            let waits = job.is_some_and(|job| job.repair_state() == RepairState::Waiting && job.is_below_minimum());
            if *cause == StopCause::RepairFailed && waits && !refused.contains(&Row::Evict(row as u32)) {
                self.give_up_repair(run.task.job, "no room for what it lost".to_string(), applied);
            }
        }
    }

    /// Takes note of those of the row's tasks that were lost before: where they stood and where they go.
    fn collect_moves(&mut self, placement: &Placement, count: u32, moves: &mut BTreeMap<JobId, Vec<Move>>) {
        let group_index = usize::from(placement.group.0);
        let Some(job) = self.jobs.get(placement.job).filter(|job| !job.groups[group_index].lost.is_empty()) else {
            return;
        };
        let group = &job.groups[group_index];
        let mut found: Vec<Move> = Vec::new();
        for task in (placement.first.0..placement.first.0 + count).filter(|task| group.lost.contains(*task, 1)) {
            let from = self.nodes.name(group.tasks[task as usize].node);
            match found.last_mut() {
                Some(last) if last.first + last.count == task && last.from == from => last.count += 1,
                _ => found.push(Move {
                    group: placement.group.0,
                    first: task,
                    count: 1,
                    from: from.to_string(),
                    to: self.nodes.name(placement.node).to_string(),
                }),
            }
        }
        let Some(job) = self.jobs.get_mut(placement.job) else { return };
        let group = &mut job.groups[group_index];
        for step in &found {
            group.lost.remove(step.first, step.count);
            group.replaced.insert(step.first, step.count);
        }
        if !found.is_empty() {
            moves.entry(placement.job).or_default().extend(found);
        }
    }

    fn cut_pending(&mut self, placed: Option<(JobId, GroupIndex, u32, u32)>) {
        let Some((job, group, first, count)) = placed else { return };
        if let Some(job) = self.jobs.get_mut(job) {
            job.groups[usize::from(group.0)].pending.remove(first, count);
        }
    }

    /// Makes a run for each of the first `count` tasks of the row.
    fn start_runs(
        &mut self,
        placement: &Placement,
        count: u32,
        (shape_id, revision): (ShapeId, u32),
        shape: &Shape,
        domain: Option<u32>,
    ) {
        let (placed, placed_ms, node) = (self.applied, self.now_ms, placement.node);
        let width = shape.devices.len();
        let Cell { jobs, runs, nodes, .. } = self;
        let Some(job) = jobs.get_mut(placement.job) else { return };
        if job.started_ms == 0 {
            job.started_ms = placed_ms.max(1);
        }
        let widened = job.is_widened(usize::from(placement.group.0));
        let group = &mut job.groups[usize::from(placement.group.0)];
        group.live += count;
        group.reshaped += if shape_id == group.shape { 0 } else { count };
        group.domain = domain.or(group.domain);
        group.widened = widened && group.domain.is_some();
        for at in 0..count {
            let index = placement.first.0 + at;
            let task = &mut group.tasks[index as usize];
            task.attempts = Incarnation(task.attempts.0 + 1);
            task.incarnation = task.attempts;
            let masks = placement.devices.get(at as usize * width..(at as usize + 1) * width).unwrap_or(&[]);
            let run = Run {
                run: RunRef {
                    task: TaskRef { job: placement.job, group: placement.group, task: TaskIndex(index) },
                    incarnation: task.incarnation,
                },
                node,
                shape: shape_id,
                revision,
                placed,
                placed_ms,
                started_ms: 0,
                pid: 0,
                stop: None,
                restart: false,
                devices: (!masks.is_empty()).then(|| masks.into()),
                next: NO_RUN,
                previous: NO_RUN,
            };
            task.run = runs.insert(nodes, run);
            (task.state, task.node) = (TaskState::Live, node);
        }
        for masks in placement.devices.chunks(width.max(1)).take(count as usize) {
            self.take_devices(node, &shape.devices, masks, -1);
        }
    }

    /// Groups that now stand with their minimum have started; tasks that a rigid group started without are skipped.
    fn settle_start(&mut self, job: JobId, applied: &mut Applied) {
        let starts = |group: &Group| !group.started && group.live > 0;
        if !self.jobs.get(job).is_some_and(|job| job.groups.iter().any(starts)) {
            return;
        }
        let Some(job) = self.jobs.get_mut(job) else { return };
        for (group, spec) in job.groups.iter_mut().zip(&job.spec.groups).filter(|(group, _)| starts(group)) {
            group.started = true;
            if !spec.elastic && !group.pending.is_empty() {
                let left = std::mem::take(&mut group.pending);
                group.skipped += left.len();
                for task in left.iter().flat_map(|(first, count)| first..first + count) {
                    group.tasks[task as usize].state = TaskState::Skipped;
                    group.moving.remove(task, 1);
                }
            }
        }
        let id = job.id;
        applied.jobs.push(id);
        self.settle_rooms(id, applied);
    }

    fn reserve(&mut self, job: JobId, applied: &mut Applied) {
        let Some(found) = self.jobs.get(job) else { return };
        if !found.reserved.is_empty() {
            return;
        }
        let (queue, request) = (found.spec.queue.clone(), self.whole_request(found));
        let is_asked = self.standing(found) == Standing::Unreserved;
        // What live runs are charged already becomes part of the reservation.
        let missing = self.missing_request(found);
        self.charge_queue(&queue, missing.into_iter());
        let version = self.applied;
        if let Some(found) = self.jobs.get_mut(job) {
            (found.reserved, found.version) = (request, version);
        }
        if is_asked {
            self.open_round(job, applied);
        }
        applied.jobs.push(job);
    }

    /// How many tasks of group `group` of `job` stand on `node`: live runs, and those that came back and live on.
    pub fn standing_on(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let same = |run: &Run| run.run.task.job == job && run.run.task.group == group;
        let back = self.kept.back_on(node).filter(|run| (run.task.job, run.task.group) == (job, group));
        (self.runs.on_node(&self.nodes, node).filter(|(_, run)| same(run)).count() + back.count()) as u32
    }

    /// How many runs are on `node`: live ones, and those that live on there while it is lost or came back with it.
    pub fn runs_on(&self, node: NodeId) -> u32 {
        self.nodes.run_count(node) + self.kept.on_node(node).count() as u32
    }

    /// The slot of `run`, while it is live.
    pub(super) fn live_slot(&self, run: RunRef) -> Option<u32> {
        let job = self.jobs.get(run.task.job)?;
        let task = job.groups.get(usize::from(run.task.group.0))?.tasks.get(run.task.task.0 as usize)?;
        let meant = task.incarnation == run.incarnation || canary::sings(Canary::IgnoreIncarnation);
        (meant && self.runs.get(task.run).is_some()).then_some(task.run)
    }
}
