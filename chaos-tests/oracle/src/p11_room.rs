//! P11 where room is lacking: whoever is stopped may be, as people were told; the rooms that are kept for the job fit
//! once the victims have ended, and none of them could have stayed.
//!
//! What is not known for sure speaks for the product: that a victim was needless is said only of room beside all that
//! is kept for others, however important, and not where anything has come back or spares of the job are.

use crate::amounts::{add, asks};
use crate::kept::Kept;
use crate::p11_rights::Case;
use crate::p11_tree::Count;
use crate::quota::QuotaTree;
use crate::rooms::Room;
use ohm_model::{Amounts, JobId, JobSpec, NodeId, Nomination, PreemptionPolicy, PreemptionReason, Victim};
use std::collections::{BTreeMap, BTreeSet};

/// A preemption for room as it is told, before anybody has stopped.
pub(crate) struct RoomCase<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) rooms: &'a [Nomination],
    pub(crate) kept: Kept<'a>,
    /// Jobs that may have lost tasks: what waits of them may be a repair.
    pub(crate) hurt: &'a BTreeSet<JobId>,
    /// Since when jobs stand.
    pub(crate) placed_ms: &'a BTreeMap<JobId, u64>,
    pub(crate) now_ms: u64,
}

impl RoomCase<'_> {
    /// What is wrong with it.
    pub(crate) fn problem(&self) -> Option<String> {
        let spec = self.case.known.spec(self.case.job)?;
        if !self.case.known.is_active(self.case.job) {
            return Some("it is closed".into());
        }
        let mut tree = self.case.tree(Count::Most);
        for victim in self.case.victims {
            if !victim.is_whole() && !self.may_lose(victim) {
                return Some(format!("{} would have less than its minimum", self.case.known.name(victim.job)));
            }
            // Each task that stops has to be open by itself, once those before it have stopped.
            for part in parts_of(victim) {
                if let Some(problem) = self.problem_of_right(spec, &tree, &part) {
                    return Some(problem);
                }
                self.lift(&mut tree, &part);
            }
        }
        self.problem_of_room(spec)
    }

    /// What a victim gives back is its queue's again; of a part what its tasks hold, unless it is reserved.
    fn lift(&self, tree: &mut QuotaTree, victim: &Victim) {
        let known = self.case.known;
        if victim.is_whole() {
            return self.case.lift(tree, victim.job, Count::Most, 1);
        }
        let Some(spec) = known.spec(victim.job).filter(|_| known.admissions.reservation(victim.job).is_none()) else {
            return;
        };
        for at in 0..spec.groups.len() as u16 {
            let runs = victim.runs.iter().filter(|run| run.task.group.0 == at).map(|run| run.task.task.0);
            let held = known.books.asked(victim.job, at, runs);
            tree.charge(&spec.queue, &known.quotas.named(victim.job, at, held), -1);
        }
    }

    fn problem_of_right(&self, spec: &JobSpec, tree: &QuotaTree, victim: &Victim) -> Option<String> {
        let known = self.case.known;
        let other = known.spec(victim.job)?;
        let because = |what: &str| Some(format!("{} {what}", other.name));
        if !known.is_active(victim.job) {
            return because("is closed already");
        }
        if !self.is_open(spec, victim.job, other) {
            return because("is not to be stopped for it");
        }
        if victim.reason != PreemptionReason::LowerPriority {
            let policy = known.quotas.tree().queue(&spec.queue).map(|queue| queue.preemption).unwrap_or_default();
            let problem = self.case.problem_of_policy(spec, policy, victim);
            let is_own = victim.reason == PreemptionReason::InClusterQueue;
            return problem.or_else(|| match !is_own && !self.borrows(tree, victim, other) {
                true => because("is within what its queue has itself"),
                false => None,
            });
        }
        if other.priority >= spec.priority {
            return because("is no less important");
        }
        let named = !spec.queue.is_empty() && !other.queue.is_empty();
        if named && tree.path(&spec.queue).last() == tree.path(&other.queue).last() {
            let may_be_repair = self.hurt.contains(&self.case.job);
            return if may_be_repair { None } else { because("is under the same root, where policies decide") };
        }
        if self.is_within_own(tree, victim, other) {
            return because("is within what its queue has itself");
        }
        None
    }

    /// Whether both want it so, and its queue does not protect it any more.
    fn is_open(&self, spec: &JobSpec, victim: JobId, other: &JobSpec) -> bool {
        let queue = self.case.known.quotas.tree().queue(&other.queue).filter(|_| other.queue != spec.queue);
        let seconds = queue.map_or(0, |queue| queue.min_runtime_seconds);
        let since_ms = self.placed_ms.get(&victim).copied().unwrap_or(0);
        let is_fresh = seconds > 0 && since_ms.saturating_add(seconds.saturating_mul(1000)) > self.now_ms;
        spec.preempts && other.preemptible && !is_fresh
    }

    /// Whether a job goes on without these tasks.
    fn may_lose(&self, victim: &Victim) -> bool {
        let Some(other) = self.case.known.spec(victim.job) else { return false };
        let books = self.case.known.books;
        let keeps = |(at, group): (u16, &ohm_model::GroupSpec)| {
            let named = victim.runs.iter().filter(|run| run.task.group.0 == at).count();
            let stays = books.live(victim.job, at).filter(|(_, standing)| !standing.stopping).count();
            let left = (stays - named.min(stays)) as u32 + books.done(victim.job, at);
            named == 0 || (group.elastic && left >= group.min_count)
        };
        books.is_endless(victim.job) || (0u16..).zip(&other.groups).all(keeps)
    }

    /// What so much of a job has.
    fn held_by(&self, part: &Victim, other: &JobSpec) -> Amounts {
        let known = self.case.known;
        if part.is_whole() {
            return known.charged(part.job, self.case.promises, Count::Most);
        }
        let mut held = Amounts::new();
        for at in 0..other.groups.len() as u16 {
            let runs = part.runs.iter().filter(|run| run.task.group.0 == at).map(|run| run.task.task.0);
            add(&mut held, &known.quotas.named(part.job, at, known.books.asked(part.job, at, runs)));
        }
        held
    }

    /// Whether the queue of a job may use more than its own of something that the job has: so it is taken where the log
    /// does not tell what it has by itself.
    fn borrows(&self, tree: &QuotaTree, part: &Victim, other: &JobSpec) -> bool {
        let held = self.held_by(part, other);
        let mut held = held.iter().filter(|(_, has)| **has > 0);
        tree.gives_by_flavor(&other.queue) || held.any(|(name, _)| tree.over_own(&other.queue, name) > 0)
    }

    /// Whether the queue of a job from outside the root uses no more than its own of what the job has, and does not
    /// let more important jobs in.
    fn is_within_own(&self, tree: &QuotaTree, part: &Victim, other: &JobSpec) -> bool {
        let Some(queue) = tree.queue(&other.queue).filter(|_| !tree.gives_by_flavor(&other.queue)) else {
            return false;
        };
        let held = self.held_by(part, other);
        let limited: Vec<&String> = held
            .iter()
            .filter(|(name, has)| **has > 0 && tree.limits(&other.queue, name))
            .map(|(name, _)| name)
            .collect();
        let lets_in = queue.preemption.outside_root == PreemptionPolicy::LowerPriority;
        !lets_in && !limited.is_empty() && limited.iter().all(|name| tree.over_own(&other.queue, name) <= 0)
    }

    fn problem_of_room(&self, spec: &JobSpec) -> Option<String> {
        let nodes: BTreeSet<NodeId> = self.rooms.iter().map(|room| room.node).collect();
        if nodes.is_empty() {
            return Some("no room is kept for it".into());
        }
        let crowded = nodes.iter().find(|node| !self.fits_at_all(spec, **node));
        if let Some(node) = crowded {
            return Some(format!("what is kept for it on {node} is more than there will be"));
        }
        let stays = |victim: &&Victim| {
            let mut on = self.nodes_of(victim).into_iter().filter(|node| nodes.contains(node));
            on.all(|node| self.fits_for_sure(spec, node, victim))
        };
        let needless = self.case.victims.iter().find(stays);
        needless.map(|victim| format!("there is room enough without {}", self.case.known.name(victim.job)))
    }

    fn nodes_of(&self, victim: &Victim) -> BTreeSet<NodeId> {
        let books = self.case.known.books;
        let groups = books.jobs.get(&victim.job).map_or(0, |spec| spec.groups.len() as u16);
        let tasks = (0..groups).flat_map(|group| books.live(victim.job, group).map(move |found| (group, found)));
        let named = tasks.filter(|(group, (task, standing))| !standing.stopping && names(victim, *group, *task));
        named.map(|(_, (_, standing))| standing.node).collect()
    }

    /// What is free on `node` beside those who stay: nobody that stops, and no victim but `stays`.
    fn room(&self, node: NodeId, stays: Option<&Victim>) -> Room {
        let books = self.case.known.books;
        let mut room = books.nodes.get(&node).map(Room::empty).unwrap_or_default();
        for (job, group, task, standing) in books.on_node(node) {
            let of_job = self.case.victims.iter().find(|victim| victim.job == job && names(victim, group, task));
            let ends = of_job.is_some_and(|victim| stays.is_none_or(|stays| stays.job != victim.job));
            let made = books.made_of(job, group, task);
            if let Some(spec) = made.filter(|_| !standing.stopping && !ends) {
                room.occupy(spec, 1);
            }
        }
        room
    }

    /// Whether the amounts and ports that are kept on `node` are free once the victims have ended.
    fn fits_at_all(&self, spec: &JobSpec, node: NodeId) -> bool {
        let mut room = self.room(node, None);
        self.rooms.iter().filter(|kept| kept.node == node).all(|kept| {
            let Some(group) = spec.groups.get(usize::from(kept.group.0)) else { return false };
            let open = group.ports.iter().all(|port| !room.has_port(*port));
            room.occupy(group, kept.count);
            open && asks(group, kept.count).keys().all(|name| room.free(name) >= 0)
        })
    }

    /// Whether all that is kept on `node` fits there for sure although this victim stays.
    fn fits_for_sure(&self, spec: &JobSpec, node: NodeId, victim: &Victim) -> bool {
        let job = self.case.job;
        let mut room = self.room(node, Some(victim));
        for (other, group, count) in self.kept.against(job, node, |_| false) {
            let known = self.case.known.spec(other).and_then(|spec| spec.groups.get(usize::from(group)));
            known.into_iter().for_each(|group| room.occupy(group, count));
        }
        let known = self.case.known;
        let here = || self.rooms.iter().filter(|kept| kept.node == node);
        // The victim may be in the way of a rule about other tasks.
        let ruled = here().any(|kept| known.neighbourhoods.concern(known.books, (job, kept.group.0)));
        !ruled
            && !self.kept.is_unsure(job, node)
            && self.rooms.iter().filter(|kept| kept.node == node).all(|kept| {
                let group = spec.groups.get(usize::from(kept.group.0));
                group.is_some_and(|group| {
                    (0..kept.count).all(|_| room.take(self.case.job, kept.group.0, group)) && group.max_per_node == 0
                })
            })
    }
}

/// A victim that is stopped whole, or each of its tasks that stop.
fn parts_of(victim: &Victim) -> Vec<Victim> {
    if victim.is_whole() {
        return vec![victim.clone()];
    }
    victim.runs.iter().map(|run| Victim { runs: vec![*run], ..victim.clone() }).collect()
}

/// Whether a victim is stopped with this task.
fn names(victim: &Victim, group: u16, task: u32) -> bool {
    let is_it = |run: &ohm_model::RunRef| (run.task.group.0, run.task.task.0) == (group, task);
    victim.is_whole() || victim.runs.iter().any(is_it)
}
