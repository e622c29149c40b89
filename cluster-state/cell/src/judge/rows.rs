//! Judging placements: each hard constraint of each row, then what must hold of the job as a whole.

use super::{GroupTally, Judge};
use crate::jobs::{Job, required_level};
use crate::nodes::NOMINATED;
use crate::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::transaction::Row;
use ohm_model::{ConflictReason, Grain, Guard, Index, JobGuard, NodeId, Placement, ResourceId};
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
        let job = match self.guarded(guard) {
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
        for row in first..end {
            let placement = &self.transaction.place[row];
            let (count, missed) = self.judge_row(job, placement);
            self.accepted[row] = count;
            if let Some(reason) = missed {
                let changed = self.cell.nodes.version(placement.node).changed;
                self.refuse(Row::Place(row as u32), Some(placement.node), reason, changed);
            }
        }
        self.judge_minimum(job, first, end);
    }

    /// How many tasks of the row stand, and what stopped the next one.
    fn judge_row(&mut self, job: &'a Arc<Job>, placement: &Placement) -> (u32, Option<ConflictReason>) {
        match self.row_limits(job, placement) {
            Err(reason) => (0, Some(reason)),
            Ok((shape, mut count, mut missed)) => {
                if !shape.devices.is_empty() {
                    let (on_devices, reason) = self.device_limit(shape, placement, count);
                    if on_devices < count {
                        (count, missed) = (on_devices, reason);
                    }
                }
                if count > 0 {
                    self.take(job, shape, placement, count);
                }
                (count, missed)
            }
        }
    }

    fn row_limits(
        &mut self,
        job: &'a Arc<Job>,
        placement: &Placement,
    ) -> Result<(&'a Arc<Shape>, u32, Option<ConflictReason>), ConflictReason> {
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
        let (mut count, mut missed) = (placement.count, None);
        let mut narrow = |limit: i64, reason: ConflictReason| {
            if limit < i64::from(count) {
                (count, missed) = (limit.max(0) as u32, Some(reason));
            }
        };
        for &(resource, request) in &shape.requests {
            let free = self.free_for(job, placement, resource);
            narrow(free / request, ConflictReason::NodeFull(resource));
            if !job.spec.queue.is_empty() && job.reserved.is_empty() {
                narrow(self.quota_limit(job, resource, request), ConflictReason::QuotaExceeded);
            }
        }
        if let Some((limit, port)) = self.port_limit(shape, placement.node) {
            narrow(limit, ConflictReason::PortTaken(port));
        }
        if shape.max_per_node > 0 {
            let limit = i64::from(shape.max_per_node) - i64::from(self.standing_on(job, placement));
            narrow(limit, ConflictReason::LimitReached);
        }
        Ok((shape, count, missed))
    }

    fn node_admits(&self, shape: ohm_model::ShapeId, placement: &Placement) -> Result<(), ConflictReason> {
        let (cell, node) = (self.cell, placement.node);
        self.node_stands(node)?;
        let moved = cell.nodes.version(node).foreign_to(self.session) > self.transaction.seen;
        if self.transaction.guard == Guard::Unchanged && moved {
            return Err(ConflictReason::NodeChanged);
        }
        if cell.nodes.class(node) != placement.class || !cell.admits(shape, node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        Ok(())
    }

    /// A group with a required level stays in one domain, together with the groups it is placed with.
    fn judge_domain(&mut self, job: &Job, group: usize, node: NodeId) -> Result<(), ConflictReason> {
        let Some((name, level)) = required_level(&job.spec.groups[group]) else { return Ok(()) };
        let topology = self.cell.topologies.get(name).ok_or(ConflictReason::TopologyBroken)?;
        let level = topology.level(level).ok_or(ConflictReason::TopologyBroken)?;
        let key = topology.key_of(node, level).ok_or(ConflictReason::TopologyBroken)?;
        let leader = job.domain_leader(group);
        let partners = (0..job.groups.len()).filter(|&other| job.domain_leader(other) == leader);
        let mut fixed = partners.filter_map(|other| self.scratch.groups[other].domain);
        if fixed.any(|domain| domain != key) {
            return Err(ConflictReason::TopologyBroken);
        }
        Ok(())
    }

    fn free_for(&self, job: &Job, placement: &Placement, resource: ResourceId) -> i64 {
        let node = placement.node;
        let mut free = self.cell.nodes.free(node, resource) - self.scratch.ledger.taken(node, resource);
        if self.cell.nodes.flags(node) & NOMINATED != 0 {
            free -= self.cell.held_from(job, placement.group, node, resource);
        }
        free
    }

    fn quota_limit(&self, job: &Job, resource: ResourceId, request: i64) -> i64 {
        let name = self.cell.resources.name(resource);
        let Some(available) = self.cell.quota.available(&job.spec.queue, name) else { return i64::MAX };
        let root = self.cell.quota.root(&job.spec.queue);
        (available - self.scratch.ledger.quota_taken(root, resource)).max(0) / request
    }

    fn port_limit(&self, shape: &Shape, node: NodeId) -> Option<(i64, u16)> {
        let record = self.cell.nodes.get(node)?;
        let taken =
            |port: &&u16| record.ports.binary_search(port).is_ok() || self.scratch.ledger.has_port(node, **port);
        match shape.ports.iter().find(taken) {
            Some(&port) => Some((0, port)),
            None => shape.ports.first().map(|&port| (1, port)),
        }
    }

    fn standing_on(&self, job: &Job, placement: &Placement) -> u32 {
        let (group, node) = (placement.group, placement.node);
        self.cell.standing_on(job.id, group, node) + self.scratch.ledger.on_node(job.id, group, node)
    }

    /// How many leading tasks of the row get the devices they name.
    fn device_limit(&self, shape: &Shape, placement: &Placement, count: u32) -> (u32, Option<ConflictReason>) {
        let width = shape.devices.len();
        if placement.devices.len() != placement.count as usize * width {
            return (0, Some(ConflictReason::Malformed));
        }
        let mut within: Vec<(ResourceId, u32, u16)> = Vec::new();
        for task in 0..count as usize {
            for (at, &(resource, request)) in shape.devices.iter().enumerate() {
                let mask = placement.devices[task * width + at];
                if let Err(reason) = self.claim_devices(placement.node, resource, request, mask, &mut within) {
                    return (task as u32, Some(reason));
                }
            }
        }
        (count, None)
    }

    fn claim_devices(
        &self,
        node: NodeId,
        resource: ResourceId,
        request: i64,
        mask: u64,
        within: &mut Vec<(ResourceId, u32, u16)>,
    ) -> Result<(), ConflictReason> {
        let bank = self.cell.nodes.get(node).and_then(|record| record.bank(resource));
        let Some(bank) = bank else {
            // A plain count: no fractions, no masks.
            let whole = request % DEVICE_MILLI == 0 && mask == 0;
            return if whole { Ok(()) } else { Err(ConflictReason::Malformed) };
        };
        let (wanted, each) = if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) };
        let in_range = bank.present >= 64 || mask >> bank.present == 0;
        if i64::from(mask.count_ones()) != wanted || !in_range {
            return Err(ConflictReason::Malformed);
        }
        for device in (0..bank.present).filter(|device| mask >> device & 1 == 1) {
            let same = |claim: &&(ResourceId, u32, u16)| claim.0 == resource && claim.1 == device;
            let earlier: i64 = within.iter().filter(same).map(|claim| i64::from(claim.2)).sum();
            let taken = earlier + i64::from(self.scratch.ledger.device_taken(node, resource, device));
            if i64::from(bank.free_milli[device as usize]) - taken < each {
                return Err(ConflictReason::NodeFull(resource));
            }
            within.push((resource, device, each as u16));
        }
        Ok(())
    }

    fn take(&mut self, job: &Job, shape: &Shape, placement: &Placement, count: u32) {
        let (node, group) = (placement.node, placement.group);
        let ledger = &mut self.scratch.ledger;
        let charged = !job.spec.queue.is_empty() && job.reserved.is_empty();
        for &(resource, request) in &shape.requests {
            ledger.take(node, resource, request * i64::from(count));
            if charged {
                ledger.take_quota(self.cell.quota.root(&job.spec.queue), resource, request * i64::from(count));
            }
        }
        shape.ports.iter().for_each(|&port| ledger.take_port(node, port));
        if shape.max_per_node > 0 {
            ledger.add_on_node(job.id, group, node, count);
        }
        for (at, mask) in placement.devices.iter().take(count as usize * shape.devices.len()).enumerate() {
            let (resource, request) = shape.devices[at % shape.devices.len()];
            for device in (0..64).filter(|device| mask >> device & 1 == 1) {
                ledger.take_device(node, resource, device, request.min(DEVICE_MILLI) as u16);
            }
        }
        let domain = required_level(&job.spec.groups[usize::from(group.0)]).and_then(|(name, level)| {
            let topology = self.cell.topologies.get(name)?;
            topology.key_of(node, topology.level(level)?)
        });
        let tally = &mut self.scratch.groups[usize::from(group.0)];
        tally.accepted += count;
        tally.domain = domain.or(tally.domain);
        tally.touched = true;
    }

    /// A gang starts whole or not at all: when a group falls short, the job's rows are given back.
    fn judge_minimum(&mut self, job: &Job, first: usize, end: usize) {
        let short = |judge: &Self, group: usize| {
            let (state, spec) = (&job.groups[group], &job.spec.groups[group]);
            let bound = !state.started || judge.transaction.grain == Grain::Minimum;
            bound && state.live + judge.scratch.groups[group].accepted < state.needed(spec)
        };
        let whole = job.starts_whole();
        let short_groups: Vec<usize> = (0..job.groups.len())
            .filter(|&group| (whole || self.scratch.groups[group].touched) && short(self, group))
            .collect();
        if short_groups.is_empty() {
            return;
        }
        if whole {
            self.scratch.ledger.roll_back();
        }
        let mut told = false;
        for row in first..end {
            let placement = &self.transaction.place[row];
            if (whole || short_groups.contains(&usize::from(placement.group.0))) && self.accepted[row] > 0 {
                self.accepted[row] = 0;
                if !told {
                    let changed = self.cell.nodes.version(placement.node).changed;
                    self.refuse(Row::Place(row as u32), Some(placement.node), ConflictReason::GangShort, changed);
                    told = true;
                }
            }
        }
    }
}
