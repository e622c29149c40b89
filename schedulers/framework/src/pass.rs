//! One planning pass: wake, take, plan, put together, send.

use crate::admission::Pass;
use crate::cost::CellSize;
use crate::explain::{Explanation, Obstacle};
use crate::flight::{Batch, Flight};
use crate::in_time::claim_head;
use crate::input::SchedulerEffect;
use crate::moves::{plan_waiting, seek_places};
use crate::plan::{Decision, Plan, PlannedJob, row_bytes_max};
use crate::planner::{Budget, Need, Planner, Work, WorkItem};
use crate::preempt::{lacks_room, may_preempt_for_room, preempt, seeks_victims};
use crate::repair::claim_for;
use crate::scheduler::SchedulerCore;
use crate::shares::{follow_usage, key_parts, ordered_queues};
use crate::turns::Turns;
use ohm_cell::preemptions;
use ohm_client::SessionInput;
use ohm_model::{Command, Grain, Guard, JobId, Lease, NodeId, Placement, ResourceId, Shard};
use ohm_queueing::Blocker;
use std::collections::BTreeSet;

/// No transaction is larger: one log entry holds 1 MiB, and a little of it is needed around the transaction.
pub const TRANSACTION_BYTES_MAX: usize = (1 << 20) - (4 << 10);
/// So many jobs may be taken or sent back to their kin in one pass, for each that is planned.
const TAKE_STEPS: usize = 16;
/// Once so many pieces were looked at in one pass that might be stopped for room, other jobs look in the next one.
const PIECES_PER_PASS: usize = 20_000;
/// So many bunches of kin are looked at in one pass of a sweep.
const SWEEP_BUNCHES: usize = 1024;

impl<P: Planner> SchedulerCore<P> {
    /// One pass of bounded work.
    pub(crate) fn proceed(&mut self, now_ms: u64, out: &mut Vec<SchedulerEffect>) {
        self.drop_outrun(now_ms, out);
        follow_usage(self);
        self.wake();
        self.abroad.look(now_ms, &mut self.backlog, (self.follower.cell(), &self.shards));
        if !self.has_room() {
            return;
        }
        if !self.backlog.has_ready() {
            return self.abroad.note_turn(now_ms, &self.backlog, &BTreeSet::new());
        }
        let (work, unreserved) = self.take_work(now_ms);
        let cell = self.follower.cell();
        let taken = work.jobs.iter().map(|item| item.job).chain(unreserved.iter().copied());
        let queues = taken.filter_map(|job| cell.jobs().get(job)).map(|job| cell.quota().root(&job.spec.queue));
        self.abroad.note_turn(now_ms, &self.backlog, &queues.collect());
        if !work.jobs.is_empty() {
            self.plan(now_ms, &work, out);
        }
        self.reserve_all(now_ms, &unreserved, out);
        if self.flights.len() == 0 && !self.backlog.has_ready() {
            self.abroad.note_own(false, now_ms);
        }
    }

    /// Plans repairs, or one move, or all the rest: what has to move is looked at on another picture.
    fn plan(&mut self, now_ms: u64, work: &Work, out: &mut Vec<SchedulerEffect>) {
        let first = work.jobs.iter().position(|item| item.need == Need::Move).unwrap_or(work.jobs.len());
        let now = if first == 0 { 1 } else { first };
        for item in &work.jobs[now..] {
            self.backlog.give_back(item.job);
        }
        let now = Work { jobs: work.jobs[..now].to_vec(), budget: work.budget };
        if first == 0 { self.plan_move(now_ms, &now, out) } else { self.plan_places(now_ms, &now, out) }
    }

    fn plan_move(&mut self, now_ms: u64, work: &Work, out: &mut Vec<SchedulerEffect>) {
        self.tell_planner();
        let mut board = self.holds.board(self.follower.cell(), self.follower.member().session().unwrap_or_default());
        let sought = seek_places(&mut self.planner, &mut board, work.jobs[0], work.budget.nodes, &mut self.dice);
        self.counters.passes += 1;
        self.counters.examined += sought.examined;
        self.changes.nodes.extend(sought.nodes);
        let mut plan = Plan { decisions: vec![sought.decision], examined: sought.examined };
        if let Some(Decision::Unplaced(_)) = plan.decisions.first() {
            // The nodes that it counts as taken are free.
            self.tell_planner();
            let session = self.follower.member().session().unwrap_or_default();
            let mut board = self.holds.board(self.follower.cell(), session);
            let waiting = plan_waiting(&mut self.planner, &mut board, work.jobs[0], work.budget, &mut self.dice);
            let waiting = waiting.map(|(_, placed)| placed).unwrap_or_default();
            self.counters.examined += waiting.examined;
            if matches!(waiting.decisions.first(), Some(Decision::Planned(_))) {
                plan.decisions = waiting.decisions;
            }
        }
        self.settle(now_ms, work, plan, out);
    }

    fn plan_places(&mut self, now_ms: u64, work: &Work, out: &mut Vec<SchedulerEffect>) {
        self.tell_planner();
        let mut board = self.holds.board(self.follower.cell(), self.follower.member().session().unwrap_or_default());
        let plan = self.planner.plan(&mut board, work, &mut self.dice);
        self.counters.passes += 1;
        self.counters.examined += plan.examined;
        self.pieces_sought = 0;
        self.settle(now_ms, work, plan, out);
    }

    /// A lease may have run out on the own clock since the last step: then nothing may be planned for its shard, and
    /// only the member can say what comes next.
    fn drop_outrun(&mut self, now_ms: u64, out: &mut Vec<SchedulerEffect>) {
        let outrun = |shard: &Shard| self.follower.member().holds(Lease::Shard(*shard), now_ms).is_none();
        if self.shards.keys().any(outrun) {
            self.with_follower(now_ms, out, |follower, effects| follower.step(now_ms, SessionInput::Tick, effects));
        }
    }

    /// Wakes what the changes since the last pass may have made possible.
    fn wake(&mut self) {
        let improved = std::mem::take(&mut self.changes.improved);
        if std::mem::take(&mut self.changes.neighbours) || !improved.is_empty() {
            self.backlog.wake_blocked(&Blocker::Neighbours);
        }
        if !improved.is_empty() {
            self.wake_second_passes();
            let view = Self::view(self.follower.cell(), &mut self.holds, self.follower.member());
            let open: Vec<NodeId> =
                improved.into_iter().filter(|node| self.follower.cell().nodes().is_schedulable(*node)).collect();
            let most_free = |resource: ResourceId| open.iter().map(|node| view.free(*node, resource)).max();
            let awaited = self.backlog.awaited().into_iter();
            let free: Vec<(ResourceId, i64)> =
                awaited.filter_map(|resource| Some((resource, most_free(resource)?))).collect();
            free.into_iter().for_each(|(resource, free)| self.backlog.wake_room(resource, free));
        }
        for root in std::mem::take(&mut self.changes.quota) {
            self.backlog.wake_blocked(&Blocker::Quota { root });
        }
        if self.sweeping {
            self.sweeping = !self.backlog.sweep(SWEEP_BUNCHES);
        }
    }

    /// What is to be planned, and the jobs whose quota is to be reserved.
    fn take_work(&mut self, now_ms: u64) -> (Work, Vec<JobId>) {
        let (mut jobs, mut unreserved) = (Vec::new(), Vec::new());
        if self.size.is_empty() {
            self.size = CellSize::of(self.follower.cell());
        }
        for job in take_jobs(self) {
            let need = match self.pass_of(job) {
                Some(Pass::Place(need)) => need,
                Some(Pass::Reserve) => {
                    unreserved.push(job);
                    continue;
                }
                Some(Pass::Wait(waits)) => {
                    self.park(now_ms, job, Explanation::of_obstacle(job, self.follower.cell().applied(), 0, waits));
                    continue;
                }
                None => {
                    self.backlog.remove(job);
                    continue;
                }
            };
            let attempt = self.attempts.get(&job).copied().unwrap_or(0);
            let nominated = self.follower.cell().nominations().nominates(job);
            let mut item = WorkItem { job, need, attempt, nominated, counted: true };
            item.counted = !may_preempt(self, item);
            jobs.push(item);
        }
        let budget = Budget { nodes: self.config.nodes_per_pass, rows: self.config.rows_per_pass };
        (Work { jobs, budget }, unreserved)
    }

    /// Tells the planner what changed since it was told last.
    fn tell_planner(&mut self) {
        let view = Self::view(self.follower.cell(), &mut self.holds, self.follower.member());
        let changes = &mut self.changes;
        let (nodes, jobs) = (std::mem::take(&mut changes.nodes), std::mem::take(&mut changes.jobs));
        self.live.changed(&jobs, &nodes);
        if std::mem::take(&mut changes.all) {
            self.planner.reset(&view);
            self.live.reset();
        } else if !nodes.is_empty() || !jobs.is_empty() {
            let (nodes, jobs): (Vec<_>, Vec<_>) = (nodes.into_iter().collect(), jobs.into_iter().collect());
            self.planner.changed(&view, &nodes, &jobs);
        }
    }

    /// Sorts the decisions of one pass: plans are sent, unplaced jobs go to where they wait, the rest back.
    fn settle(&mut self, now_ms: u64, work: &Work, plan: Plan, out: &mut Vec<SchedulerEffect>) {
        let mut open: BTreeSet<JobId> = work.jobs.iter().map(|item| item.job).collect();
        let (mut batches, mut unplaced) = (Vec::new(), Vec::new());
        for decision in plan.decisions {
            let job = decision.job();
            if !open.remove(&job) {
                self.counters.void += 1;
                continue;
            }
            match decision {
                Decision::Planned(mut planned) => {
                    self.bind_repair(&mut planned);
                    self.board(now_ms, *planned, &mut batches);
                }
                Decision::Unplaced(explanation) => unplaced.push((job, explanation)),
                Decision::Nothing(job) => self.backlog.remove(job),
            }
        }
        // The first job is always decided about; a planner that does not would be asked for ever.
        if let Some(first) = work.jobs.first().map(|item| item.job).filter(|first| open.remove(first)) {
            self.park_void(now_ms, first);
        }
        open.into_iter().for_each(|job| self.backlog.give_back(job));
        batches.into_iter().for_each(|batch| self.launch(now_ms, batch, out));
        for (job, explanation) in unplaced {
            let item = work.jobs.iter().find(|item| item.job == job).copied();
            seek_otherwise(self, now_ms, (job, item, explanation), out);
        }
    }

    /// Puts a plan into a batch.
    pub(crate) fn board(&mut self, now_ms: u64, mut planned: PlannedJob, batches: &mut Vec<Batch>) {
        let job = planned.job.job;
        // The planner counted every row it returned as taken.
        self.changes.nodes.extend(planned.place.iter().map(|row| row.node));
        self.changes.nodes.extend(planned.nominate.iter().map(|row| row.node));
        let foreign = planned.place.iter().any(|row| row.job != job);
        if planned.is_empty() || foreign {
            return self.park_void(now_ms, job);
        }
        let found = self.follower.cell().jobs().get(job);
        let held = found
            .and_then(|found| Some((found.shard, self.follower.member().holds(Lease::Shard(found.shard), now_ms)?)));
        let Some((shard, epoch)) = held else {
            // The shard ran out while this pass went on; its next holder plans the job.
            return self.backlog.remove(job);
        };
        if planned.bytes_max() > TRANSACTION_BYTES_MAX && !self.cut(&mut planned) {
            let obstacle = Obstacle::TooLarge { rows: planned.place.len(), limit: TRANSACTION_BYTES_MAX };
            let of = planned.place.iter().fold(0u32, |sum, row| sum.saturating_add(row.count));
            return self.park(now_ms, job, Explanation::of_obstacle(job, self.follower.cell().applied(), of, obstacle));
        }
        if self.follower.cell().profiles().guard(shard.class) == Guard::Unchanged {
            planned.guard = Guard::Unchanged;
        }
        self.counters.planned += 1;
        let fare = self.backlog.depart(job, self.size.cost_of_plan(self.follower.cell(), &planned));
        let limit = self.config.transaction_bytes.min(TRANSACTION_BYTES_MAX);
        match batches.iter_mut().rev().find(|batch| batch.takes(shard, &planned, limit)) {
            Some(batch) => batch.add(planned, fare),
            None => batches.push(Batch::new(shard, epoch, self.follower.cell().applied(), planned, fare)),
        }
    }

    /// Cuts the rows of a plan that is too large to what fits. A group that would start keeps its minimum, and one that
    /// can't grow later keeps everything. Returns whether it fits now.
    fn cut(&self, planned: &mut PlannedJob) -> bool {
        let Some(job) = self.follower.cell().jobs().get(planned.job.job) else { return false };
        // Spares can be sought later.
        planned.nominate.retain(|room| !room.is_spare());
        if !planned.is_mergeable() {
            return false;
        }
        let mut bytes = planned.bytes_max() - planned.place.iter().map(row_bytes_max).sum::<usize>();
        let fits = |row: &&Placement| {
            bytes += row_bytes_max(row);
            bytes <= TRANSACTION_BYTES_MAX
        };
        let rows = planned.place.iter().take_while(fits).count();
        let (kept, dropped) = planned.place.split_at(rows);
        let may_lose = |row: &Placement| {
            let at = usize::from(row.group.0);
            let (Some(group), Some(spec)) = (job.groups.get(at), job.spec.groups.get(at)) else { return false };
            let stays = kept.iter().filter(|kept| kept.group == row.group).map(|kept| u64::from(kept.count));
            let enough = stays.sum::<u64>() + u64::from(group.live_within_count()) >= u64::from(group.needed(spec));
            (group.started && planned.grain == Grain::PerTask) || (spec.elastic && enough)
        };
        let mut last_group = None;
        let mut groups = dropped.iter().filter(|row| last_group.replace(row.group) != Some(row.group));
        if rows == 0 || !groups.all(may_lose) {
            return false;
        }
        planned.place.truncate(rows);
        // Nothing is known about the rows that were cut off but that they wait.
        planned.rest = None;
        true
    }

    fn park_void(&mut self, now_ms: u64, job: JobId) {
        self.counters.void += 1;
        self.park(now_ms, job, Explanation::of_obstacle(job, self.follower.cell().applied(), 0, Obstacle::EmptyPlan));
    }

    /// Sends a batch and holds what it will take.
    pub(crate) fn launch(&mut self, now_ms: u64, mut batch: Batch, out: &mut Vec<SchedulerEffect>) {
        let flight = Flight::new(self.follower.cell(), &mut self.holds, &mut batch, self.changes.improvements);
        let tag = self.flights.add(flight);
        self.counters.transactions += 1;
        let command = Command::Commit(batch.transaction);
        self.with_follower(now_ms, out, |follower, effects| follower.submit(now_ms, tag, command, effects));
    }
}

/// The jobs whose turn it is, in order.
fn take_jobs<P: Planner>(core: &mut SchedulerCore<P>) -> Vec<JobId> {
    key_parts(core);
    let session = core.follower.member().session().unwrap_or_default();
    let cell = core.follower.cell();
    let held: Vec<_> = ordered_queues(cell).map(|queue| (queue, core.holds.of_parts(queue))).collect();
    let turns = Turns::new(core.holds.view(cell, session), &core.size);
    let mut turns = held.into_iter().fold(turns, |turns, (queue, held)| turns.with_held(queue, held));
    let mut steps = core.config.jobs_per_pass.saturating_mul(TAKE_STEPS);
    let backlog = &mut core.backlog;
    let jobs = std::iter::from_fn(|| backlog.take(&mut steps, &mut turns));
    jobs.take(core.config.jobs_per_pass).collect()
}

/// Stops others for a job that finds no place, gives it up, claims room for it, or lets it wait. What was planned
/// before, also in the same pass, is under way by then.
fn seek_otherwise<P: Planner>(
    core: &mut SchedulerCore<P>,
    now_ms: u64,
    (job, item, why): (JobId, Option<WorkItem>, Box<Explanation>),
    out: &mut Vec<SchedulerEffect>,
) {
    // Whom to stop is worked out where it can be said at once, and as far as one pass goes.
    let is_late = !core.has_room() || core.pieces_sought >= PIECES_PER_PASS;
    if is_late && item.is_some_and(|item| seeks_victims(core.follower.cell(), item, &why)) {
        return core.backlog.give_back(job);
    }
    core.tell_planner();
    let stops_others = item.and_then(|item| preempt(core, item, &why));
    let claim = stops_others.or_else(|| {
        // Room that others are to leave is waited for.
        let is_awaited = preemptions(core.follower.cell()).get(job).is_some();
        let given_up = if is_awaited { None } else { core.give_up(job, &why) };
        core.counters.given_up += u64::from(given_up.is_some());
        given_up.or_else(|| claim_for(core.follower.cell(), job, &why))
    });
    match claim.or_else(|| claim_head(core, item?, &why)) {
        Some(_) if !core.has_room() => core.backlog.give_back(job),
        Some(planned) => {
            let mut batches = Vec::new();
            core.board(now_ms, planned, &mut batches);
            batches.into_iter().for_each(|batch| core.launch(now_ms, batch, out));
        }
        None => match item.filter(|item| !item.counted && lacks_room(&why)) {
            Some(item) => park_counted(core, now_ms, item),
            None => core.park(now_ms, job, *why),
        },
    }
}

/// Whether others might be stopped where the job finds no room: then nodes are counted only once nobody is.
fn may_preempt<P: Planner>(core: &SchedulerCore<P>, item: WorkItem) -> bool {
    let cell = core.follower.cell();
    let priority = cell.jobs().get(item.job).map_or(0, |job| job.spec.priority);
    core.live.may_have_below(priority) && may_preempt_for_room(cell, item)
}

/// Lets a job wait for which nobody is stopped: it is looked at once more to say why it finds no room.
fn park_counted<P: Planner>(core: &mut SchedulerCore<P>, now_ms: u64, item: WorkItem) {
    core.tell_planner();
    let mut board = core.holds.board(core.follower.cell(), core.follower.member().session().unwrap_or_default());
    let budget = Budget { nodes: u64::MAX, rows: core.config.rows_per_pass };
    let work = Work { jobs: vec![WorkItem { counted: true, ..item }], budget };
    let plan = core.planner.plan(&mut board, &work, &mut core.dice);
    core.counters.examined += plan.examined;
    match plan.decisions.into_iter().next() {
        Some(Decision::Unplaced(why)) => core.park(now_ms, item.job, *why),
        Some(Decision::Planned(planned)) => {
            // It finds room after all, and is planned in its turn. The planner counted these rows as taken.
            core.changes.nodes.extend(planned.place.iter().map(|row| row.node));
            core.changes.nodes.extend(planned.nominate.iter().map(|room| room.node));
            core.backlog.give_back(item.job);
        }
        Some(Decision::Nothing(job)) => core.backlog.remove(job),
        None => core.park_void(now_ms, item.job),
    }
}
