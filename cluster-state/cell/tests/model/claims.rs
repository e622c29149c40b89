//! Claims of waiting repairs in the plain model: all of them, and all that is earmarked, looked at after each command.

use crate::life::NOBODY;
use crate::state::{Alarm, Phase, Plain, PlainHold, State, request};
use ohm_model::{Claim, ConflictReason, Index, JobId, NodeHealth, NodeId, Purpose, TopologyMode, Transaction};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

type Turn = (Reverse<i32>, Index, JobId);

impl Plain {
    /// Lost tasks of the group that don't move, while its job may be placed.
    fn owed(&self, (id, group): (JobId, u16)) -> BTreeSet<u32> {
        let Some(job) = self.jobs.get(&id).filter(|job| job.state == State::Active) else { return BTreeSet::new() };
        let lost = job.repair.lost.difference(&job.moving).filter(|place| place.0 == group);
        let lost: BTreeSet<u32> = lost.map(|place| place.1).collect();
        debug_assert!(lost.iter().all(|task| job.tasks[&(group, *task)].phase != Phase::Live));
        lost
    }

    fn earmarks(&self, (id, group): (JobId, u16)) -> impl Iterator<Item = &PlainHold> {
        self.holds.iter().filter(move |hold| hold.is_earmark() && (hold.job, hold.group) == (id, group))
    }

    fn turn(&self, id: JobId) -> Turn {
        let since = self.jobs[&id].repair.open.map_or(Index(0), |(since, _)| since);
        (Reverse(self.jobs[&id].spec.priority), since, id)
    }

    /// Whether the group is repaired before the one that the room is for.
    pub(crate) fn is_repaired_before(&self, (id, group): (JobId, u16), hold: &PlainHold) -> bool {
        let job = &self.jobs[&id];
        let lost = job.repair.lost.iter().any(|place| place.0 == group);
        let mut waits = job.tasks.iter().filter(|(place, task)| place.0 == group && task.phase == Phase::Pending);
        let repaired = lost && waits.all(|(place, _)| job.repair.lost.contains(place));
        repaired && job.repair.open.is_some() && self.turn(id) < self.turn(hold.job)
    }

    /// What is kept on the node for repairs that come after one of the group: what moves is no repair.
    pub(crate) fn owed_to_later(&self, of: (JobId, u16), node: NodeId) -> impl Iterator<Item = &PlainHold> {
        let earmarks = self.holds.iter().filter(move |hold| hold.node == node && hold.is_earmark() && hold.job != of.0);
        earmarks.filter(move |hold| self.is_repaired_before(of, hold))
    }

    pub(crate) fn asked_by(&self, hold: &PlainHold, resource: &str) -> i64 {
        let spec = &self.jobs[&hold.job].spec.groups[usize::from(hold.group)];
        request(spec).get(resource).copied().unwrap_or(0) * i64::from(hold.count)
    }

    /// Until when room is owed to what the job lost; 0 where it repairs nothing.
    fn owed_until_ms(&self, id: JobId) -> u64 {
        let Some(job) = self.jobs.get(&id).filter(|job| job.repair.open.is_some()) else { return 0 };
        let seconds = match job.spec.repair.timeout_seconds {
            0 => 600,
            seconds => seconds,
        };
        job.repair.last_ms + seconds * 1000
    }

    pub(crate) fn judge_claim(
        &self,
        transaction: &Transaction,
        (row, claim): (usize, &Claim),
    ) -> Result<(), ConflictReason> {
        if transaction.claim[..row].contains(claim) {
            return Err(ConflictReason::Malformed);
        }
        let of = (claim.job, claim.group.0);
        self.job_of(transaction, claim.job)?;
        let job = &self.jobs[&claim.job];
        job.spec.groups.get(usize::from(claim.group.0)).ok_or(ConflictReason::Malformed)?;
        if self.owed(of).is_empty() || self.claims.contains_key(&of) {
            return Err(ConflictReason::TaskNotPending);
        }
        let in_time = self.now_ms < self.owed_until_ms(claim.job);
        if in_time { Ok(()) } else { Err(ConflictReason::LimitReached) }
    }

    pub(crate) fn make_claim(&mut self, claim: &Claim) {
        self.claims.insert((claim.job, claim.group.0), 0);
        self.jobs.get_mut(&claim.job).expect("a job").repair.without_room.insert(claim.group.0);
        self.claimed += 1;
        let until_ms = self.owed_until_ms(claim.job);
        self.alarm(until_ms, Alarm::Claim(claim.job));
    }

    pub(crate) fn end_claims(&mut self, id: JobId) {
        if self.claims.keys().all(|(job, _)| *job != id) {
            return;
        }
        let until_ms = self.owed_until_ms(id);
        match until_ms > self.now_ms {
            true => self.alarm(until_ms, Alarm::Claim(id)),
            false => self.clear_claims(id),
        }
    }

    pub(crate) fn clear_claims(&mut self, id: JobId) {
        self.claims.retain(|(job, _), _| *job != id);
        self.clear_holds_of(id, PlainHold::is_earmark);
    }

    /// What may be kept no longer is given back, before spares are looked at.
    pub(crate) fn settle_claims(&mut self) {
        for of in self.claims.keys().copied().collect::<Vec<_>>() {
            let owed = self.owed(of);
            self.cut_earmarks(|hold| (hold.job, hold.group) == of, |hold| &hold.tasks & &owed);
            match owed.len() {
                0 => drop(self.claims.remove(&of)),
                fewer => drop(self.claims.entry(of).and_modify(|count| *count = (*count).min(fewer))),
            }
        }
        for node in self.holds.iter().map(|hold| hold.node).collect::<BTreeSet<_>>() {
            self.settle_earmarks_on(node);
        }
    }

    /// `freed` are the nodes that the command gave room back on.
    pub(crate) fn give_owed_room(&mut self, freed: &BTreeSet<NodeId>) {
        let in_time = |of: &(JobId, u16)| self.now_ms < self.owed_until_ms(of.0);
        let mut claims: Vec<(JobId, u16)> = self.claims.keys().copied().filter(in_time).collect();
        claims.sort_by_key(|of| (self.turn(of.0), of.1));
        for &of in &claims {
            let owed = self.owed(of).len();
            if owed > self.claims[&of] && !self.is_nowhere(of) {
                self.claims.insert(of, owed);
                self.nodes.keys().copied().collect::<Vec<_>>().into_iter().for_each(|node| self.earmark(of, node));
            }
        }
        for node in freed {
            claims.iter().for_each(|of| self.earmark(*of, *node));
        }
    }

    /// Where a group may go that must be in one domain and is in none is not known before it is placed.
    fn is_nowhere(&self, of: (JobId, u16)) -> bool {
        let job = &self.jobs[&of.0];
        let is_bound = job.spec.groups[usize::from(of.1)].topology.mode == TopologyMode::Required;
        is_bound && self.partners(of.0, of.1).into_iter().all(|at| job.domain[usize::from(at)].is_none())
    }

    fn settle_earmarks_on(&mut self, node: NodeId) {
        let here = |which: fn(&PlainHold) -> bool| move |hold: &&PlainHold| hold.node == node && which(hold);
        let mut kept: Vec<PlainHold> = self.holds.iter().filter(here(PlainHold::is_move)).cloned().collect();
        let mut earmarks: Vec<PlainHold> = self.holds.iter().filter(here(PlainHold::is_earmark)).cloned().collect();
        earmarks.sort_by_key(|hold| (self.turn(hold.job), hold.group));
        let mut left = BTreeMap::new();
        for hold in earmarks {
            let most = self.most_for_repair(&hold, &kept);
            let tasks: BTreeSet<u32> = hold.tasks.iter().copied().take(most as usize).collect();
            if let Some(count) = self.claims.get_mut(&(hold.job, hold.group)) {
                *count = count.saturating_sub(hold.tasks.len() - tasks.len());
            }
            left.insert((hold.job, hold.group), tasks.clone());
            kept.push(PlainHold { count: most, tasks, ..hold });
        }
        self.cut_earmarks(|hold| hold.node == node, |hold| left[&(hold.job, hold.group)].clone());
    }

    /// Leaves to earmarks like `which` those of their tasks that `keep` says.
    fn cut_earmarks(&mut self, which: impl Fn(&PlainHold) -> bool, keep: impl Fn(&PlainHold) -> BTreeSet<u32>) {
        let mut touched = BTreeSet::new();
        for hold in self.holds.iter_mut().filter(|hold| hold.is_earmark() && which(hold)) {
            let kept = keep(hold);
            if kept.len() < hold.tasks.len() {
                touched.insert(hold.node);
            }
            (hold.count, hold.tasks) = (kept.len() as u32, kept);
        }
        self.holds.retain(|hold| hold.count > 0);
        touched.into_iter().for_each(|node| self.touch(node, NOBODY));
    }

    /// How many of the tasks find room beside those others on a node where they may be.
    fn most_for_repair(&self, hold: &PlainHold, others: &[PlainHold]) -> u32 {
        let Some(node) = self.nodes.get(&hold.node) else { return 0 };
        let kept_away = node.cordoned || node.drain.is_some() || self.is_shrunk(hold.node);
        let job = &self.jobs[&hold.job];
        let spec = &job.spec.groups[usize::from(hold.group)];
        let mut fixed = self.partners(hold.job, hold.group).into_iter();
        let fixed = fixed.find_map(|at| job.domain[usize::from(at)].clone());
        let domain = self.domain(spec, hold.node);
        let astray = spec.topology.mode == TopologyMode::Required
            && (domain.is_none() || fixed.is_some_and(|fixed| domain != Some(fixed)));
        // What tolerates a condition for a while only comes no more once that is over.
        let leaves = self.driven_from(hold.job, hold.group, hold.node).is_some();
        let barred = node.health != NodeHealth::Ready || kept_away || astray || leaves;
        if barred || !self.admits(&job.filtered(spec), hold.node) {
            return 0;
        }
        let fits = |count: &u32| {
            let some = PlainHold { count: *count, ..hold.clone() };
            *count == 0 || self.misfit(&some, others, &|_| true, None).is_ok()
        };
        (0..=hold.count).rev().find(fits).unwrap_or(0)
    }

    fn earmark(&mut self, of: (JobId, u16), node: NodeId) {
        let known: BTreeSet<u32> = self.earmarks(of).flat_map(|hold| hold.tasks.iter().copied()).collect();
        let lacking: BTreeSet<u32> = self.owed(of).difference(&known).copied().collect();
        if lacking.is_empty() || !self.nodes.contains_key(&node) {
            return;
        }
        if self.is_nowhere(of) {
            return;
        }
        let since = self.jobs[&of.0].repair.open.map_or(self.index, |(since, _)| since);
        let (count, purpose, (job, group)) = (lacking.len() as u32, Purpose::Repair, of);
        let hold = PlainHold { job, group, node, count, tasks: lacking, purpose, since };
        let priority = |of: JobId| self.jobs[&of].spec.priority;
        let stays = |other: &&PlainHold| {
            let own_spare = other.is_spare() && (other.job, other.group) == (job, group);
            let promised = priority(other.job) >= priority(job) && !other.is_head() && !own_spare;
            other.is_move() || other.is_earmark() || promised
        };
        let others = self.holds.iter().filter(|other| other.node == node).filter(stays).cloned().collect::<Vec<_>>();
        let most = self.most_for_repair(&hold, &others);
        if most == 0 {
            return;
        }
        let tasks: BTreeSet<u32> = hold.tasks.iter().copied().take(most as usize).collect();
        self.earmarked += u64::from(most);
        self.touch(node, NOBODY);
        match self
            .holds
            .iter_mut()
            .find(|known| known.is_earmark() && (known.job, known.group, known.node) == (job, group, node))
        {
            Some(known) => {
                known.tasks.extend(tasks);
                known.count = known.tasks.len() as u32;
            }
            None => self.holds.push(PlainHold { count: most, tasks, ..hold }),
        }
        self.settle_spares_on(node);
    }
}
