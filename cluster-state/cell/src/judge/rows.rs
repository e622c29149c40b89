//! Judging placements: each hard constraint of each row, then what must hold of the job as a whole.

use super::Judge;
use super::admission::{judge_admitted, judge_going_on, judge_turn};
use super::flavors::lacks_flavor;
use super::scratch::GroupTally;
use crate::rooms::room::{Asker, Room, Wish};
use crate::state::jobs::Job;
use crate::state::quota::QueueId;
use ohm_model::transaction::Row;
use ohm_model::{ConflictReason, Grain, GroupIndex, Guard, Index, JobGuard, NodeId, Placement};
use std::sync::Arc;

impl<'a> Judge<'a> {
    pub(super) fn judge_placements(&mut self) {
        let transaction = self.transaction;
        let mut row = 0;
        for guard in &transaction.jobs {
            let end = row + transaction.place[row..].iter().take_while(|placement| placement.job == guard.job).count();
            if end > row {
                self.judge_job(guard, row, end);
            }
            row = end;
        }
        for stray in row..transaction.place.len() {
            let node = transaction.place[stray].node;
            self.refuse(Row::Place(stray as u32), Some(node), ConflictReason::Malformed, Index(0));
        }
    }

    fn judge_job(&mut self, guard: &JobGuard, first: usize, end: usize) {
        let near = self.last_queues;
        let admitted = |job: &'a Arc<Job>| {
            let queue = self.cell.quota.find_near(&job.spec.queue, near);
            // What comes back runs already.
            let waits = queue.filter(|_| self.adopted.is_none());
            judge_admitted(self.cell, job, queue, self.adopted.is_some())?;
            judge_turn(self.cell, job, waits).map(|()| (job, queue))
        };
        let (job, queue) = match self.guarded(guard).and_then(admitted) {
            Ok(found) => found,
            Err(reason) => {
                let of_queue = matches!(reason, ConflictReason::QueueHeld | ConflictReason::OutOfTurn);
                let job = self.cell.jobs.get(guard.job).filter(|_| !of_queue);
                let changed = job.map_or(self.cell.applied, |job| job.version);
                return (first..end).for_each(|row| self.refuse(Row::Place(row as u32), None, reason, changed));
            }
        };
        self.scratch.groups.clear();
        self.scratch.groups.extend(job.groups.iter().map(|_| GroupTally::default()));
        if queue != near[0] {
            self.last_queues = [queue, near[0]];
        }
        let queue = queue.filter(|_| job.reserved.is_empty());
        self.scratch.cede(self.cell, job, queue.filter(|_| self.adopted.is_none()));
        // Spares never keep back what waits of their own job. What is over the quota then is given back in this entry.
        let lends = job.groups.iter().any(|group| group.spares > 0);
        if lends {
            self.scratch.ask_quota_again();
            self.scratch.over.lend_spares(self.cell, job);
        }
        self.mark = self.scratch.over.savepoint();
        for row in first..end {
            let transaction = self.transaction;
            let placement = &transaction.place[row];
            let (count, missed) = self.judge_row(job, queue, row);
            self.accepted[row] = count;
            if let Some(reason) = missed {
                self.refuse(Row::Place(row as u32), Some(placement.node), reason, self.seen_by(reason, placement));
            }
        }
        self.scratch.settle(self.cell);
        self.judge_slices(job, first, end);
        self.judge_spares_first(job, first, end);
        self.judge_minimum(job, first, end);
        if lends {
            self.scratch.ask_quota_again();
            self.scratch.over.recall_spares(self.cell, job);
        }
    }

    /// The entry a planner must have applied to see why the row was refused.
    fn seen_by(&self, reason: ConflictReason, placement: &Placement) -> Index {
        match reason {
            ConflictReason::NodeGone
            | ConflictReason::TaskNotPending
            | ConflictReason::QuotaExceeded
            | ConflictReason::QueueHeld
            | ConflictReason::PodAffinity
            | ConflictReason::PodAntiAffinity
            | ConflictReason::PodTopologySpread
            | ConflictReason::TopologyBroken => self.cell.applied,
            _ => self.cell.nodes.version(placement.node).changed,
        }
    }

    /// How many tasks of the row are accepted, and what stopped the next one.
    fn judge_row(&mut self, job: &'a Arc<Job>, queue: Option<QueueId>, row: usize) -> (u32, Option<ConflictReason>) {
        let placement = &self.transaction.place[row];
        let (asker, room) = match self.asker_of(job, queue, row) {
            Ok(asker) => (asker, Room::of(&asker, self.what(), placement.node, placement.count)),
            Err(reason) => return (0, Some(reason)),
        };
        if room.count > 0 {
            self.take(&asker, placement, room.count);
        }
        (room.count, room.reason)
    }

    /// Who asks with this row, once it is well formed and its tasks and node are as the planner saw them.
    fn asker_of(&mut self, job: &'a Arc<Job>, queue: Option<QueueId>, row: usize) -> Result<Asker<'a>, ConflictReason> {
        let placement = &self.transaction.place[row];
        let group_index = usize::from(placement.group.0);
        let group = job.groups.get(group_index).ok_or(ConflictReason::Malformed)?;
        let tally = &mut self.scratch.groups[group_index];
        if placement.count == 0 || placement.first.0 < tally.next_task {
            return Err(ConflictReason::Malformed);
        }
        if !group.pending.contains(placement.first.0, placement.count) {
            return Err(ConflictReason::TaskNotPending);
        }
        tally.next_task = placement.first.0 + placement.count;
        if self.adopted.is_none() {
            judge_going_on(self.cell, (job, group), queue, placement)?;
        }
        let shape_id = self.adopted.and_then(|made| made.get(row)).map_or(group.shape, |(shape, _)| *shape);
        let shape = self.cell.shapes.get(shape_id).ok_or(ConflictReason::Malformed)?;
        if self.adopted.is_none() && lacks_flavor(job, group, shape) {
            return Err(ConflictReason::FlavorMissing);
        }
        if placement.devices.len() != placement.count as usize * shape.devices.len() {
            return Err(ConflictReason::Malformed);
        }
        self.is_unchanged(placement.node)?;
        let devices = placement.devices.as_slice();
        let wish = match self.adopted.is_some() {
            true => Wish::Return { devices },
            false => Wish::Run { first: placement.first.0, class: placement.class, devices },
        };
        let of = queue.map(|queue| (queue, placement.group, shape_id));
        let quota = of.map(|of| self.scratch.left_for(self.cell, of, shape));
        Ok(Asker { job, group: placement.group, shape_id, shape, quota, wish, alone: false })
    }

    /// Whether the node is as the planner saw it, as far as the transaction asks.
    fn is_unchanged(&self, node: NodeId) -> Result<(), ConflictReason> {
        self.is_known(node)?;
        let nodes = &self.cell.nodes;
        let changed = || nodes.version(node).foreign_to(self.session) > self.transaction.seen;
        let guarded =
            self.transaction.guard == Guard::Unchanged && nodes.is_schedulable(node) && self.adopted.is_none();
        if guarded && changed() { Err(ConflictReason::NodeChanged) } else { Ok(()) }
    }

    fn take(&mut self, asker: &Asker<'_>, placement: &Placement, count: u32) {
        let (cell, over) = (self.cell, &mut self.scratch.over);
        let (job, group, node, shape) = (asker.job, asker.group, placement.node, asker.shape);
        over.take_row(cell, job, (asker.shape_id, shape), placement, count);
        if shape.counts_own_tasks() {
            over.add_on_node(job.id, group, node, count as i32);
        }
        let at = usize::from(group.0);
        let domain = cell.domain_key(job, at, node);
        if domain.is_some() && over.domain(job, at).is_none() {
            over.set_domain(job, group, domain);
        }
        if asker.quota.is_some() {
            self.scratch.charge(count);
        }
        let tally = &mut self.scratch.groups[at];
        tally.accepted += count;
        tally.touched = true;
    }

    /// A gang starts whole or not at all, and where it runs below its minimum it gets back everything that it lost
    /// with nodes, what they drive away and still stops too, or nothing. When a group falls short, the job's rows are
    /// given back, of a service the group's rows.
    fn judge_minimum(&mut self, job: &Job, first: usize, end: usize) {
        let (whole, is_down) = (job.starts_whole(), job.is_down());
        let grain = self.transaction.grain;
        let repairs = whole && (0..job.groups.len()).any(|group| self.lost_placed(job, group, (first, end)) > 0);
        let short = |judge: &Self, group: usize| {
            let (state, spec) = (&job.groups[group], &job.spec.groups[group]);
            let bound = !state.started || is_down || grain == Grain::Minimum;
            let driven = if repairs && judge.adopted.is_none() { state.driven_out() } else { 0 };
            let live = if is_down { 0 } else { state.live_within_count().saturating_sub(driven) };
            let half = || repairs && state.started && (driven > 0 || judge.leaves_lost(job, group, (first, end)));
            (bound || half()) && live + judge.scratch.groups[group].accepted < state.needed(spec)
        };
        if whole {
            if (0..job.groups.len()).any(|group| short(self, group)) {
                self.give_back(None, (first, end), ConflictReason::GangShort);
            }
            return;
        }
        for group in 0..job.groups.len() {
            if self.scratch.groups[group].touched && short(self, group) {
                self.give_back(Some(GroupIndex(group as u16)), (first, end), ConflictReason::GangShort);
            }
        }
    }

    /// How many tasks of `group` that were lost with nodes are accepted.
    fn lost_placed(&self, job: &Job, group: usize, (first, end): (usize, usize)) -> u32 {
        let rows = (first..end).filter(|row| usize::from(self.transaction.place[*row].group.0) == group);
        let lost = &job.groups[group].lost;
        rows.map(|row| lost.overlap(self.transaction.place[row].first.0, self.accepted[row])).sum()
    }

    /// Whether tasks of `group` that were lost with nodes, and may be placed at once, are not accepted.
    fn leaves_lost(&self, job: &Job, group: usize, rows: (usize, usize)) -> bool {
        let state = &job.groups[group];
        let waiting: u32 = state.lost.iter().map(|(first, count)| state.pending.overlap(first, count)).sum();
        waiting > self.lost_placed(job, group, rows)
    }

    /// Gives back what `group`, or every group, was given by the rows from `first` to before `end`.
    pub(super) fn give_back(
        &mut self,
        group: Option<GroupIndex>,
        (first, end): (usize, usize),
        reason: ConflictReason,
    ) {
        self.scratch.ask_quota_again();
        match group {
            Some(group) => self.scratch.over.roll_back_group(self.cell, self.mark, group),
            None => self.scratch.over.roll_back(self.cell, self.mark),
        }
        let mut told = false;
        for row in first..end {
            let placement = &self.transaction.place[row];
            let concerned = group.is_none_or(|group| group == placement.group);
            if concerned && std::mem::take(&mut self.accepted[row]) > 0 && !told {
                told = true;
                let (row, node) = (Row::Place(row as u32), Some(placement.node));
                self.refuse(row, node, reason, self.cell.applied);
            }
        }
    }
}
