//! Judging moves: nothing is told to leave its node unless it has to, and unless there is room for it in the same
//! transaction. A move is accepted whole or not at all.

use super::Judge;
use crate::rooms::nominations::{Held, rooms_named};
use crate::rooms::room::{Asker, Room, Wish};
use crate::rules::disruption::Disruptions;
use crate::state::jobs::Group;
use ohm_model::transaction::Row;
use ohm_model::{ConflictReason, GroupIndex, JobId, NodeId, Nomination, RunRef};
use ohm_stdx::RangeSet;
use std::collections::{BTreeMap, BTreeSet};

/// What the accepted rows of a move come to.
#[derive(Default)]
struct Moves {
    /// Tasks that are told to leave, or were, by group.
    told: BTreeMap<(JobId, u16), BTreeSet<u32>>,
    /// Those that leave now.
    leaving: BTreeMap<(JobId, u16), BTreeSet<u32>>,
    /// The tasks that room is named for, by group.
    named: BTreeMap<(JobId, u16), RangeSet>,
    /// What the former come to for disruption budgets.
    disruptions: Disruptions,
    /// Where they go, by group.
    onto: BTreeMap<(JobId, u16), BTreeMap<u32, NodeId>>,
}

impl Judge<'_> {
    pub(super) fn judge_move(&mut self) {
        let (transaction, changed) = (self.transaction, self.cell.applied);
        let mut moves = Moves { named: rooms_named(transaction), ..Moves::default() };
        for (row, (run, _)) in transaction.evict.iter().enumerate() {
            moves.told.entry((run.task.job, run.task.group.0)).or_default().insert(run.task.task.0);
            if let Err(reason) = self.judge_departure(*run, &mut moves) {
                self.refuse(Row::Evict(row as u32), None, reason, changed);
            }
        }
        self.leave_domains(&moves);
        for (row, nomination) in transaction.nominate.iter().enumerate() {
            if let Err(reason) = self.judge_room(nomination, &mut moves) {
                self.refuse(Row::Nominate(row as u32), Some(nomination.node), reason, changed);
            }
        }
        self.judge_move_slices(&moves);
    }

    /// A run may be told to leave while it has to, its guard holds, there is room for it, not too many of its group are
    /// on the move, and its disruption budgets let it. One that has ended, or stops already, is fine.
    fn judge_departure(&self, run: RunRef, moves: &mut Moves) -> Result<(), ConflictReason> {
        let job = self.job_of(run.task.job)?;
        let at = usize::from(run.task.group.0);
        let group = job.groups.get(at);
        let Some(task) = group.and_then(|group| group.tasks.get(run.task.task.0 as usize)) else {
            let was_there = run.incarnation <= job.floor;
            return if was_there { Ok(()) } else { Err(ConflictReason::Malformed) };
        };
        if task.incarnation < run.incarnation {
            return Err(ConflictReason::Malformed);
        }
        let Some(found) = self.cell.runs.get(task.run) else { return Ok(()) };
        if task.incarnation > run.incarnation {
            return Err(ConflictReason::TaskNotPending);
        }
        if found.stop.is_some() {
            return Ok(());
        }
        if self.cell.leave_cause(found.shape, found.node).is_none() {
            return Err(ConflictReason::Malformed);
        }
        let key = (job.id, run.task.group.0);
        let leaving = moves.leaving.entry(key).or_default();
        leaving.insert(run.task.task.0);
        if !moves.named.get(&key).is_some_and(|named| named.contains(run.task.task.0, 1)) {
            return Err(ConflictReason::NotReserved);
        }
        let is_new = |task: &&u32| group.is_some_and(|group| !group.replaced.contains(**task, 1));
        let new = leaving.iter().filter(is_new).count() as u32;
        if group.map_or(0, Group::on_the_move).saturating_add(new) > self.cell.move_limit(job, found.node) {
            return Err(ConflictReason::LimitReached);
        }
        moves.disruptions.stop(self.cell, found).map_err(ConflictReason::BudgetExceeded)
    }

    /// A group that leaves its domain with everything it has, and those it is placed with too, may go to another one.
    fn leave_domains(&mut self, moves: &Moves) {
        let jobs: BTreeSet<JobId> = self.transaction.nominate.iter().map(|row| row.job).collect();
        for job in jobs {
            let Ok(job) = self.job_of(job) else { continue };
            let stays = |other: usize| {
                let group = &job.groups[other];
                let leaving = moves.leaving.get(&(job.id, other as u16)).map_or(0, |tasks| tasks.len() as u32);
                group.live > group.stopping + leaving || !group.moving.is_empty()
            };
            for at in (0..job.groups.len()).filter(|at| !job.partners(*at).any(stays)) {
                self.scratch.over.set_domain(job, GroupIndex(at as u16), None);
            }
        }
    }

    /// The room is really there, where the tasks may run, beside everything that is held already.
    fn judge_room(&mut self, row: &Nomination, moves: &mut Moves) -> Result<(), ConflictReason> {
        let job = self.job_of(row.job)?;
        let at = usize::from(row.group.0);
        let spec = job.spec.groups.get(at).ok_or(ConflictReason::Malformed)?;
        if row.count == 0 || row.count > spec.count {
            return Err(ConflictReason::Malformed);
        }
        let (key, tasks) = ((row.job, row.group.0), row.first.0..row.first.0.saturating_add(row.count));
        let told = moves.told.get(&key).map_or(0, |told| told.range(tasks.clone()).count());
        let twice = moves.onto.get(&key).is_some_and(|onto| onto.range(tasks.clone()).next().is_some());
        if told < row.count as usize || twice {
            return Err(ConflictReason::Malformed);
        }
        self.is_known(row.node)?;
        let asker = Asker::of(self.cell, job, row.group, Wish::Move).ok_or(ConflictReason::Malformed)?;
        Room::whole(&asker, self.what(), row.node, row.count)?;
        let (cell, over) = (self.cell, &mut self.scratch.over);
        let mut held = RangeSet::default();
        held.insert(row.first.0, row.count);
        over.hold(row.node, Held::for_moving(row.job, row.group, held, cell.applied));
        if over.has_domain_of(job, at) && over.domain(job, at).is_none() {
            over.set_domain(job, row.group, cell.domain_key(job, at, row.node));
        }
        moves.onto.entry(key).or_default().extend(tasks.map(|task| (task, row.node)));
        Ok(())
    }

    /// The slices of each group stay whole, with what goes to a place counted as running there.
    fn judge_move_slices(&mut self, moves: &Moves) {
        let mut seen = BTreeSet::new();
        for (row, nomination) in self.transaction.nominate.iter().enumerate() {
            let (id, group) = (nomination.job, nomination.group.0);
            let Some(job) = self.cell.jobs.get(id).filter(|_| seen.insert((id, group))) else { continue };
            let at = usize::from(group);
            if job.spec.groups.get(at).is_none_or(|spec| spec.slices().is_empty()) {
                continue;
            }
            let onto = moves.onto.get(&(id, group)).into_iter().flatten();
            let arrivals: Vec<(u32, NodeId)> = onto.map(|(task, node)| (*task, *node)).collect();
            if !self.are_slices_whole(job, at, &arrivals) {
                let (row, reason) = (Row::Nominate(row as u32), ConflictReason::TopologyBroken);
                self.refuse(row, Some(nomination.node), reason, self.cell.applied);
            }
        }
    }
}
