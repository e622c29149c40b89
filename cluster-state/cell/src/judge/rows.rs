//! Judging placements: each hard constraint of each row, then what must hold of the job as a whole.

use super::{GroupTally, Judge};
use crate::jobs::Job;
use crate::nodes::NOMINATED;
use crate::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::transaction::Row;
use ohm_model::{ConflictReason, Grain, GroupIndex, Guard, Index, JobGuard, NodeId, Placement, ResourceId};
use ohm_stdx::canary::{self, Canary};
use std::sync::Arc;

/// What a row may take before its devices are looked at: its shape, how many tasks, and what stopped the next one.
type Limits<'a> = (&'a Arc<Shape>, u32, Option<ConflictReason>);

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
        let admitted = |job: &'a Arc<Job>| self.judge_admitted(job).map(|()| job);
        let job = match self.guarded(guard).and_then(admitted) {
            Ok(job) => job,
            Err(reason) => {
                let changed = self.cell.jobs.get(guard.job).map_or(self.cell.applied, |job| job.version);
                return (first..end).for_each(|row| self.refuse(Row::Place(row as u32), None, reason, changed));
            }
        };
        self.scratch.ledger.mark();
        self.scratch.groups.clear();
        let tally = |group: &crate::jobs::Group| GroupTally { domain: group.domain, ..GroupTally::default() };
        self.scratch.groups.extend(job.groups.iter().map(tally));
        let charged = !job.spec.queue.is_empty() && job.reserved.is_empty();
        let (cell, ledger) = (self.cell, &mut self.scratch.ledger);
        let queue = charged.then(|| ledger.quota.open(&cell.quota, &cell.resources, &job.spec.queue));
        self.lend_spares(job, -1);
        for row in first..end {
            let placement = &self.transaction.place[row];
            let (count, missed) = self.judge_row(job, queue, placement);
            self.accepted[row] = count;
            if let Some(reason) = missed {
                self.refuse(Row::Place(row as u32), Some(placement.node), reason, self.seen_by(reason, placement));
            }
        }
        self.judge_slices(job, first, end);
        self.judge_spares_first(job, first, end);
        self.judge_minimum(job, first, end);
        self.lend_spares(job, 1);
    }

    /// The entry a planner must have applied to see why the row was refused.
    fn seen_by(&self, reason: ConflictReason, placement: &Placement) -> Index {
        match reason {
            ConflictReason::NodeGone
            | ConflictReason::TaskNotPending
            | ConflictReason::QuotaExceeded
            | ConflictReason::TopologyBroken => self.cell.applied,
            _ => self.cell.nodes.version(placement.node).changed,
        }
    }

    /// How many tasks of the row stand, and what stopped the next one.
    fn judge_row(
        &mut self,
        job: &'a Arc<Job>,
        queue: Option<u32>,
        placement: &Placement,
    ) -> (u32, Option<ConflictReason>) {
        match self.row_limits(job, queue, placement) {
            Err(reason) => (0, Some(reason)),
            Ok((shape, mut count, mut missed)) => {
                let (on_devices, reason) = self.device_limit(shape, placement, count);
                if reason.is_some() {
                    (count, missed) = (on_devices, reason);
                }
                if count > 0 {
                    self.take(job, queue, shape, placement, count);
                }
                (count, missed)
            }
        }
    }

    fn row_limits(
        &mut self,
        job: &'a Arc<Job>,
        queue: Option<u32>,
        placement: &Placement,
    ) -> Result<Limits<'a>, ConflictReason> {
        let group_index = usize::from(placement.group.0);
        let group = job.groups.get(group_index).ok_or(ConflictReason::Malformed)?;
        let tally = self.scratch.groups[group_index];
        if placement.count == 0 || placement.first.0 < tally.next_task {
            return Err(ConflictReason::Malformed);
        }
        if !group.pending.contains(placement.first.0, placement.count) {
            return Err(ConflictReason::TaskNotPending);
        }
        self.scratch.groups[group_index].next_task = placement.first.0 + placement.count;
        let shape = self.cell.shapes.get(group.shape).ok_or(ConflictReason::Malformed)?;
        self.node_admits(group.shape, placement)?;
        self.judge_domain(job, group_index, placement.node)?;
        // Nobody can have been promised the room of what stands there already.
        let is_nominated = !self.adopts && self.cell.nodes.flags(placement.node) & NOMINATED != 0;
        let (mut count, mut missed) = (placement.count, None);
        let mut narrow = |room: i64, request: i64, reason: ConflictReason| {
            // The product is bounded: a submit is refused whose request times its count is more than 63 bits hold.
            let planted = match reason {
                ConflictReason::NodeFull(_) => canary::sings(Canary::SkipFitCheck),
                ConflictReason::QuotaExceeded => canary::sings(Canary::SkipQuota),
                _ => false,
            };
            if count > 0 && !planted && room < request * i64::from(count) {
                (count, missed) = ((room / request).max(0) as u32, Some(reason));
            }
        };
        for &(resource, request) in &shape.requests {
            let free = self.free(placement.node, resource);
            narrow(free, request, ConflictReason::NodeFull(resource));
            if is_nominated {
                let free = free.saturating_sub(self.cell.held_from(job, placement.group, placement.node, resource));
                narrow(free, request, ConflictReason::Held);
                narrow(self.limit_beside_moving(job, placement, free / request), 1, ConflictReason::Held);
            }
            if let Some(queue) = queue {
                let available = self.scratch.ledger.quota.available(queue, resource);
                narrow(available, request, ConflictReason::QuotaExceeded);
            }
        }
        if let Some((limit, port)) = self.port_limit(job, shape, placement) {
            narrow(limit, 1, ConflictReason::PortTaken(port));
        }
        if shape.max_per_node > 0 {
            let limit = i64::from(shape.max_per_node) - i64::from(self.standing_on(job, placement));
            narrow(limit, 1, ConflictReason::LimitReached);
        }
        Ok((shape, count, missed))
    }

    fn node_admits(&self, shape: ohm_model::ShapeId, placement: &Placement) -> Result<(), ConflictReason> {
        let (cell, node) = (self.cell, placement.node);
        self.node_stands(node)?;
        if self.adopts {
            return Ok(());
        }
        let moved = cell.nodes.version(node).foreign_to(self.session) > self.transaction.seen;
        if self.transaction.guard == Guard::Unchanged && moved {
            return Err(ConflictReason::NodeChanged);
        }
        if cell.nodes.class(node) != placement.class || !cell.admits(shape, node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        Ok(())
    }

    /// A group that is bound to a domain stays there, together with the groups it is placed with. A repair may leave it
    /// as far as the job's policy says.
    fn judge_domain(&mut self, job: &Job, group: usize, node: NodeId) -> Result<(), ConflictReason> {
        let Some((name, level)) = job.binding_level(group) else { return Ok(()) };
        let topology = self.cell.topologies.get(name).ok_or(ConflictReason::TopologyBroken)?;
        let level = topology.level(level).ok_or(ConflictReason::TopologyBroken)?;
        let key = topology.key_of(node, level).ok_or(ConflictReason::TopologyBroken)?;
        let widened = job.widening_level(group).and_then(|wide| topology.level(wide));
        let wide_key = widened.and_then(|wide| topology.key_of(node, wide));
        let holds = |domain: u32| {
            let around = widened.and_then(|wide| topology.key_above(level, domain, wide));
            let far = wide_key.is_some() && canary::sings(Canary::WidenTooFar);
            domain == key || (around.is_some() && around == wide_key) || far
        };
        let mut fixed = job.partners(group).filter_map(|other| self.scratch.groups[other].domain);
        match fixed.all(holds) || canary::sings(Canary::SkipTopology) {
            true => Ok(()),
            false => Err(ConflictReason::TopologyBroken),
        }
    }

    fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.cell.nodes.free(node, resource).saturating_sub(self.scratch.ledger.taken(node, resource))
    }

    /// How many tasks of the row find room when that for others of the group, which are on the move, stays free.
    /// `room` is how many would without that.
    fn limit_beside_moving(&self, job: &Job, placement: &Placement, room: i64) -> i64 {
        let (group, node) = (placement.group, placement.node);
        let state = &job.groups[usize::from(group.0)];
        // A group that starts anew starts with those that moved, wherever there is room for all.
        if !state.started {
            return i64::from(placement.count);
        }
        let moving = &state.moving;
        let used = if moving.is_empty() { 0 } else { self.scratch.ledger.moved(job.id, group, node) };
        let kept = self.cell.room_for_moving(job.id, group, node).saturating_sub(used);
        if kept == 0 {
            return i64::from(placement.count);
        }
        let fits = |count: &u32| {
            let beside = kept - moving.overlap(placement.first.0, *count).min(kept);
            i64::from(*count) + i64::from(beside) <= room
        };
        (0..=placement.count).rev().find(fits).map_or(0, i64::from)
    }

    fn port_limit(&self, job: &Job, shape: &Shape, placement: &Placement) -> Option<(i64, u16)> {
        if shape.ports.is_empty() {
            return None;
        }
        let node = placement.node;
        let record = self.cell.nodes.get(node)?;
        let held = |port: u16| !self.adopts && self.cell.is_port_held(job.id, placement.group, node, port);
        let taken = |port: &&u16| {
            record.ports.binary_search(port).is_ok() || self.scratch.ledger.has_port(node, **port) || held(**port)
        };
        match shape.ports.iter().find(taken) {
            Some(&port) => Some((0, port)),
            None => shape.ports.first().map(|&port| (1, port)),
        }
    }

    fn standing_on(&self, job: &Job, placement: &Placement) -> u32 {
        let (group, node) = (placement.group, placement.node);
        self.cell.standing_on(job.id, group, node) + self.scratch.ledger.on_node(job.id, group, node)
    }

    fn take(&mut self, job: &Job, queue: Option<u32>, shape: &Shape, placement: &Placement, count: u32) {
        let (node, group) = (placement.node, placement.group);
        let ledger = &mut self.scratch.ledger;
        for &(resource, request) in &shape.requests {
            ledger.take(group, node, resource, request * i64::from(count));
            if let Some(queue) = queue {
                ledger.take_quota(group, queue, resource, request * i64::from(count));
            }
        }
        shape.ports.iter().for_each(|&port| ledger.take_port(group, node, port));
        let moved = job.groups[usize::from(group.0)].moving.overlap(placement.first.0, count);
        if moved > 0 {
            ledger.add_moved(job.id, group, node, moved);
        }
        if shape.max_per_node > 0 {
            ledger.add_on_node(job.id, group, node, count);
        }
        for (at, &mask) in placement.devices.iter().take(count as usize * shape.devices.len()).enumerate() {
            let (resource, request) = shape.devices[at % shape.devices.len()];
            if mask != 0 {
                ledger.take_devices(group, node, resource, mask, request.min(DEVICE_MILLI) as u16);
            }
        }
        let domain = self.cell.domain_key(job, usize::from(group.0), node);
        let tally = &mut self.scratch.groups[usize::from(group.0)];
        tally.accepted += count;
        tally.domain = tally.domain.or(domain);
        tally.touched = true;
    }

    /// A gang starts whole or not at all, and where it stands below its minimum it gets back everything that it lost
    /// with nodes, or nothing: when a group falls short, the job's rows are given back, of a service the group's rows.
    fn judge_minimum(&mut self, job: &Job, first: usize, end: usize) {
        let (whole, is_down) = (job.starts_whole(), job.is_down());
        let grain = self.transaction.grain;
        // Two guards against one fault: the version of the job says it too.
        let planted = canary::sings(Canary::HalfRepair) || canary::sings(Canary::StaleRepair);
        let repairs =
            whole && !planted && (0..job.groups.len()).any(|group| self.lost_placed(job, group, (first, end)) > 0);
        let short = |judge: &Self, group: usize| {
            let (state, spec) = (&job.groups[group], &job.spec.groups[group]);
            let bound = !state.started || is_down || grain == Grain::Minimum;
            let live = if is_down { 0 } else { state.live_within_count() };
            let times = 1 + u32::from(canary::sings(Canary::CountGangTwice));
            let half = || repairs && state.started && judge.leaves_lost(job, group, (first, end));
            (bound || half()) && live + judge.scratch.groups[group].accepted * times < state.needed(spec)
        };
        let short_groups: Vec<usize> = (0..job.groups.len())
            .filter(|&group| (whole || self.scratch.groups[group].touched) && short(self, group))
            .collect();
        if whole && !short_groups.is_empty() {
            self.give_back(None, (first, end), ConflictReason::GangShort);
        } else {
            for &group in &short_groups {
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
        self.scratch.ledger.roll_back(group);
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
