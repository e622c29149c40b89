//! Judging spares: room is held for a group that runs, or starts with these rows, where its tasks may run, inside
//! its domain, and only where the room is really there.

use super::Judge;
use crate::policy::spares::spares_at_most;
use crate::rooms::nominations::Held;
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::stops::stop_policy_of;
use crate::state::jobs::Job;
use ohm_model::{ConflictReason, GroupIndex, JobId, NodeId, Nomination};
use std::collections::BTreeMap;

impl Judge<'_> {
    /// `named` counts the spares accepted before in this transaction, by group.
    pub(super) fn judge_spare(
        &mut self,
        row: &Nomination,
        named: &mut BTreeMap<(JobId, u16), u32>,
    ) -> Result<(), ConflictReason> {
        let job = self.job_of(row.job)?;
        let at = usize::from(row.group.0);
        let (Some(group), true) = (job.groups.get(at), row.count > 0) else { return Err(ConflictReason::Malformed) };
        if stop_policy_of(self.cell, job).is_some() {
            return Err(ConflictReason::QueueHeld);
        }
        let starts = self.accepts_of(row.job, row.group);
        if !starts && (!group.started || job.is_down()) {
            return Err(ConflictReason::GangShort);
        }
        let named = named.entry((row.job, row.group.0)).or_insert(0);
        if group.spares.saturating_add(*named).saturating_add(row.count) > spares_at_most(job, at) {
            return Err(ConflictReason::LimitReached);
        }
        self.is_known(row.node)?;
        let wish = Wish::Spare { beside_own: true };
        let asker = Asker::of(self.cell, job, row.group, wish).ok_or(ConflictReason::Malformed)?;
        let queue = self.cell.quota.find(&job.spec.queue);
        self.scratch.cede(self.cell, job, queue);
        let ceded = &self.scratch.ceded;
        let quota = queue.map(|queue| self.what().quota_tasks(queue, &asker.shape.charges, row.count, ceded));
        let asker = Asker { quota, ..asker };
        Room::whole(&asker, self.what(), row.node, row.count)?;
        *named += row.count;
        let (cell, over) = (self.cell, &mut self.scratch.over);
        over.hold(row.node, Held::spare(job, row.group, row.count, cell.applied));
        if let Some(queue) = queue {
            over.charge_shape(&cell.quota, row.group, queue, (asker.shape_id, asker.shape, row.count as i32));
        }
        Ok(())
    }

    /// Takes back what groups were given that lost tasks, if one of those goes elsewhere while a spare of the group
    /// could take it (P7).
    pub(super) fn judge_spares_first(&mut self, job: &Job, first: usize, end: usize) {
        for at in 0..job.groups.len() {
            // A run that came back with its node is where it was.
            let judged = job.groups[at].spares > 0 && self.adopted.is_none();
            if judged && self.passes_over_spares(job, at, first, end) {
                let group = GroupIndex(at as u16);
                self.give_back(Some(group), (first, end), ConflictReason::SpareUnused);
                self.scratch.groups[at].accepted = 0;
            }
        }
    }

    fn passes_over_spares(&self, job: &Job, at: usize, first: usize, end: usize) -> bool {
        let (group, index) = (&job.groups[at], GroupIndex(at as u16));
        // Where nothing binds the group to the domain of its spares, it may be better off in another one.
        if job.binding_level(at).is_some() && job.shared_domain(at).is_none() {
            return false;
        }
        let mut placed: BTreeMap<NodeId, u32> = BTreeMap::new();
        for row in (first..end).filter(|row| self.transaction.place[*row].group == index) {
            let tasks = self.transaction.place[row].first.0..self.transaction.place[row].first.0 + self.accepted[row];
            let lost = tasks.filter(|task| group.lost.contains(*task, 1) && !group.moving.contains(*task, 1));
            *placed.entry(self.transaction.place[row].node).or_insert(0) += lost.count() as u32;
        }
        let spares: BTreeMap<NodeId, u32> = self.cell.spares_of(job.id, index).collect();
        let on = |node: &NodeId| spares.get(node).copied().unwrap_or(0);
        let elsewhere = placed.iter().any(|(node, count)| *count > on(node));
        let unused = |(node, count): (&NodeId, &u32)| *count > placed.get(node).copied().unwrap_or(0);
        elsewhere && spares.iter().any(|spare| unused(spare) && self.takes_one(job, at, *spare.0))
    }

    /// Whether one more task of the group finds room on `node`, its job's spares aside.
    fn takes_one(&self, job: &Job, at: usize, node: NodeId) -> bool {
        let asker = Asker::of(self.cell, job, GroupIndex(at as u16), Wish::Spare { beside_own: false });
        let takes = |asker: Asker<'_>| Room::beside(&asker, self.what(), node, 1).count == 1;
        self.cell.nodes.is_schedulable(node) && self.is_known(node).is_ok() && asker.is_some_and(takes)
    }

    /// Whether tasks of the group are accepted.
    fn accepts_of(&self, job: JobId, group: GroupIndex) -> bool {
        let mut rows = self.transaction.place.iter().zip(&self.accepted);
        rows.any(|(row, accepted)| (row.job, row.group) == (job, group) && *accepted > 0)
    }
}
