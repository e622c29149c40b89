//! The life of nodes: registration, conclusions about them, cordon, removal.

use super::Applied;
use crate::cell::Cell;
use crate::state::flaps::Flaps;
use crate::state::nodes::{CORDONED, DeviceBank, NodeRecord, PRESENT, READY, SHRUNK};
use crate::state::repairs::Losses;
use crate::state::runs::Run;
use crate::state::shapes::Shape;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::resources::{DEVICE_MILLI, device_count};
use ohm_model::{
    Epoch, EventKind, Exit, Incarnation, Lease, NodeConclusion, NodeHealth, NodeId, NodeSpec, Outcome, Refusal,
    ResourceId, RunRef, SessionId, StopCause, TaintEffect,
};
use ohm_stdx::canary::{self, Canary};
use std::cmp::Reverse;
use std::sync::Arc;

impl Cell {
    pub(super) fn register_node(
        &mut self,
        spec: &NodeSpec,
        key: u64,
        instance: u64,
        boot: u64,
        alive: &[RunRef],
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.check_node(spec)?;
        let mut spec = spec.clone();
        spec.labels.entry(HOSTNAME_LABEL.to_string()).or_insert_with(|| spec.name.clone());
        if let Some(node) = self.nodes.find(&spec.name) {
            let record = self.nodes.get(node).expect("a named node has a record");
            record.check_boot(key, boot)?;
            // A lost node comes back by registering, even under the same agent process.
            let is_retry = record.key == key && record.instance == instance && *record.spec == spec;
            if is_retry && record.health != NodeHealth::Lost {
                return Ok(Outcome::Node { node, incarnation: record.incarnation });
            }
            let vanished = record.boot != boot || record.key != key;
            let outcome = self.register_again(node, spec, (key, instance, boot), vanished, applied);
            self.reconcile(node, &alive.iter().copied().collect(), applied);
            return Ok(outcome);
        }
        let node = self.nodes.take_slot();
        self.nodes.by_name.insert(&spec.name, node);
        let incarnation = self.next_incarnation();
        let spec = Arc::new(spec);
        self.nodes.records[node.0 as usize] = Some(Arc::new(NodeRecord {
            spec: Arc::clone(&spec),
            key,
            instance,
            boot,
            incarnation,
            registered: self.applied,
            health: NodeHealth::Ready,
            devices: Vec::new(),
            ports: Vec::new(),
            addressed: self.applied,
            conditions: Vec::new(),
            conditions_number: 0,
            flaps: Flaps::default(),
            taints: spec.taints.clone(),
            drain: None,
        }));
        self.nodes.flags[node.0 as usize] = PRESENT | READY;
        self.nodes.version[node.0 as usize].registered = self.applied;
        self.nodes.class[node.0 as usize] = self.classes.join(&spec.labels, &spec.taints);
        self.set_capacity(node, &spec);
        self.topologies.join(node, &spec.labels);
        self.finish_registration(node, incarnation, applied);
        Ok(Outcome::Node { node, incarnation })
    }

    fn next_incarnation(&mut self) -> Incarnation {
        self.nodes.registrations += 1;
        Incarnation(self.nodes.registrations)
    }

    /// The agent of a known node started again, perhaps with other labels or another capacity.
    fn register_again(
        &mut self,
        node: NodeId,
        spec: NodeSpec,
        (key, instance, boot): (u64, u64, u64),
        vanished: bool,
        applied: &mut Applied,
    ) -> Outcome {
        if vanished {
            let mut losses = Losses::default();
            self.forget_kept_on(node, applied);
            self.end_runs_on(node, Exit::Vanished, &mut losses, applied);
            self.settle_losses(losses, applied);
        }
        self.clear_unhealthy(node, applied);
        // What lives on there is judged anew when everything else of the node is known.
        self.withdraw_kept(node, applied);
        let incarnation = self.next_incarnation();
        let spec = Arc::new(spec);
        let Some(record) = self.nodes.record_mut(node) else { return Outcome::Done };
        let relabelled = record.spec.labels != spec.labels || record.spec.taints != spec.taints;
        let returned = record.health == NodeHealth::Lost;
        (record.key, record.instance, record.boot) = (key, instance, boot);
        (record.incarnation, record.health) = (incarnation, NodeHealth::Ready);
        record.conditions_number = 0;
        if record.spec.address != spec.address {
            record.addressed = self.applied;
        }
        record.spec = Arc::clone(&spec);
        self.mark_node(node, READY, true);
        self.set_capacity(node, &spec);
        if returned {
            self.note_return(node, applied);
        }
        if let Some(record) = self.nodes.record_mut(node).filter(|_| canary::sings(Canary::ForgetHoldDown)) {
            record.flaps = Flaps::default();
        }
        if relabelled {
            let former = self.reclassify(node);
            self.classes.leave(former);
            self.topologies.join(node, &spec.labels);
            self.evict_repelled(node, applied);
            self.evict_strayed(node, applied);
        }
        self.settle_taints(node, applied);
        self.evict_excess(node, applied);
        self.finish_registration(node, incarnation, applied);
        Outcome::Node { node, incarnation }
    }

    fn finish_registration(&mut self, node: NodeId, incarnation: Incarnation, applied: &mut Applied) {
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
        self.free_node(node);
        let name = self.nodes.name(node).to_string();
        self.tell(applied, EventKind::NodeRegistered { node, name, incarnation });
    }

    /// Sets capacities, and moves what is free by the difference.
    fn set_capacity(&mut self, node: NodeId, spec: &NodeSpec) {
        for name in spec.capacity.keys() {
            if let Some(resource) = self.resources.intern(name) {
                self.nodes.ensure_column(resource);
            }
        }
        let slot = node.0 as usize;
        for column in 0..self.nodes.capacity.len() {
            let name = self.resources.name(ResourceId(column as u16));
            let capacity = spec.capacity.get(name).copied().unwrap_or(0);
            let grown = capacity - self.nodes.capacity[column][slot];
            if grown != 0 {
                self.nodes.capacity[column][slot] = capacity;
                self.nodes.free[column][slot] += grown;
            }
        }
        let names = &self.resources;
        let counts: Vec<(ResourceId, u32)> = spec
            .capacity
            .iter()
            .filter_map(|(name, &capacity)| Some((names.find(name)?, device_count(name, capacity))))
            .collect();
        if let Some(record) = self.nodes.record_mut(node) {
            set_devices(record, &counts);
        }
    }

    fn check_duty(&self, session: SessionId, epoch: Epoch) -> Result<(), Refusal> {
        if self.sessions.holds(Lease::Health, session, epoch) {
            return Ok(());
        }
        Err(Refusal::LeaseMoved { epoch: self.sessions.lease(Lease::Health).epoch })
    }

    pub(super) fn conclude_nodes(
        &mut self,
        session: SessionId,
        epoch: Epoch,
        conclusions: &[NodeConclusion],
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.check_duty(session, epoch)?;
        let mut losses = Losses::default();
        let (mut refused, mut taken) = (None, conclusions.is_empty());
        for conclusion in conclusions {
            match self.conclude(*conclusion, &mut losses, applied) {
                Ok(()) => taken = true,
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        self.settle_losses(losses, applied);
        refused.filter(|_| !taken).map_or(Ok(Outcome::Done), Err)
    }

    fn conclude(
        &mut self,
        NodeConclusion { node, incarnation, health }: NodeConclusion,
        losses: &mut Losses,
        applied: &mut Applied,
    ) -> Result<(), Refusal> {
        let record = self.nodes.get(node);
        let record = record.ok_or_else(|| Refusal::NotFound { kind: "node".into(), name: node.to_string() })?;
        if record.incarnation != incarnation {
            return Err(Refusal::Superseded { incarnation: record.incarnation });
        }
        if record.health == health {
            return Ok(());
        }
        if record.health == NodeHealth::Lost {
            return Err(Refusal::WrongState {
                kind: "node".into(),
                name: record.spec.name.clone(),
                state: "lost".into(),
                hint: "its agent must register again".into(),
            });
        }
        let name = record.spec.name.clone();
        if let Some(record) = self.nodes.record_mut(node) {
            record.health = health;
        }
        self.mark_node(node, READY, health == NodeHealth::Ready);
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
        self.tell(applied, EventKind::NodeHealth { node, name, health });
        if health == NodeHealth::Lost {
            self.keep_runs_on(node, applied);
            self.end_runs_on(node, Exit::NodeLost, losses, applied);
            self.lose_rooms(node, applied);
        }
        Ok(())
    }

    pub(super) fn bound_node_lease(
        &mut self,
        session: SessionId,
        epoch: Epoch,
        (seen_ms, lease_ms): (u64, u64),
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.check_duty(session, epoch)?;
        let bound_ms = self.health.lease_bound_ms;
        if bound_ms != seen_ms && bound_ms != lease_ms {
            let problem = format!("the bound of node leases is {bound_ms} ms by now, not {seen_ms}");
            return Err(Refusal::Invalid { field: "seen_ms".into(), problem });
        }
        if self.health.lease_bound_ms != lease_ms {
            self.health.lease_bound_ms = lease_ms;
            self.tell(applied, EventKind::NodeLeaseBound { lease_ms });
        }
        Ok(Outcome::Done)
    }

    pub(super) fn hold_conclusions(
        &mut self,
        session: SessionId,
        epoch: Epoch,
        silent: u32,
        brake_ms: u64,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        self.check_duty(session, epoch)?;
        let was_held = self.health.silent > 0;
        self.health.silent = silent;
        self.health.held_until_ms = if silent > 0 { self.now_ms.saturating_add(brake_ms) } else { 0 };
        if was_held || silent > 0 {
            self.tell(applied, EventKind::ConclusionsHeld { silent, brake_ms });
        }
        Ok(Outcome::Done)
    }

    fn end_runs_on(&mut self, node: NodeId, exit: Exit, losses: &mut Losses, applied: &mut Applied) {
        let mut slots: Vec<u32> = self.runs.on_node(&self.nodes, node).map(|(slot, _)| slot).collect();
        slots.reverse();
        slots.into_iter().for_each(|slot| self.end_run(slot, exit, "", losses, applied));
    }

    /// Stops runs that a new `NoExecute` taint drives away.
    pub(super) fn evict_repelled(&mut self, node: NodeId, applied: &mut Applied) {
        let repelled = |run: &Run| self.shapes.get(run.shape).is_some_and(|shape| self.repels(node, shape));
        let runs = self.runs.on_node(&self.nodes, node);
        let slots: Vec<u32> = runs.filter(|(_, run)| repelled(run)).map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.stop_run(slot, StopCause::Moved, applied));
    }

    /// Whether a `NoExecute` taint of `node` itself drives away what has this shape.
    pub(super) fn repels(&self, node: NodeId, shape: &Shape) -> bool {
        let Some(record) = self.nodes.get(node) else { return false };
        let driving = record.spec.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute);
        driving.into_iter().any(|taint| !shape.tolerations.iter().any(|toleration| toleration.covers(taint)))
    }

    /// Stops runs whose group requires a domain that the relabelled node is no longer in (P5).
    fn evict_strayed(&mut self, node: NodeId, applied: &mut Applied) {
        let strayed = |run: &Run| {
            let Some(job) = self.jobs.get(run.run.task.job) else { return false };
            let group = usize::from(run.run.task.group.0);
            let domain = job.groups[group].domain;
            domain.is_some() && self.domain_key(job, group, node) != domain
        };
        let runs = self.runs.on_node(&self.nodes, node);
        let slots: Vec<u32> = runs.filter(|(_, run)| strayed(run)).map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.stop_run(slot, StopCause::Moved, applied));
    }

    /// A node that shrank below what it holds stops runs until the rest fits (P1): those on devices that are gone, then
    /// the least important and youngest, as few as that order needs. What is to stop anyway is counted first.
    fn evict_excess(&mut self, node: NodeId, applied: &mut Applied) {
        let lost_devices = self.runs_on_lost_devices(node);
        lost_devices.iter().for_each(|slot| self.stop_run(*slot, StopCause::NodeShrunk, applied));
        let mut missing: Vec<i64> =
            (0..self.resources.len() as u16).map(|column| -self.nodes.free(node, ResourceId(column))).collect();
        let is_over = missing.iter().any(|missing| *missing > 0);
        self.mark_node(node, SHRUNK, is_over || !lost_devices.is_empty());
        if !is_over {
            return;
        }
        let mut candidates = Vec::new();
        for (slot, run) in self.runs.on_node(&self.nodes, node) {
            let (Some(job), Some(shape)) = (self.jobs.get(run.run.task.job), self.shapes.get(run.shape)) else {
                continue;
            };
            if run.stop.is_some() {
                shape.requests.iter().for_each(|&(column, amount)| missing[usize::from(column.0)] -= amount);
            } else {
                let rank = (job.spec.priority, Reverse(run.placed), Reverse(run.run.task));
                candidates.push((rank, slot, Arc::clone(shape)));
            }
        }
        candidates.sort_by_key(|(rank, ..)| *rank);
        for slot in choose_victims(&mut missing, candidates.into_iter().map(|(_, slot, shape)| (slot, shape))) {
            self.stop_run(slot, StopCause::NodeShrunk, applied);
        }
    }

    fn runs_on_lost_devices(&self, node: NodeId) -> Vec<u32> {
        let Some(record) = self.nodes.get(node) else { return Vec::new() };
        let holds_lost = |run: &Run| {
            let (Some(shape), Some(masks)) = (self.shapes.get(run.shape), &run.devices) else { return false };
            shape.devices.iter().zip(masks.iter()).any(|((resource, _), mask)| {
                let present = record.bank(*resource).map_or(0, |bank| bank.present);
                present < 64 && mask >> present != 0
            })
        };
        self.runs.on_node(&self.nodes, node).filter(|(_, run)| holds_lost(run)).map(|(slot, _)| slot).collect()
    }

    /// Clears the shrunk mark once everything on the node fits again.
    pub(super) fn settle_shrunk(&mut self, node: NodeId) {
        if self.nodes.flags(node) & SHRUNK == 0 {
            return;
        }
        let fits = (0..self.resources.len() as u16).all(|column| self.nodes.free(node, ResourceId(column)) >= 0);
        if fits && self.runs_on_lost_devices(node).is_empty() {
            self.mark_node(node, SHRUNK, false);
        }
    }

    pub(super) fn cordon_node(
        &mut self,
        name: &str,
        cordoned: bool,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let node = self.named_node(name)?;
        if (self.nodes.flags(node) & CORDONED != 0) != cordoned {
            self.mark_node(node, CORDONED, cordoned);
            self.nodes.touch(node, self.applied, SessionId(0));
            applied.nodes.push(node);
            self.tell(applied, EventKind::NodeCordoned { node, name: name.to_string(), cordoned });
        }
        Ok(Outcome::Done)
    }

    pub(super) fn remove_node(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let node = self.named_node(name)?;
        // What lived on there while it was lost is given up with it.
        let runs = self.nodes.run_count(node) as usize + self.kept.back_on(node).count();
        if runs > 0 {
            return Err(Refusal::WrongState {
                kind: "node".into(),
                name: name.into(),
                state: format!("holding {runs} runs"),
                hint: "drain it and wait until nothing stands on it, or cancel the jobs, first".into(),
            });
        }
        self.lose_rooms(node, applied);
        self.clear_spares_on(node, "its node is gone", applied);
        self.detach_unhealthy(node, applied);
        self.forget_kept_on(node, applied);
        self.classes.leave(self.nodes.class(node));
        self.topologies.leave(node);
        let slot = node.0 as usize;
        for column in 0..self.nodes.free.len() {
            self.nodes.free[column][slot] = 0;
            self.nodes.capacity[column][slot] = 0;
        }
        self.nodes.flags[slot] = 0;
        self.nodes.records[slot] = None;
        self.nodes.by_name.remove(name);
        self.nodes.free_slots.push(node);
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
        self.tell(applied, EventKind::NodeRemoved { name: name.to_string() });
        Ok(Outcome::Done)
    }

    pub(super) fn named_node(&self, name: &str) -> Result<NodeId, Refusal> {
        self.nodes.find(name).ok_or_else(|| Refusal::NotFound { kind: "node".into(), name: name.into() })
    }
}

/// The first candidates that give `missing` back, without those that the others make needless.
fn choose_victims(missing: &mut [i64], candidates: impl Iterator<Item = (u32, Arc<Shape>)>) -> Vec<u32> {
    let mut victims = Vec::new();
    for (slot, shape) in candidates {
        if shape.requests.iter().any(|(column, _)| missing[usize::from(column.0)] > 0) {
            shape.requests.iter().for_each(|&(column, amount)| missing[usize::from(column.0)] -= amount);
            victims.push((slot, shape));
        }
    }
    let mut chosen = Vec::new();
    for (slot, shape) in victims.into_iter().rev() {
        let needless = shape.requests.iter().all(|&(column, amount)| missing[usize::from(column.0)] + amount <= 0);
        if needless {
            shape.requests.iter().for_each(|&(column, amount)| missing[usize::from(column.0)] += amount);
        } else {
            chosen.push(slot);
        }
    }
    chosen.reverse();
    chosen
}

/// Makes the device banks match `counts`; devices that runs may still hold stay behind the present ones.
fn set_devices(record: &mut NodeRecord, counts: &[(ResourceId, u32)]) {
    for bank in &mut record.devices {
        bank.present = counts.iter().find(|(resource, _)| *resource == bank.resource).map_or(0, |(_, count)| *count);
    }
    for &(resource, present) in counts.iter().filter(|(_, count)| *count > 0) {
        if record.bank(resource).is_none() {
            record.devices.push(DeviceBank { resource, present, free_milli: Vec::new() });
        }
    }
    for bank in &mut record.devices {
        let whole = |milli: &u16| i64::from(*milli) == DEVICE_MILLI;
        while bank.free_milli.len() > bank.present as usize && bank.free_milli.last().is_some_and(whole) {
            bank.free_milli.pop();
        }
        let length = bank.free_milli.len().max(bank.present as usize);
        bank.free_milli.resize(length, DEVICE_MILLI as u16);
    }
    record.devices.retain(|bank| !bank.free_milli.is_empty());
}
