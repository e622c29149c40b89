//! Spares in the plain model: looked at, all of them, after each command.

use crate::judge::{Expected, Facts};
use crate::life::NOBODY;
use crate::state::{GPU, Phase, Plain, PlainHold, State, ports_meet, request};
use crate::world::World;
use ohm_cell::Job;
use ohm_model::transaction::Row;
use ohm_model::{
    ConflictReason, GroupIndex, HostPort, JobId, NodeHealth, NodeId, Nomination, Placement, Purpose, TaskIndex,
    TopologyMode, Transaction,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;

impl Plain {
    pub(crate) fn spares_of(&self, job: JobId, group: u16) -> u32 {
        let own = self.holds.iter().filter(|hold| hold.is_spare() && (hold.job, hold.group) == (job, group));
        own.map(|hold| hold.count).sum()
    }

    fn is_down(&self, id: JobId) -> bool {
        let mut runs = self.runs.iter().filter(|run| run.job == id);
        self.jobs[&id].whole() && runs.all(|run| run.stop.is_some())
    }

    /// As many as asked for, but no more than there are tasks left to lose.
    fn most_spares(&self, id: JobId, group: u16) -> u32 {
        let (job, spec) = (&self.jobs[&id], &self.jobs[&id].spec.groups[usize::from(group)]);
        let over = [Phase::Succeeded, Phase::Failed, Phase::Skipped].map(|phase| job.count(group, phase));
        spec.spares.min(spec.count - over.iter().sum::<u32>().min(spec.count))
    }

    fn wanted_spares(&self, id: JobId, group: u16) -> u32 {
        let Some(job) = self.jobs.get(&id) else { return 0 };
        let stands = job.state == State::Active && job.started[usize::from(group)] && !self.is_down(id);
        if stands { self.most_spares(id, group) } else { 0 }
    }

    pub(crate) fn partners(&self, id: JobId, group: u16) -> Vec<u16> {
        let groups = &self.jobs[&id].spec.groups;
        let label = &groups[usize::from(group)].place_with;
        let together =
            |other: &u16| *other == group || (!label.is_empty() && groups[usize::from(*other)].place_with == *label);
        (0..groups.len() as u16).filter(together).collect()
    }

    fn may_be_held(&self, hold: &PlainHold) -> bool {
        if self.wanted_spares(hold.job, hold.group) == 0 {
            return false;
        }
        let Some(node) = self.nodes.get(&hold.node) else { return false };
        let kept_away = node.cordoned || node.drain.is_some() || self.is_shrunk(hold.node);
        let job = &self.jobs[&hold.job];
        let spec = &job.spec.groups[usize::from(hold.group)];
        let fixed = self.partners(hold.job, hold.group).into_iter().find_map(|at| job.domain[usize::from(at)].clone());
        let astray = spec.topology.mode == TopologyMode::Required
            && fixed.is_some_and(|fixed| self.domain(spec, hold.node) != Some(fixed));
        node.health != NodeHealth::Lost && !kept_away && self.admits(&job.filtered(spec), hold.node) && !astray
    }

    fn give_spares(&mut self, job: JobId, group: u16, node: NodeId, count: u32) {
        let same = |hold: &&mut PlainHold| hold.is_spare() && (hold.job, hold.group, hold.node) == (job, group, node);
        let hold = self.holds.iter_mut().find(same).expect("a spare");
        hold.count -= count;
        self.holds.retain(|hold| hold.count > 0);
        self.touch(node, NOBODY);
    }

    fn spare_holds(&self, which: impl Fn(&PlainHold) -> bool) -> Vec<PlainHold> {
        let mut holds: Vec<PlainHold> =
            self.holds.iter().filter(|hold| hold.is_spare() && which(hold)).cloned().collect();
        holds.sort_by_key(|hold| Reverse(hold.node));
        holds
    }

    pub(crate) fn settle_spares(&mut self, touched: &BTreeSet<JobId>) {
        for hold in self.spare_holds(|_| true) {
            if !self.may_be_held(&hold) {
                self.give_spares(hold.job, hold.group, hold.node, hold.count);
            }
        }
        for hold in self.spare_holds(|_| true) {
            let wanted = self.wanted_spares(hold.job, hold.group);
            let excess = self.spares_of(hold.job, hold.group).saturating_sub(wanted).min(hold.count);
            if excess > 0 {
                self.give_spares(hold.job, hold.group, hold.node, excess);
            }
        }
        for &id in touched {
            for hold in self.spare_holds(|hold| hold.job == id) {
                let spec = self.jobs[&id].spec.clone();
                let names = request(&spec.groups[usize::from(hold.group)]);
                for _ in 0..hold.count {
                    let over = |name: &String| self.available(&spec.queue, name).is_some_and(|left| left < 0);
                    if names.keys().any(over) {
                        self.give_spares(id, hold.group, hold.node, 1);
                    }
                }
            }
        }
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.settle_spares_on(node);
        }
    }

    pub(crate) fn settle_spares_on(&mut self, node: NodeId) {
        let mut kept: Vec<PlainHold> = self
            .holds
            .iter()
            .filter(|hold| hold.node == node && (hold.is_move() || hold.is_earmark()))
            .cloned()
            .collect();
        let mut spares = self.spare_holds(|hold| hold.node == node);
        spares.sort_by_key(|hold| (Reverse(self.jobs[&hold.job].spec.priority), hold.since, hold.job, hold.group));
        for hold in spares {
            let mut most = hold.clone();
            // What is kept to repair the own job does not bind it.
            let binds = |other: &&PlainHold| !(other.is_earmark() && other.job == hold.job);
            let kept_from: Vec<PlainHold> = kept.iter().filter(binds).cloned().collect();
            while most.count > 0 && self.misfit(&most, &kept_from, &|_| true, None).is_err() {
                most.count -= 1;
            }
            if most.count < hold.count {
                self.give_spares(hold.job, hold.group, node, hold.count - most.count);
            }
            kept.push(most);
        }
    }

    /// Why there is no room for it beside what runs and those that bind it: what stops the first spare that finds none.
    pub(crate) fn misfit(
        &self,
        hold: &PlainHold,
        others: &[PlainHold],
        quota: &dyn Fn(u32) -> bool,
        facts: Option<&dyn Facts>,
    ) -> Result<(), ConflictReason> {
        (1..=hold.count)
            .try_for_each(|count| self.misfit_of(&PlainHold { count, ..hold.clone() }, others, quota(count), facts))
    }

    fn misfit_of(
        &self,
        hold: &PlainHold,
        others: &[PlainHold],
        within_quota: bool,
        facts: Option<&dyn Facts>,
    ) -> Result<(), ConflictReason> {
        let group_of = |hold: &PlainHold| &self.jobs[&hold.job].spec.groups[usize::from(hold.group)];
        let column = |name: &str| facts.map_or(ohm_model::ResourceId(0), |facts| facts.resource(name));
        let spec = group_of(hold);
        let mut order: Vec<(String, i64)> = request(spec).into_iter().collect();
        order.sort_by_key(|(name, _)| column(name));
        for (name, amount) in &order {
            let (free, needed) = (self.free(hold.node, name), amount * i64::from(hold.count));
            if free < needed {
                return Err(ConflictReason::NodeFull(column(name)));
            }
        }
        for (name, amount) in &order {
            let (free, needed) = (self.free(hold.node, name), amount * i64::from(hold.count));
            let of =
                |other: &PlainHold| request(group_of(other)).get(name).copied().unwrap_or(0) * i64::from(other.count);
            if free - others.iter().map(of).sum::<i64>() < needed {
                return Err(ConflictReason::Held);
            }
        }
        if !within_quota {
            return Err(ConflictReason::QuotaExceeded);
        }
        let taken = |port: &&HostPort| {
            self.occupants(hold.node).any(|run| self.group_of(run).ports.iter().any(|other| ports_meet(*other, **port)))
                || others.iter().any(|other| group_of(other).ports.iter().any(|other| ports_meet(*other, **port)))
        };
        if let Some(port) = spec.ports.iter().find(taken).or(spec.ports.first().filter(|_| hold.count > 1)) {
            return Err(ConflictReason::PortTaken(*port));
        }
        let standing =
            self.occupants(hold.node).filter(|run| (run.job, run.group) == (hold.job, hold.group)).count() as u32;
        let same = others.iter().filter(|other| (other.job, other.group) == (hold.job, hold.group));
        let coming = same.map(|other| other.count).sum::<u32>() + hold.count;
        if spec.max_per_node > 0 && standing + coming > spec.max_per_node {
            return Err(ConflictReason::LimitReached);
        }
        let gpu = |hold: &PlainHold| group_of(hold).requests.get(GPU).copied().unwrap_or(0);
        let (present, taken) = self.devices(hold.node);
        if gpu(hold) > 0 && present > 0 {
            let mut free: Vec<i64> =
                (0..present).map(|device| 1000 - taken.get(&device).copied().unwrap_or(0)).collect();
            let mut asked: Vec<i64> = others
                .iter()
                .chain([hold])
                .filter(|hold| gpu(hold) > 0)
                .flat_map(|hold| std::iter::repeat_n(gpu(hold), hold.count as usize))
                .collect();
            asked.sort_unstable_by_key(|amount| Reverse(*amount));
            for amount in asked {
                for _ in 0..(amount / 1000).max(1) {
                    let each = amount.min(1000);
                    let Some(least) = free.iter_mut().filter(|left| **left >= each).min() else {
                        return Err(ConflictReason::NodeFull(column(GPU)));
                    };
                    *least -= each;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn judge_spare(
        &mut self,
        before: &Plain,
        transaction: &Transaction,
        row: &Nomination,
        expected: &Expected,
        facts: &dyn Facts,
    ) -> Result<(), ConflictReason> {
        let (id, group, node) = (row.job, row.group.0, row.node);
        before.job_of(transaction, id)?;
        let job = before.jobs[&id].clone();
        let spec =
            job.spec.groups.get(usize::from(group)).filter(|_| row.count > 0).ok_or(ConflictReason::Malformed)?;
        before.judge_more_spares(id)?;
        let accepted = |groups: &[u16]| -> Vec<NodeId> {
            let rows = transaction.place.iter().zip(&expected.accepted);
            let own = rows.filter(|(row, accepted)| row.job == id && **accepted > 0 && groups.contains(&row.group.0));
            own.map(|(row, _)| row.node).collect()
        };
        let stands = job.started[usize::from(group)] && !before.is_down(id);
        if !stands && accepted(&[group]).is_empty() {
            return Err(ConflictReason::GangShort);
        }
        if u64::from(self.spares_of(id, group)) + u64::from(row.count) > u64::from(before.most_spares(id, group)) {
            return Err(ConflictReason::LimitReached);
        }
        before.node_stands(node, transaction.seen)?;
        if !before.admits(&job.filtered(spec), node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        if spec.topology.mode == TopologyMode::Required {
            let domain = before.domain(spec, node).ok_or(ConflictReason::TopologyBroken)?;
            // A partner that requires no domain has none.
            let bound = |at: &u16| job.spec.groups[usize::from(*at)].topology.mode == TopologyMode::Required;
            let partners: Vec<u16> = before.partners(id, group).into_iter().filter(bound).collect();
            let stood = partners.iter().find_map(|at| job.domain[usize::from(*at)].clone());
            let placed = accepted(&partners).into_iter().map(|node| before.domain(spec, node));
            let fixed: Vec<_> = stood.map(Some).into_iter().chain(placed).collect();
            if fixed.is_empty() || fixed.iter().any(|fixed| *fixed != Some(domain.clone())) {
                return Err(ConflictReason::TopologyBroken);
            }
        }
        let (purpose, since, tasks) = (Purpose::Spare, self.index, BTreeSet::new());
        let hold = PlainHold { job: id, group, node, count: row.count, tasks, purpose, since };
        let binds = |other: &&PlainHold| {
            let outranks = self.jobs[&other.job].spec.priority >= job.spec.priority;
            let binds = match other.purpose {
                Purpose::Move => true,
                Purpose::Repair => other.job != id,
                Purpose::Spare => other.job == id || outranks,
                Purpose::Preemptor { .. } | Purpose::Head { .. } => other.job != id && outranks,
            };
            other.node == node && binds
        };
        let others: Vec<PlainHold> = self.holds.iter().filter(binds).cloned().collect();
        self.cede(before, id, facts);
        let within_quota = |count: u32| {
            let short = |(name, amount): (String, i64)| {
                let left = self.available(&job.spec.queue, &name);
                left.is_some_and(|left| left - self.ceded(&name) < amount * i64::from(count))
            };
            !request(spec).into_iter().any(short)
        };
        let fits = self.misfit(&hold, &others, &within_quota, Some(facts));
        self.ceded.clear();
        fits?;
        self.holds.push(hold);
        Ok(())
    }

    /// Whether one more task of the group finds room on the node, the spares of its job aside.
    fn takes_one(&self, before: &Plain, transaction: &Transaction, (id, group): (JobId, u16), node: NodeId) -> bool {
        let priority = self.jobs[&id].spec.priority;
        let binds = |hold: &&PlainHold| {
            let outranks = self.jobs[&hold.job].spec.priority >= priority;
            hold.node == node && (hold.is_move() || (hold.job != id && (outranks || hold.is_earmark())))
        };
        let others: Vec<PlainHold> = self.holds.iter().filter(binds).cloned().collect();
        let (purpose, since, tasks) = (Purpose::Spare, self.index, BTreeSet::new());
        let one = PlainHold { job: id, group, node, count: 1, tasks, purpose, since };
        before.node_stands(node, transaction.seen).is_ok() && self.misfit(&one, &others, &|_| true, None).is_ok()
    }

    /// Takes back what a group was given that passes over its spares.
    pub(crate) fn judge_spares_first(
        &mut self,
        before: &Plain,
        transaction: &Transaction,
        id: JobId,
        (first, end): (usize, usize),
        expected: &mut Expected,
    ) {
        let job = &before.jobs[&id];
        for group in 0..job.spec.groups.len() as u16 {
            let bound = job.spec.groups[usize::from(group)].topology.mode == TopologyMode::Required;
            let stood = before.partners(id, group).into_iter().find_map(|at| job.domain[usize::from(at)].clone());
            if before.adopts || before.spares_of(id, group) == 0 || (bound && stood.is_none()) {
                continue;
            }
            let placed = |node: NodeId, expected: &Expected| -> u32 {
                let rows = (first..end)
                    .filter(|row| (transaction.place[*row].group.0, transaction.place[*row].node) == (group, node));
                let lost = rows.flat_map(|row| {
                    let start = transaction.place[row].first.0;
                    start..start + expected.accepted[row]
                });
                let is_lost =
                    |task: &u32| job.repair.lost.contains(&(group, *task)) && !job.moving.contains(&(group, *task));
                lost.filter(is_lost).count() as u32
            };
            let held = |node: NodeId| -> u32 {
                let own = before.spare_holds(|hold| (hold.job, hold.group, hold.node) == (id, group, node));
                own.iter().map(|hold| hold.count).sum()
            };
            let elsewhere = before.nodes.keys().any(|node| placed(*node, expected) > held(*node));
            let unused = before.nodes.keys().any(|node| {
                held(*node) > placed(*node, expected) && self.takes_one(before, transaction, (id, group), *node)
            });
            if !elsewhere || !unused {
                continue;
            }
            let mut told = false;
            for row in (first..end).filter(|row| transaction.place[*row].group.0 == group) {
                if std::mem::take(&mut expected.accepted[row]) > 0 && !std::mem::replace(&mut told, true) {
                    expected.conflicts.push((Row::Place(row as u32), ConflictReason::SpareUnused));
                }
            }
            let index = self.index;
            self.runs.retain(|run| run.placed < index || (run.job, run.group) != (id, group));
            let own = self.jobs.get_mut(&id).expect("a job");
            for (place, task) in own.tasks.iter_mut().filter(|(place, _)| place.0 == group) {
                *task = job.tasks[place].clone();
            }
            own.domain[usize::from(group)] = job.domain[usize::from(group)].clone();
        }
    }

    /// The node is gone.
    pub(crate) fn lose_all_rooms(&mut self, node: NodeId) {
        self.lose_rooms(node);
        self.holds.retain(|hold| hold.node != node || hold.is_earmark());
    }

    pub(crate) fn hold_spare(&mut self, job: JobId, group: u16, node: NodeId, count: u32) {
        let since = self.index;
        let same = |hold: &&mut PlainHold| hold.is_spare() && (hold.job, hold.group, hold.node) == (job, group, node);
        match self.holds.iter_mut().find(same) {
            Some(hold) => hold.count += count,
            None => {
                let (tasks, purpose) = (BTreeSet::new(), Purpose::Spare);
                self.holds.push(PlainHold { job, group, node, count, tasks, purpose, since });
            }
        }
        self.spares_held += u64::from(count);
        self.touch(node, NOBODY);
    }

    /// Uses up so many spares of the group on the node, as far as there are any.
    pub(crate) fn use_spares(&mut self, (job, group): (JobId, u16), node: NodeId, count: u32) {
        let same = |hold: &&mut PlainHold| hold.is_spare() && (hold.job, hold.group, hold.node) == (job, group, node);
        if let Some(hold) = self.holds.iter_mut().find(same) {
            let used = hold.count.min(count);
            hold.count -= used;
            self.spares_used += u64::from(used);
        }
        self.holds.retain(|hold| hold.count > 0);
    }

    /// What was lost, and has no room of its own, takes a spare where it is placed.
    pub(crate) fn use_for_lost(&mut self, placement: &Placement, count: u32) {
        let (id, group) = (placement.job, placement.group.0);
        let job = &self.jobs[&id];
        let tasks = placement.first.0..placement.first.0 + count;
        let lost = |task: &u32| job.repair.lost.contains(&(group, *task)) && !job.moving.contains(&(group, *task));
        let lost = tasks.filter(lost).count() as u32;
        self.use_spares((id, group), placement.node, lost);
    }
}

impl World {
    /// Spares for what stands or starts, most often where they may be.
    pub(crate) fn add_spares(&mut self, job: &Job, often: u64, transaction: &mut Transaction) {
        for (at, spec) in job.spec.groups.iter().enumerate().filter(|(_, spec)| spec.spares > 0) {
            if !self.dice.chance(often) {
                continue;
            }
            for _ in 0..self.dice.between(1, u64::from(spec.spares)) {
                let Some(node) = self.node_for_spare(job, at, transaction) else { continue };
                let count = 1 + u32::from(self.dice.chance(100)) - u32::from(self.dice.chance(10));
                let (job, group, purpose) = (job.id, GroupIndex(at as u16), Purpose::Spare);
                transaction.nominate.push(Nomination { job, group, node, first: TaskIndex(0), count, purpose });
            }
        }
    }

    fn node_for_spare(&mut self, job: &Job, at: usize, transaction: &Transaction) -> Option<NodeId> {
        let (group, spec) = (at as u16, &job.spec.groups[at]);
        let domain = self.plain.jobs[&job.id].domain.get(at).cloned().flatten();
        let inside = |node: &NodeId| domain.is_none() || self.plain.domain(spec, *node) == domain;
        let free = |node: &NodeId| self.room(job, group, *node) > 0 && inside(node);
        let likely: Vec<NodeId> = self.plain.nodes.keys().copied().filter(free).collect();
        if domain.is_none() && self.dice.chance(500) || self.dice.chance(60) {
            return Some(self.node_for(job, group, transaction));
        }
        self.dice.pick(&likely).copied()
    }

    /// Where spares of a group are that has lost tasks, most often.
    pub(crate) fn spare_for(&mut self, job: &Job, group: u16) -> Option<NodeId> {
        let lost = job.groups.get(usize::from(group)).is_some_and(|group| !group.lost.is_empty());
        let nodes: Vec<NodeId> = self.cell.spares_of(job.id, GroupIndex(group)).map(|(node, _)| node).collect();
        if lost && self.dice.chance(700) { self.dice.pick(&nodes).copied() } else { None }
    }
}
