//! Judging moves: nothing is told to leave its node unless it has to, and unless there is room for it in the same
//! transaction. What is accepted stands whole.

use super::Judge;
use super::slices::Arrivals;
use crate::jobs::{Group, Job};
use crate::nodes::DeviceBank;
use crate::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::transaction::Row;
use ohm_model::{ConflictReason, GroupIndex, JobId, NodeId, Nomination, ResourceId, RunRef};
use ohm_stdx::canary::{self, Canary};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the accepted rows of a move come to.
#[derive(Default)]
struct Moves {
    /// Tasks that are told to leave, by group.
    leaving: BTreeMap<(JobId, u16), BTreeSet<u32>>,
    /// Rooms that are named, by group.
    named: BTreeMap<(JobId, u16), u32>,
    amounts: BTreeMap<(NodeId, ResourceId), i64>,
    ports: BTreeSet<(NodeId, u16)>,
    onto: BTreeMap<(JobId, u16, NodeId), u32>,
    /// The domain of groups that leave theirs with everything they have, by the leader of those placed together.
    domains: BTreeMap<(JobId, usize), u32>,
}

impl<'a> Judge<'a> {
    pub(super) fn judge_move(&mut self) {
        let (transaction, changed) = (self.transaction, self.cell.applied);
        let mut moves = Moves::default();
        for row in &transaction.nominate {
            let named = moves.named.entry((row.job, row.group.0)).or_insert(0);
            *named = named.saturating_add(row.count);
        }
        for (row, (run, _)) in transaction.evict.iter().enumerate() {
            if let Err(reason) = self.judge_departure(*run, &mut moves) {
                self.refuse(Row::Evict(row as u32), None, reason, changed);
            }
        }
        for (row, nomination) in transaction.nominate.iter().enumerate() {
            if let Err(reason) = self.judge_room(nomination, &mut moves) {
                self.refuse(Row::Nominate(row as u32), Some(nomination.node), reason, changed);
            }
        }
        self.judge_move_slices(&moves);
    }

    /// A run may be told to leave while it has to, its guard stands, there is room for it, and not too many of its
    /// group are on the move. One that has ended, or stops already, is fine.
    fn judge_departure(&self, run: RunRef, moves: &mut Moves) -> Result<(), ConflictReason> {
        let job = self.standing(run.task.job)?;
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
        if self.cell.leave_cause(job, at, found.node).is_none() {
            return Err(ConflictReason::Malformed);
        }
        let key = (job.id, run.task.group.0);
        let leaving = moves.leaving.entry(key).or_default();
        leaving.insert(run.task.task.0);
        let count = leaving.len() as u32;
        if moves.named.get(&key).copied().unwrap_or(0) < count && !canary::sings(Canary::MoveUnawaited) {
            return Err(ConflictReason::NotReserved);
        }
        let is_new = |task: &&u32| group.is_some_and(|group| !group.replaced.contains(**task, 1));
        let new = leaving.iter().filter(is_new).count() as u32;
        if group.map_or(0, Group::on_the_move).saturating_add(new) > self.cell.move_limit(job, found.node) {
            return Err(ConflictReason::LimitReached);
        }
        Ok(())
    }

    /// The room is really there, where the tasks may stand, beside everything that is held already.
    fn judge_room(&self, row: &Nomination, moves: &mut Moves) -> Result<(), ConflictReason> {
        let job = self.standing(row.job)?;
        let at = usize::from(row.group.0);
        let (Some(group), Some(spec)) = (job.groups.get(at), job.spec.groups.get(at)) else {
            return Err(ConflictReason::Malformed);
        };
        if row.count == 0 || row.count > spec.count {
            return Err(ConflictReason::Malformed);
        }
        let shape = self.cell.shapes.get(group.shape).ok_or(ConflictReason::Malformed)?;
        self.node_stands(row.node)?;
        if self.cell.leave_cause(job, at, row.node).is_some() {
            return Err(ConflictReason::NodeNotReady);
        }
        if !self.cell.admits(group.shape, row.node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        self.judge_move_domain(job, at, row.node, moves)?;
        self.judge_move_fit(job, shape, row, moves)?;
        for &(resource, request) in &shape.requests {
            *moves.amounts.entry((row.node, resource)).or_insert(0) += request * i64::from(row.count);
        }
        moves.ports.extend(shape.ports.iter().map(|port| (row.node, *port)));
        *moves.onto.entry((row.job, row.group.0, row.node)).or_insert(0) += row.count;
        Ok(())
    }

    fn judge_move_fit(
        &self,
        job: &Job,
        shape: &Arc<Shape>,
        row: &Nomination,
        moves: &Moves,
    ) -> Result<(), ConflictReason> {
        let (cell, node, group) = (self.cell, row.node, row.group);
        let own = cell.room_for_moving(job.id, group, node);
        for &(resource, request) in &shape.requests {
            let named = moves.amounts.get(&(node, resource)).copied().unwrap_or(0);
            let free = cell.nodes.free(node, resource).saturating_sub(named);
            let needed = request * i64::from(row.count);
            if free < needed {
                return Err(ConflictReason::NodeFull(resource));
            }
            let held = cell.held_from(job, group, node, resource).saturating_add(request * i64::from(own));
            if free.saturating_sub(held) < needed {
                return Err(ConflictReason::Held);
            }
        }
        if let Some(&port) = shape.ports.iter().find(|port| {
            let record = cell.nodes.get(node);
            let taken = record.is_none_or(|record| record.ports.binary_search(port).is_ok());
            taken || own > 0 || cell.is_port_held(job.id, group, node, **port) || moves.ports.contains(&(node, **port))
        }) {
            return Err(ConflictReason::PortTaken(port));
        }
        if let Some(&port) = shape.ports.first().filter(|_| row.count > 1) {
            return Err(ConflictReason::PortTaken(port));
        }
        let named = moves.onto.get(&(row.job, group.0, node)).copied().unwrap_or(0);
        let coming = own.saturating_add(named).saturating_add(row.count);
        let standing = cell.standing_on(job.id, group, node).saturating_add(coming);
        if shape.max_per_node > 0 && standing > shape.max_per_node {
            return Err(ConflictReason::LimitReached);
        }
        for &(resource, request) in &shape.devices {
            let bank = cell.nodes.get(node).and_then(|record| record.bank(resource)).filter(|bank| bank.present > 0);
            if bank.is_some_and(|bank| tasks_on_devices(bank, request) < i64::from(coming)) {
                return Err(ConflictReason::NodeFull(resource));
            }
        }
        Ok(())
    }

    /// The group stays in its domain, unless it leaves that with everything it has: then all of it goes to one.
    fn judge_move_domain(&self, job: &Job, at: usize, node: NodeId, moves: &mut Moves) -> Result<(), ConflictReason> {
        if canary::sings(Canary::MoveAstray) {
            return Ok(());
        }
        let Some((name, level)) = job.binding_level(at) else { return Ok(()) };
        let topology = self.cell.topologies.get(name).ok_or(ConflictReason::TopologyBroken)?;
        let level = topology.level(level).ok_or(ConflictReason::TopologyBroken)?;
        let key = topology.key_of(node, level).ok_or(ConflictReason::TopologyBroken)?;
        let stays = |other: usize| {
            let group = &job.groups[other];
            let leaving = moves.leaving.get(&(job.id, other as u16)).map_or(0, |tasks| tasks.len() as u32);
            group.live > group.stopping + leaving || !group.moving.is_empty()
        };
        let fixed = if job.partners(at).any(stays) {
            job.shared_domain(at).ok_or(ConflictReason::TopologyBroken)?
        } else {
            *moves.domains.entry((job.id, job.domain_leader(at))).or_insert(key)
        };
        if fixed == key { Ok(()) } else { Err(ConflictReason::TopologyBroken) }
    }

    /// The slices of each group stay whole, with what goes to a place counted as standing there.
    fn judge_move_slices(&mut self, moves: &Moves) {
        let mut seen = BTreeSet::new();
        for (row, nomination) in self.transaction.nominate.iter().enumerate() {
            let (id, group) = (nomination.job, nomination.group.0);
            let Some(job) = self.cell.jobs.get(id).filter(|_| seen.insert((id, group))) else { continue };
            let at = usize::from(group);
            if job.spec.groups.get(at).is_none_or(|spec| spec.slices().is_empty()) {
                continue;
            }
            let onto = moves.onto.iter().filter(|((other, of, _), _)| (*other, *of) == (id, group));
            let arrivals = Arrivals {
                onto: onto.map(|((.., node), count)| (*node, *count)).collect(),
                leaving: moves.leaving.get(&(id, group)).cloned().unwrap_or_default(),
                rooms: self.cell.rooms_for_moving(id, GroupIndex(group)).collect(),
            };
            if !self.are_slices_whole(job, at, &arrivals) {
                let (row, reason) = (Row::Nominate(row as u32), ConflictReason::TopologyBroken);
                self.refuse(row, Some(nomination.node), reason, self.cell.applied);
            }
        }
    }
}

/// How many tasks that ask for so many thousandths of a device fit beside each other.
fn tasks_on_devices(bank: &DeviceBank, request: i64) -> i64 {
    let free = bank.free_milli.iter().take(bank.present as usize).map(|milli| i64::from(*milli));
    if request < DEVICE_MILLI {
        return free.map(|milli| milli / request.max(1)).sum();
    }
    free.filter(|milli| *milli == DEVICE_MILLI).count() as i64 / (request / DEVICE_MILLI)
}
