//! All books that P10 is judged from, and the questions that they answer together: who may be placed, what is free for
//! whom, and what queues let in. Where they don't know, less is there: who is found to wait although he fits does so
//! for sure.

use crate::amounts::{add, asks};
use crate::books::{Books, Standing};
use crate::claims::Claims;
use crate::earmarks::Earmarks;
use crate::kept::Kept;
use crate::p5_required_topology::RequiredTopology;
use crate::p6_admission::Admissions;
use crate::p7_budgets::BudgetBooks;
use crate::p7_repairs::Repairs;
use crate::p7_rollouts::RolloutBooks;
use crate::p8_brought::Brought;
use crate::p8_hard_constraints::objection;
use crate::p8_neighbours::Neighbourhoods;
use crate::p8_quota::Quotas;
use crate::p11_preemption::Preemptions;
use crate::quota::QuotaTree;
use crate::rooms::{Room, Rooms, rooms_beside};
use crate::spares::Spares;
use crate::turns::Turns;
use crate::usage::{Precedence, UsageBooks};
use crate::waiting::{GroupWait, Wait, Waiting};
use ohm_model::{Amounts, GroupSpec, JobId, JobSpec, NodeId, QueueingStrategy, StopPolicy};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// All books, and what is counted from them once.
pub(crate) struct Ledger<'a> {
    pub(crate) books: &'a Books,
    pub(crate) waiting: &'a Waiting,
    pub(crate) claims: &'a Claims,
    pub(crate) admissions: &'a Admissions,
    pub(crate) brought: &'a Brought,
    pub(crate) repairs: &'a Repairs,
    pub(crate) required_topology: &'a RequiredTopology,
    pub(crate) spares: &'a Spares,
    pub(crate) neighbourhoods: &'a Neighbourhoods,
    pub(crate) earmarks: &'a Earmarks,
    pub(crate) quotas: &'a Quotas,
    pub(crate) turns: &'a Turns,
    pub(crate) usage: &'a UsageBooks,
    pub(crate) preemptions: &'a Preemptions,
    pub(crate) budgets: &'a BudgetBooks,
    pub(crate) rollouts: &'a RolloutBooks,
    pub(crate) counted: Counted,
}

/// What is counted when somebody asks for it first.
#[derive(Default)]
pub(crate) struct Counted {
    rooms: OnceCell<Rooms>,
    rooms_in_time: OnceCell<Rooms>,
    fullest: OnceCell<QuotaTree>,
}

/// The tasks of a group that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// How many may be placed now: those in back-off may not.
    pub(crate) pending: u32,
    /// How many must be placed together.
    pub(crate) needed: u32,
}

impl Ledger<'_> {
    /// The name of a job.
    pub(crate) fn title(&self, job: JobId) -> &str {
        self.books.jobs.get(&job).map_or("?", |spec| spec.name.as_str())
    }

    fn rooms(&self) -> &Rooms {
        self.counted.rooms.get_or_init(|| rooms_beside(self.books, |_, _| true))
    }

    /// What is free on a node, whatever is promised there.
    pub(crate) fn room_beside_runs(&self, node: NodeId) -> Room {
        self.rooms().get(&node).cloned().unwrap_or_default()
    }

    /// What waiting tasks of `job` may use of a node: nobody stands there, and no claim or spare of others keeps it
    /// from them. What is held for less important work is no hindrance, unless that is on the move.
    pub(crate) fn room(&self, job: JobId, node: NodeId) -> Room {
        let priority = |job: JobId| self.books.jobs.get(&job).map_or(i32::MAX, |spec| spec.priority);
        let own = priority(job);
        self.without_promises(self.room_beside_runs(node), (job, node), |other| priority(other) < own)
    }

    /// What they may use for sure, once everything has ended that ever does.
    pub(crate) fn room_in_time(&self, job: JobId, node: NodeId) -> Room {
        let lasts = |job: JobId, standing: Standing| self.books.is_endless(job) && !standing.stopping;
        let rooms = self.counted.rooms_in_time.get_or_init(|| rooms_beside(self.books, lasts));
        self.without_promises(rooms.get(&node).cloned().unwrap_or_default(), (job, node), |_| false)
    }

    fn without_promises(&self, mut room: Room, (job, node): (JobId, NodeId), yields: impl Fn(JobId) -> bool) -> Room {
        for (other, group, count) in self.kept().against(job, node, &yields) {
            let spec = self.books.jobs.get(&other).and_then(|spec| spec.groups.get(usize::from(group)));
            spec.into_iter().for_each(|spec| room.occupy(spec, count));
        }
        room
    }

    fn kept(&self) -> Kept<'_> {
        Kept { claims: self.claims, spares: self.spares, earmarks: self.earmarks }
    }

    /// Whether anybody else may be held room for on `node`: what is free for `job` there is not known for sure.
    pub(crate) fn is_promised(&self, job: JobId, node: NodeId) -> bool {
        let others = self.earmarks.on_node(node).any(|(other, ..)| other != job);
        others
            || self.claims.is_on(node)
            || self.claims.is_unsettled(node)
            || self.spares.on_node(node).next().is_some()
    }

    /// Whether a node takes new tasks of a group at all.
    pub(crate) fn is_open(&self, node: NodeId, wish: &GroupSpec) -> bool {
        let book = self.books.nodes.get(&node);
        book.is_some_and(|book| objection(wish, book, 0, self.waiting.now_ms).is_none())
            && book.is_some_and(|book| !self.brought.may_keep_away(book))
            && !self.claims.is_unsettled(node)
    }

    /// Whether the tasks around it let one task of a group stand on a node, as far as that can be said: where several
    /// are to be placed that bear on each other, nobody says so.
    pub(crate) fn may_stand(&self, job: JobId, group: u16, wish: &GroupSpec, (node, tasks): (NodeId, u32)) -> bool {
        let of_job = self.books.jobs.get(&job).into_iter().flat_map(|spec| &spec.groups);
        let mut bears = of_job.filter(|_| tasks > 1).flat_map(|other| {
            let asked = [&wish.neighbours, &other.neighbours].into_iter().flatten();
            asked.filter(|asked| asked.is_about_own(&other.labels) || asked.is_about_own(&wish.labels))
        });
        bears.next().is_none()
            && self.neighbourhoods.is_known(self.books, wish)
            && self.neighbourhoods.keeps_away(self.books, (job, group), wish, node).is_none()
    }

    /// The nodes that take new tasks of a group.
    pub(crate) fn open_nodes<'b>(&'b self, wish: &'b GroupSpec) -> impl Iterator<Item = NodeId> + 'b {
        self.books.nodes.keys().copied().filter(|node| self.is_open(*node, wish))
    }

    /// The domain of a node. One that lacks any level of the topology is outside it, whatever it has of the others.
    pub(crate) fn domain(&self, topology: &str, level: &str, node: NodeId) -> Option<Vec<String>> {
        self.books.lowest_domain(topology, node).and_then(|_| self.books.domain(topology, level, node))
    }

    /// The stop policy of the job's queue, where it keeps anything back.
    pub(crate) fn stop_policy(&self, spec: &JobSpec) -> Option<StopPolicy> {
        let policy = self.quotas.tree().queue(&spec.queue)?.stop_policy;
        (policy != StopPolicy::None).then_some(policy)
    }

    /// Whether a job that waits to start in a StrictFIFO queue may have to wait for another one, whatever that one
    /// waits for.
    pub(crate) fn may_be_kept_back(&self, job: JobId, spec: &JobSpec) -> bool {
        !self.stands(job) && self.waiting.active().any(|(other, _)| self.may_come_before(other, (job, spec)))
    }

    /// Whether nothing of `other` stands, and it comes before the job in a StrictFIFO queue.
    pub(crate) fn may_come_before(&self, other: JobId, (job, spec): (JobId, &JobSpec)) -> bool {
        let queue = self.quotas.tree().queue(&spec.queue);
        let is_strict = queue.is_some_and(|queue| queue.queueing_strategy == QueueingStrategy::StrictFifo);
        let found = self.books.jobs.get(&other).filter(|found| is_strict && found.queue == spec.queue);
        let comes_before = |found: &JobSpec| match self.usage.precedes(found, spec, self.waiting.now_ms) {
            Precedence::Before | Precedence::Unknown => true,
            Precedence::Equal => self.turns.of(other, found) < self.turns.of(job, spec),
            Precedence::After => false,
        };
        found.is_some_and(comes_before) && !self.stands(other)
    }

    /// Which tasks of a group wait, and how many of them must be placed together. Of a held queue only those count that
    /// were placed before.
    pub(crate) fn missing(&self, (job, index): (JobId, u16), spec: &JobSpec, wait: &Wait) -> Missing {
        let (group, none) = (&spec.groups[usize::from(index)], GroupWait::default());
        let state = wait.group(&group.name).unwrap_or(&none);
        let endless = self.books.is_endless(job);
        // What is beyond the count stops and is not asked for again.
        let live = self.books.live(job, index).map(|(task, _)| task).filter(|task| *task < group.count);
        let live: BTreeSet<u32> = live.collect();
        let is_done = |task: &u32| self.books.succeeded(job, index).is_some_and(|tasks| tasks.contains_key(task));
        let done = self.books.done(job, index);
        // What a group that does not grow left out when it started is not asked for any more.
        let chosen = state.chosen().filter(|_| !group.elastic);
        let chosen = if self.stop_policy(spec).is_some() { Some(state.placed()) } else { chosen };
        let wanted = match chosen {
            Some(chosen) => chosen.iter().filter(|task| **task < group.count && !is_done(task)).count() as u32 + done,
            None => group.count,
        };
        let is_wanted = |task: &u32| *task < group.count && chosen.is_none_or(|chosen| chosen.contains(task));
        let backing_off = state.backing_off(self.waiting.now_ms);
        let backing_off = backing_off.filter(|task| is_wanted(task) && !live.contains(task) && !is_done(task)).count();
        let pending = wanted.saturating_sub(live.len() as u32 + done + backing_off as u32);
        let minimum = group.min_count.saturating_sub(done).max(1).min(wanted.saturating_sub(done));
        let needed = match state.has_started {
            true if endless => 1,
            true => minimum.saturating_sub(live.len() as u32).min(pending).max(1),
            false => minimum,
        };
        Missing { pending, needed }
    }

    fn stands(&self, job: JobId) -> bool {
        self.books.live_of(job).next().is_some()
    }

    /// Whether the checks of this job's queue, if it has any, let it be placed now for sure.
    pub(crate) fn may_place(&self, job: JobId, spec: &JobSpec) -> bool {
        match self.quotas.tree().queue(&spec.queue) {
            _ if spec.queue.is_empty() => true,
            None => false,
            Some(queue) => {
                queue.admission_checks.is_empty() || self.stands(job) || self.admissions.is_ready_for_sure(job)
            }
        }
    }

    /// Whether the job waits for a round of checks to be opened, with its quota reserved by then or not: nothing of it
    /// stands, and no round and no other attempt is under way.
    pub(crate) fn is_unasked(&self, job: JobId, spec: &JobSpec, wait: &Wait) -> bool {
        let Some(queue) = self.quotas.tree().queue(&spec.queue) else { return false };
        let waits = |index: u16| self.missing((job, index), spec, wait).pending > 0;
        // Which flavors it would get is not worked out here.
        queue.admission_checks.iter().any(|check| check.on_flavors.is_empty())
            && queue.admission_checks.iter().all(|check| self.waiting.knows_class(&check.name))
            && !self.stands(job)
            && wait.admission_ms <= self.waiting.now_ms
            && self.admissions.is_over_for_sure(job)
            && (0..spec.groups.len() as u16).any(waits)
    }

    /// Whether the queue lets so much more in for sure, or has let all of the job in already.
    pub(crate) fn queue_takes(&self, job: JobId, spec: &JobSpec, asked: &Amounts) -> bool {
        if spec.queue.is_empty() {
            return true;
        }
        // Which flavor it would get, and what the nodes of that flavor take, is not worked out here.
        if self.admissions.flavors.has_queue(&spec.queue) {
            return false;
        }
        if self.admissions.may_hold(job) {
            return self.admissions.holds_for_sure(job);
        }
        self.queue_has(&spec.queue, asked) && !self.may_cede(job, spec)
    }

    /// Whether quota may be left to a job that comes before `job` in its queue, or for which others stop.
    pub(crate) fn may_cede(&self, job: JobId, spec: &JobSpec) -> bool {
        self.turns.may_cede((job, spec, self.usage.orders(&spec.queue)), (self.books, self.waiting, self.claims))
            || self.is_quota_promised(job, spec)
    }

    /// Whether anybody else under the same root is to have what others give back.
    pub(crate) fn is_quota_promised(&self, job: JobId, spec: &JobSpec) -> bool {
        let root = |spec: &JobSpec| self.quotas.tree().path(&spec.queue).last().map(ToString::to_string);
        let others = self.preemptions.waiting().filter(|other| *other != job);
        others.filter_map(|other| self.books.jobs.get(&other)).any(|other| root(other) == root(spec))
    }

    /// Whether so much more may be used of a queue for sure.
    pub(crate) fn queue_has(&self, queue: &str, asked: &Amounts) -> bool {
        if self.admissions.flavors.has_queue(queue) {
            return false;
        }
        let tree = self.fullest();
        let limited = asked.iter().filter(|(resource, _)| tree.limits(queue, resource));
        limited.into_iter().all(|(resource, amount)| tree.left(queue, resource) >= *amount)
    }

    /// How much of a resource is left for the queue: at least and at most. Nothing when the queue does not limit it. Of
    /// a flavor that it does not give any more, nothing is left to what stands there, and what it uses is too much.
    pub(crate) fn quota_left(&self, queue: &str, resource: &str) -> Option<(i64, i64)> {
        let tree = self.quotas.tree();
        if tree.gives_by_flavor(queue) && !tree.limits(queue, resource) {
            return Some((tree.left(queue, resource).min(-tree.over_own(queue, resource)).min(0), 0));
        }
        tree.limits(queue, resource).then(|| (self.fullest().left(queue, resource), tree.left(queue, resource)))
    }

    /// The quota tree with every reservation that may be there.
    fn fullest(&self) -> &QuotaTree {
        self.counted.fullest.get_or_init(|| {
            let mut tree = self.quotas.tree().clone();
            for (job, asked) in self.admissions.reservations() {
                let mut whole = Amounts::new();
                for (index, group) in asked.groups.iter().enumerate() {
                    let named = |count: u32| self.quotas.named(job, index as u16, asks(group, count));
                    add(&mut whole, &named(group.count));
                    let live = self.books.live(job, index as u16).count() as u32;
                    named(live).iter().for_each(|(name, amount)| *whole.entry(name.clone()).or_insert(0) -= amount);
                }
                whole.values_mut().for_each(|amount| *amount = (*amount).max(0));
                tree.charge(&asked.queue, &whole, 1);
            }
            tree
        })
    }
}
