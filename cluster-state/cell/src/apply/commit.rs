//! Committing a transaction: the verdict first, then everything it accepted.

mod flavors;
mod moves;

use crate::apply::Tx;
use crate::apply::commit::flavors::{choose_flavors, shape_chosen};
use crate::apply::commit::moves::perform_move;
use crate::apply::steps::holds::{hold, sweep_nominations, use_nomination};
use crate::apply::steps::jobs::{arm_deadline, tell_state};
use crate::apply::steps::repairs::note_moves;
use crate::apply::steps::room::{take_devices, take_ports};
use crate::apply::steps::rounds::{note_admitted, open_round};
use crate::apply::steps::runs::stop_run;
use crate::apply::steps::task_counts::count_tasks;
use crate::cell::Cell;
use crate::policy::admission::settle_preempted;
use crate::policy::claims::make_claim;
use crate::policy::heads::{end_head, make_head};
use crate::policy::moves::{settle_moved, settle_rooms};
use crate::policy::preemptions::preempt;
use crate::policy::repair::give_up_repair;
use crate::policy::spares::{hold_spare, use_spares};
use crate::policy::survivors::restart_survivors;
use crate::policy::tolerations::watch_tolerations;
use crate::rooms::checks::{reserves, standing_as_is};
use crate::rooms::nominations::Held;
use crate::rooms::reads::{live_slot, session_name};
use crate::state::admission::Standing;
use crate::state::jobs::{Group, Job, TaskState};
use crate::state::nodes::NOMINATED;
use crate::state::requests::whole_request;
use crate::state::runs::Run;
use crate::state::shapes::Shape;
use crate::state::timers::Timer;
use ohm_model::transaction::Row;
use ohm_model::{
    Class, ConflictReason, EventKind, FlavorResource, Grain, GroupIndex, Incarnation, JobId, Move, NodeId, Nomination,
    Outcome, Placement, Purpose, RepairPolicy, RunRef, SessionId, ShapeId, StopCause, TaskIndex, TaskRef, Transaction,
    Verdict, Victim,
};
use ohm_stdx::RangeSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a transaction changes that is cheaper to change once than for every row: the quota of its queues, and the
/// pending tasks of the group at hand.
#[derive(Default)]
struct Deferred {
    by_queue: BTreeMap<String, usize>,
    charges: Vec<(String, Vec<(FlavorResource, i64)>)>,
    last: usize,
    placed: Option<(JobId, GroupIndex, u32, u32)>,
    /// The job that was told to have changed last.
    named: Option<JobId>,
    /// Groups that may leave their domain: decided for the whole transaction, as the judge does, whatever its earlier
    /// rows have placed already.
    may_widen: Vec<(JobId, usize)>,
    /// Tasks that were lost and are placed again.
    moves: BTreeMap<JobId, Vec<Move>>,
}

impl Deferred {
    fn charge(&mut self, queue: &str, charges: &[(FlavorResource, i64)], count: u32) {
        if self.charges.get(self.last).is_none_or(|(known, _)| known != queue) {
            self.last = self.by_queue.get(queue).copied().unwrap_or(self.charges.len());
        }
        if self.last == self.charges.len() {
            self.by_queue.insert(queue.to_string(), self.last);
            self.charges.push((queue.to_string(), Vec::new()));
        }
        let amounts = &mut self.charges[self.last].1;
        for &(column, request) in charges {
            let amount = request * i64::from(count);
            match amounts.iter_mut().find(|(known, _)| *known == column) {
                Some((_, sum)) => *sum += amount,
                None => amounts.push((column, amount)),
            }
        }
    }
}

pub(crate) fn commit(tx: &mut Tx<'_>, session: SessionId, transaction: &Transaction) -> Outcome {
    for placement in &transaction.place {
        warm(tx, transaction, placement);
    }
    let mut scratch = std::mem::take(&mut tx.scratch);
    let verdict = tx.judge(session, transaction, &mut scratch);
    tx.scratch = scratch;
    let class = transaction.shard.class;
    tx.applied.judged.push(class);
    if !verdict.conflicts.is_empty() {
        tell_conflicts(tx, session, class, &verdict);
    }
    let nothing = transaction.grain == Grain::AllOrNothing && !verdict.conflicts.is_empty();
    if !nothing && !verdict.conflicts.iter().any(|conflict| conflict.row == Row::Whole) {
        perform(tx, session, transaction, &verdict, &[]);
    }
    Outcome::Verdict(verdict)
}

fn warm(tx: &mut Tx<'_>, transaction: &Transaction, placement: &Placement) {
    // The judge comes later: a row may name anything.
    let Some(job) = tx.jobs.get(placement.job) else { return };
    let Some(group) = job.groups.get(usize::from(placement.group.0)) else { return };
    let shape = shape_chosen(transaction, placement).unwrap_or(group.shape);
    if placement.class == tx.nodes.class(placement.node) {
        tx.cell.shapes.remember(shape, placement.class, &tx.cell.classes);
    }
}

fn tell_conflicts(tx: &mut Tx<'_>, session: SessionId, class: Class, verdict: &Verdict) {
    let mut reasons: BTreeMap<ConflictReason, u32> = BTreeMap::new();
    verdict.conflicts.iter().for_each(|conflict| *reasons.entry(conflict.reason).or_insert(0) += 1);
    let (scheduler, reasons) = (session_name(tx, session), reasons.into_iter().collect());
    tx.tell(EventKind::Conflicted { scheduler, class, reasons });
}

/// Does what `verdict` has accepted. `made` says for each row what its runs are made of; without it they are of the
/// current shape and revision of their group.
pub(crate) fn perform(
    tx: &mut Tx<'_>,
    session: SessionId,
    transaction: &Transaction,
    verdict: &Verdict,
    made: &[(ShapeId, u32)],
) {
    if transaction.is_move() {
        return perform_move(tx, transaction);
    }
    let refused: BTreeSet<Row> = verdict.conflicts.iter().map(|conflict| conflict.row).collect();
    give_up_repairs(tx, transaction, &refused);
    for (row, (run, cause)) in transaction.evict.iter().enumerate() {
        if !refused.contains(&Row::Evict(row as u32))
            && let Some(slot) = live_slot(tx, *run)
        {
            stop_run(tx, slot, *cause);
        }
    }
    choose_flavors(tx, transaction, verdict, &refused);
    let mut deferred = Deferred { may_widen: may_widen(tx, transaction), ..Deferred::default() };
    for (row, placement) in transaction.place.iter().enumerate() {
        match verdict.accepted_of(transaction, row) {
            0 => {}
            count => place(tx, session, placement, (count, made.get(row).copied()), &mut deferred),
        }
    }
    cut_pending(tx, deferred.placed.take());
    for (job, moves) in std::mem::take(&mut deferred.moves) {
        note_moves(tx, job, moves);
        // A run that came back with its node is where it was: nobody starts again for it.
        if session.0 != 0 {
            restart_survivors(tx, job);
        }
    }
    for (queue, amounts) in &deferred.charges {
        tx.charge_queue(queue, amounts.iter().copied());
    }
    transaction.jobs.iter().for_each(|guard| settle_start(tx, guard.job));
    let mut heads = Vec::new();
    for (row, nomination) in transaction.nominate.iter().enumerate() {
        match nomination.purpose {
            _ if refused.contains(&Row::Nominate(row as u32)) => {}
            Purpose::Spare => hold_spare(tx, nomination),
            Purpose::Preemptor { .. } => nominate(tx, nomination, &transaction.preempt),
            Purpose::Head { .. } => heads.push(*nomination),
            Purpose::Move | Purpose::Repair => {}
        }
    }
    make_head(tx, &heads);
    preempt(tx, transaction);
    for (row, claim) in transaction.claim.iter().enumerate() {
        if !refused.contains(&Row::Claim(row as u32)) {
            make_claim(tx, claim);
        }
    }
    for (row, job) in transaction.reserve.iter().enumerate() {
        if !refused.contains(&Row::Reserve(row as u32)) {
            reserve(tx, *job);
        }
    }
    for (row, (run, cause)) in transaction.evict.iter().enumerate() {
        if *cause == StopCause::Preempted && !refused.contains(&Row::Evict(row as u32)) {
            settle_preempted(tx, run.task.job);
        }
    }
}

fn place(
    tx: &mut Tx<'_>,
    session: SessionId,
    placement: &Placement,
    (count, made): (u32, Option<(ShapeId, u32)>),
    deferred: &mut Deferred,
) {
    let (node, group_index) = (placement.node, usize::from(placement.group.0));
    let job = tx.job(placement.job);
    let (was_live, was_started) = (job.live() > 0, job.started_ms > 0);
    let charged = (job.reserved.is_empty() && !job.spec.queue.is_empty()).then(|| Arc::clone(&job.spec));
    let group = &job.groups[group_index];
    let (shape_id, revision) = made.unwrap_or((group.shape, group.revision));
    let Some(shape) = tx.shapes.join_again(shape_id, count) else { tx.stop("the shape of a placed group") };
    note_admitted(tx, placement.job);
    widen(tx, (placement.job, group_index), node, deferred);
    let domain = tx.domain_key(tx.job(placement.job), group_index, node);
    use_spares(tx, placement, count);
    collect_moves(tx, placement, count, &mut deferred.moves);
    start_runs(tx, placement, count, (shape_id, revision), &shape, domain);
    count_tasks(tx, (shape_id, placement.job, placement.group), node, i64::from(count), false);
    for &(resource, request) in &shape.requests {
        tx.nodes.give(node, resource, -request * i64::from(count));
    }
    if let Some(spec) = charged {
        deferred.charge(&spec.queue, &shape.charges, count);
    }
    defer_cut(tx, placement, count, deferred);
    take_ports(tx, node, &shape.ports);
    if tx.nodes.flags(node) & NOMINATED != 0 {
        use_nomination(tx, placement.job, placement.group, node, count);
    }
    if tx.nominations.is_head(placement.job) {
        end_head(tx, placement.job, "it stands");
    }
    settle_moved(tx, placement, count);
    if shape.tolerates_briefly() {
        watch_tolerations(tx, node);
    }
    tx.cell.nodes.touch(node, tx.cell.applied, session);
    tx.applied.nodes.push(node);
    if deferred.named.replace(placement.job) != Some(placement.job) {
        tx.touch_job(placement.job);
    }
    let (job, group, first) = (placement.job, placement.group.0, placement.first.0);
    tx.tell(EventKind::Placed { job, group, first, count, node });
    if !was_live {
        // Why it waited is over.
        tx.job_mut(job).reason.clear();
        tell_state(tx, job, "");
    }
    if !was_started {
        arm_deadline(tx, job);
    }
}

/// Rows of a gang ascend, so most of them lengthen one range of tasks that are no longer pending.
fn defer_cut(tx: &mut Tx<'_>, placement: &Placement, count: u32, deferred: &mut Deferred) {
    let row = (placement.job, placement.group, placement.first.0, count);
    match &mut deferred.placed {
        Some((job, group, first, length))
            if (*job, *group, *first + *length) == (placement.job, placement.group, placement.first.0) =>
        {
            *length += count;
        }
        placed => {
            let before = placed.replace(row);
            cut_pending(tx, before);
        }
    }
}

fn may_widen(cell: &Cell, transaction: &Transaction) -> Vec<(JobId, usize)> {
    let jobs = transaction.jobs.iter().filter_map(|guard| cell.jobs.get(guard.job));
    let widening = |job: &'_ Arc<Job>| {
        let groups = 0..job.groups.len();
        groups.filter(|&group| job.widening_level(group).is_some()).map(|group| (job.id, group)).collect::<Vec<_>>()
    };
    jobs.filter(|job| job.spec.repair.policy == RepairPolicy::Widen).flat_map(widening).collect()
}

/// A repair that leaves the domain of a group takes it, and the groups it is placed with, to the wider level.
fn widen(tx: &mut Tx<'_>, (id, group): (JobId, usize), node: NodeId, deferred: &Deferred) {
    if !deferred.may_widen.contains(&(id, group)) {
        return;
    }
    let job = tx.job(id);
    if job.is_widened(group) {
        return;
    }
    // A group that requires no level has no domain to leave.
    let Some((name, level)) = job.binding_level(group) else { return };
    let Some(topology) = tx.topologies.get(name) else { return };
    let levels = topology.level(level).zip(topology.level(&job.spec.repair.widen_to));
    let (Some((level, wide)), Some(shared)) = (levels, job.shared_domain(group)) else { return };
    if topology.key_of(node, level) == Some(shared) {
        return;
    }
    let around = |other: usize| Some((other, topology.key_above(level, job.groups[other].domain?, wide)?));
    let wider: Vec<(usize, u32)> = job.partners(group).filter_map(around).collect();
    let job = tx.job_mut(id);
    for (other, domain) in wider {
        (job.groups[other].domain, job.groups[other].widened) = (Some(domain), true);
    }
}

fn give_up_repairs(tx: &mut Tx<'_>, transaction: &Transaction, refused: &BTreeSet<Row>) {
    for (row, (run, cause)) in transaction.evict.iter().enumerate() {
        let job = tx.jobs.get(run.task.job);
        let waits = job.is_some_and(|job| job.may_be_given_up());
        if *cause == StopCause::RepairFailed && waits && !refused.contains(&Row::Evict(row as u32)) {
            give_up_repair(tx, run.task.job, "no room for what it lost".to_string());
        }
    }
}

/// Takes note of those of the row's tasks that were lost before: where they ran and where they go.
fn collect_moves(tx: &mut Tx<'_>, placement: &Placement, count: u32, moves: &mut BTreeMap<JobId, Vec<Move>>) {
    let group_index = usize::from(placement.group.0);
    let group = &tx.job(placement.job).groups[group_index];
    if group.lost.is_empty() {
        return;
    }
    let mut found: Vec<Move> = Vec::new();
    for task in (placement.first.0..placement.first.0 + count).filter(|task| group.lost.contains(*task, 1)) {
        let from = tx.nodes.name(group.tasks[task as usize].node);
        match found.last_mut() {
            Some(last) if last.first + last.count == task && last.from == from => last.count += 1,
            _ => found.push(Move {
                group: placement.group.0,
                first: task,
                count: 1,
                from: from.to_string(),
                to: tx.nodes.name(placement.node).to_string(),
            }),
        }
    }
    let job = tx.job_mut(placement.job);
    let group = &mut job.groups[group_index];
    for step in &found {
        group.lost.remove(step.first, step.count);
        group.replaced.insert(step.first, step.count);
    }
    if !found.is_empty() {
        moves.entry(placement.job).or_default().extend(found);
    }
}

fn cut_pending(tx: &mut Tx<'_>, placed: Option<(JobId, GroupIndex, u32, u32)>) {
    let Some((job, group, first, count)) = placed else { return };
    let job = tx.job_mut(job);
    job.groups[usize::from(group.0)].pending.remove(first, count);
}

/// Makes a run for each of the first `count` tasks of the row.
fn start_runs(
    tx: &mut Tx<'_>,
    placement: &Placement,
    count: u32,
    (shape_id, revision): (ShapeId, u32),
    shape: &Shape,
    domain: Option<u32>,
) {
    let (placed, placed_ms, node) = (tx.index(), tx.now_ms, placement.node);
    let width = shape.devices.len();
    let Cell { jobs, runs, nodes, .. } = &mut *tx.cell;
    let job = jobs.get_mut(placement.job).expect("placed tasks are of a job that the cell holds");
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
        let run = RunRef {
            task: TaskRef { job: placement.job, group: placement.group, task: TaskIndex(index) },
            incarnation: task.incarnation,
        };
        let run = Run::placed(run, node, (shape_id, revision), (placed, placed_ms), masks);
        task.run = runs.insert(nodes, run);
        (task.state, task.node) = (TaskState::Live, node);
    }
    for masks in placement.devices.chunks(width.max(1)).take(count as usize) {
        take_devices(tx, node, &shape.devices, masks, -1);
    }
}

/// Groups that now have their minimum placed have started; tasks that a rigid group started without are skipped.
fn settle_start(tx: &mut Tx<'_>, job: JobId) {
    let starts = |group: &Group| !group.started && group.live > 0;
    if !tx.jobs.get(job).is_some_and(|job| job.groups.iter().any(starts)) {
        return;
    }
    let job = tx.job_mut(job);
    for (group, spec) in job.groups.iter_mut().zip(&job.spec.groups).filter(|(group, _)| starts(group)) {
        group.started = true;
        if !spec.elastic && !group.pending.is_empty() {
            let left = std::mem::take(&mut group.pending);
            group.skipped += left.len();
            for task in left.values() {
                group.tasks[task as usize].state = TaskState::Skipped;
                group.moving.remove(task, 1);
            }
        }
    }
    let id = job.id;
    tx.touch_job(id);
    settle_rooms(tx, id);
}

fn reserve(tx: &mut Tx<'_>, job: JobId) {
    let found = tx.job(job);
    if !reserves(tx, found) {
        return;
    }
    let queue = found.spec.queue.clone();
    let request = if found.reserved.is_empty() { whole_request(tx, found) } else { found.reserved.clone() };
    let is_asked = standing_as_is(tx, found) == Standing::Unreserved;
    // What live runs are charged already becomes part of the reservation.
    let missing = tx.missing_request(found);
    tx.charge_queue(&queue, missing.into_iter());
    let version = tx.index();
    let found = tx.job_mut(job);
    (found.reserved, found.version) = (request, version);
    if is_asked {
        open_round(tx, job);
    }
    tx.touch_job(job);
}

/// Keeps room for a preemptor, in place of what is kept for its group on the node: from its victims, too, however
/// important they are.
fn nominate(tx: &mut Tx<'_>, nomination: &Nomination, victims: &[Victim]) {
    let (job, group) = (nomination.job, nomination.group.0);
    let priority_of = |job: JobId| tx.jobs.get(job).map(|job| job.spec.priority);
    let of_victims = victims.iter().filter_map(|victim| priority_of(victim.job));
    let priority = of_victims.chain(priority_of(job)).max().unwrap_or_default();
    let (node, count, purpose, since) = (nomination.node, nomination.count, nomination.purpose, tx.index());
    sweep_nominations(tx, node, |former| !(former.is_preemptor() && (former.job, former.group) == (job, group)));
    let tasks = RangeSet::default();
    hold(tx, node, Held { job, group, count, tasks, priority, purpose, since });
    if let Purpose::Preemptor { expires_ms } = purpose {
        tx.arm(expires_ms, Timer::Nomination(node));
    }
}
