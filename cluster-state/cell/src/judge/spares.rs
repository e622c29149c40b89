//! Judging spares: room is held for a group that stands, or starts with these rows, where its tasks may stand, inside
//! its domain, and only where the room is really there.

use super::Judge;
use super::ledger::Ledger;
use crate::cell::Cell;
use crate::jobs::Job;
use crate::nominations::Held;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{ConflictReason, GroupIndex, NodeId, Nomination, ResourceId};
use ohm_stdx::canary::{self, Canary};
use std::collections::BTreeMap;

impl Judge<'_> {
    /// `named` are the spares accepted before in this transaction.
    pub(super) fn judge_spare(
        &mut self,
        row: &Nomination,
        named: &mut Vec<(NodeId, Held)>,
    ) -> Result<(), ConflictReason> {
        let job = self.standing(row.job)?;
        let at = usize::from(row.group.0);
        let (Some(group), true) = (job.groups.get(at), row.count > 0) else { return Err(ConflictReason::Malformed) };
        let starts = self.accepted_of(row.job, |other| other == at).next().is_some();
        if !starts && (!group.started || job.is_down()) {
            return Err(ConflictReason::GangShort);
        }
        let same = named.iter().filter(|(_, held)| held.spares(row.job, row.group.0));
        let before = same.map(|(_, held)| held.count).fold(group.spares, u32::saturating_add);
        if before.saturating_add(row.count) > job.spares_at_most(at) {
            return Err(ConflictReason::LimitReached);
        }
        self.node_stands(row.node)?;
        if !self.cell.admits(group.shape, row.node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        self.judge_spare_domain(job, at, row.node)?;
        let held = Held::spare(job, row.group, row.count, self.cell.applied);
        let on_node = self.cell.nominations.on_node(row.node).iter();
        let here = named.iter().filter(|(node, _)| *node == row.node).map(|(_, held)| held);
        let others: Vec<Held> = on_node.chain(here).filter(|other| other.binds_spare(&held)).cloned().collect();
        misfit(self.cell, &self.scratch.ledger, row.node, &held, &others)?;
        self.charge_spare(job, at, row.count)?;
        named.push((row.node, held));
        Ok(())
    }

    /// Takes back what groups were given that lost tasks, if one of those goes elsewhere while a spare of the group
    /// could take it (P7).
    pub(super) fn judge_spares_first(&mut self, job: &Job, first: usize, end: usize) {
        // A run that came back with its node is where it was.
        let judged = (0..job.groups.len()).filter(|at| job.groups[*at].spares > 0 && !self.adopts);
        for at in judged.collect::<Vec<_>>() {
            if self.passes_over_spares(job, at, first, end) && !canary::sings(Canary::SpareUnused) {
                let group = GroupIndex(at as u16);
                self.give_back(Some(group), (first, end), ConflictReason::SpareUnused);
                self.scratch.groups[at].accepted = 0;
                self.scratch.groups[at].domain = job.groups[at].domain;
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
        let one = Held::spare(job, GroupIndex(at as u16), 1, self.cell.applied);
        let others = self.cell.nominations.on_node(node).iter();
        let others: Vec<Held> = others.filter(|other| other.binds(job.id, job.spec.priority)).cloned().collect();
        self.node_stands(node).is_ok() && misfit(self.cell, &self.scratch.ledger, node, &one, &others).is_ok()
    }

    /// The accepted rows of those groups of `job`.
    fn accepted_of(&self, job: ohm_model::JobId, of: impl Fn(usize) -> bool) -> impl Iterator<Item = NodeId> {
        let rows = self.transaction.place.iter().zip(&self.accepted);
        let own = rows.filter(move |(row, accepted)| row.job == job && **accepted > 0 && of(usize::from(row.group.0)));
        own.map(|(row, _)| row.node)
    }

    fn judge_spare_domain(&self, job: &Job, at: usize, node: NodeId) -> Result<(), ConflictReason> {
        if job.binding_level(at).is_none() || canary::sings(Canary::SpareAstray) {
            return Ok(());
        }
        let key = self.cell.domain_key(job, at, node).ok_or(ConflictReason::TopologyBroken)?;
        let partners: Vec<usize> = job.partners(at).collect();
        let placed = self.accepted_of(job.id, |other| partners.contains(&other));
        let placed = placed.map(|node| self.cell.domain_key(job, at, node));
        let mut fixed = job.shared_domain(at).map(Some).into_iter().chain(placed).peekable();
        let is_inside = fixed.peek().is_some() && fixed.all(|fixed| fixed == Some(key));
        if is_inside { Ok(()) } else { Err(ConflictReason::TopologyBroken) }
    }

    fn charge_spare(&mut self, job: &Job, at: usize, count: u32) -> Result<(), ConflictReason> {
        let Some(shape) = self.cell.shape_of(job, at).filter(|_| !job.spec.queue.is_empty()) else { return Ok(()) };
        let Judge { cell, scratch, .. } = self;
        let draft = &mut scratch.ledger.quota;
        let queue = draft.open(&cell.quota, &cell.resources, &job.spec.queue);
        let amount = |request: i64| request.saturating_mul(i64::from(count));
        if shape.requests.iter().any(|&(resource, request)| draft.available(queue, resource) < amount(request)) {
            return Err(ConflictReason::QuotaExceeded);
        }
        shape.requests.iter().for_each(|&(resource, request)| draft.charge(queue, resource, amount(request)));
        Ok(())
    }

    /// Takes the spares of `job` out of what its queue is charged, or puts them back: they never keep back what waits
    /// of their own job. What is over the quota afterwards is given back in the same entry.
    pub(super) fn lend_spares(&mut self, job: &Job, sign: i64) {
        if job.spec.queue.is_empty() || job.groups.iter().all(|group| group.spares == 0) {
            return;
        }
        let Judge { cell, scratch, .. } = self;
        let draft = &mut scratch.ledger.quota;
        let queue = draft.open(&cell.quota, &cell.resources, &job.spec.queue);
        for (resource, amount) in cell.spares_charged(job) {
            if let Some(resource) = cell.resources.find(&resource) {
                draft.charge(queue, resource, amount.saturating_mul(sign));
            }
        }
    }
}

impl Cell {
    /// Whether there is room for this spare beside what stands on its node and what is kept there.
    pub fn takes_spare(&self, row: &Nomination) -> bool {
        let Some(job) = self.jobs.get(row.job) else { return false };
        let held = Held::spare(job, row.group, row.count, self.applied);
        let others = self.nominations.on_node(row.node).iter().filter(|other| other.binds_spare(&held));
        self.spare_misfit(row.node, &held, &others.cloned().collect::<Vec<_>>()).is_none()
    }

    /// Why a spare finds no room on `node` beside what stands there and `others`.
    pub(crate) fn spare_misfit(&self, node: NodeId, held: &Held, others: &[Held]) -> Option<ConflictReason> {
        misfit(self, &Ledger::default(), node, held, others).err()
    }
}

fn misfit(cell: &Cell, ledger: &Ledger, node: NodeId, held: &Held, others: &[Held]) -> Result<(), ConflictReason> {
    let shape_of = |held: &Held| cell.jobs.get(held.job).and_then(|job| cell.shape_of(job, usize::from(held.group)));
    let shape = shape_of(held).ok_or(ConflictReason::Malformed)?;
    let count = i64::from(held.count);
    for &(resource, request) in &shape.requests {
        let free = cell.nodes.free(node, resource).saturating_sub(ledger.taken(node, resource));
        let needed = request.saturating_mul(count);
        if free < needed {
            return Err(ConflictReason::NodeFull(resource));
        }
        let kept = others.iter().map(|other| cell.held_amount(other, resource)).fold(0, i64::saturating_add);
        if free.saturating_sub(kept) < needed {
            return Err(ConflictReason::Held);
        }
    }
    if let Some(&first) = shape.ports.first() {
        let taken = |port: &&u16| {
            let record = cell.nodes.get(node);
            let kept = || others.iter().filter_map(shape_of).any(|shape| shape.ports.contains(port));
            record.is_none_or(|record| record.ports.binary_search(port).is_ok())
                || ledger.has_port(node, **port)
                || kept()
        };
        let taken = shape.ports.iter().find(taken).or(Some(&first).filter(|_| count > 1));
        taken.map_or(Ok(()), |port| Err(ConflictReason::PortTaken(*port)))?;
    }
    if shape.max_per_node > 0 {
        let group = ohm_model::GroupIndex(held.group);
        let same = others.iter().filter(|other| (other.job, other.group) == (held.job, held.group));
        let beside = same.map(|other| other.count).fold(held.count, u32::saturating_add);
        let standing = cell.standing_on(held.job, group, node) + ledger.on_node(held.job, group, node);
        if standing.saturating_add(beside) > shape.max_per_node {
            return Err(ConflictReason::LimitReached);
        }
    }
    for &(resource, _) in &shape.devices {
        let all = others.iter().chain(std::iter::once(held));
        let requests = all.flat_map(|held| {
            let asked = shape_of(held).and_then(|shape| shape.devices.iter().find(|(column, _)| *column == resource));
            let count = if asked.is_some() { held.count as usize } else { 0 };
            std::iter::repeat_n(asked.map_or(0, |(_, request)| *request), count)
        });
        if !devices_fit(cell, ledger, node, resource, requests.collect()) {
            return Err(ConflictReason::NodeFull(resource));
        }
    }
    Ok(())
}

/// Whether so many requests, in thousandths of a device, find devices beside each other: whole ones first, then each
/// share on the device with the least sufficient rest.
fn devices_fit(cell: &Cell, ledger: &Ledger, node: NodeId, resource: ResourceId, mut requests: Vec<i64>) -> bool {
    let bank = cell.nodes.get(node).and_then(|record| record.bank(resource)).filter(|bank| bank.present > 0);
    let Some(bank) = bank else { return true };
    let taken = ledger.devices_taken(node, resource);
    let free = bank.free_milli.iter().zip(taken).take(bank.present as usize);
    let mut free: Vec<i64> = free.map(|(free, taken)| i64::from(*free) - i64::from(taken)).collect();
    requests.sort_unstable_by(|one, other| other.cmp(one));
    requests.into_iter().all(|request| {
        let (wanted, each) = if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) };
        (0..wanted).all(|_| {
            let least = free.iter_mut().filter(|left| **left >= each).min();
            least.map(|left| *left -= each).is_some()
        })
    })
}
