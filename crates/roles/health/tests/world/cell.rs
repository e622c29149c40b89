//! A cell with sessions, one lease, nodes, and tasks that are placed anew at once when their run is over.

use ohm_agent::{Launch, WantedRun, WantedSet};
use ohm_model::{
    Command, Envelope, Epoch, Incarnation, Index, JobId, NodeHealth, NodeId, OnDisconnect, Outcome, Refusal, RunRef,
    RunReportKind, Sequence, SessionId, TaskSpec,
};
use ohm_stdx::Prng;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const TASKS_PER_NODE: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) incarnation: Incarnation,
    pub(crate) health: NodeHealth,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DutyState {
    pub(crate) holder: Option<SessionId>,
    pub(crate) epoch: Epoch,
    pub(crate) renewed: Index,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunState {
    pub(crate) node: NodeId,
    pub(crate) started: bool,
    pub(crate) stop: bool,
}

#[derive(Debug)]
pub(crate) struct Cell {
    dice: Prng,
    pub(crate) index: Index,
    sessions: BTreeMap<SessionId, (u64, BTreeMap<Sequence, Outcome>)>,
    pub(crate) duty: DutyState,
    pub(crate) nodes: BTreeMap<NodeId, NodeState>,
    instances: BTreeMap<NodeId, Vec<u64>>,
    pub(crate) runs: BTreeMap<RunRef, RunState>,
    /// Tasks without a run, and the incarnation of their next one.
    pending: BTreeMap<u32, u32>,
    launches: Vec<Arc<Launch>>,
    pub(crate) lost_count: u32,
    pub(crate) lease_bound_ms: u64,
    pub(crate) held: bool,
}

pub(crate) fn keeps(task: u32) -> bool {
    task % 4 == 3
}

impl Cell {
    pub(crate) fn new(dice: Prng, nodes: u32) -> Self {
        let launch = |on_disconnect| Launch {
            job_name: "job".into(),
            group_name: "group".into(),
            count: nodes * TASKS_PER_NODE,
            peers: Vec::new(),
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            on_disconnect,
            deadline_ms: 0,
            task: TaskSpec { grace_ms: 40, ..TaskSpec::default() },
        };
        let launches = [OnDisconnect::Stop, OnDisconnect::Keep].map(|kind| Arc::new(launch(kind))).to_vec();
        Cell {
            dice,
            index: Index(0),
            sessions: BTreeMap::new(),
            duty: DutyState::default(),
            nodes: BTreeMap::new(),
            instances: BTreeMap::new(),
            runs: BTreeMap::new(),
            pending: (0..nodes * TASKS_PER_NODE).map(|task| (task, 1)).collect(),
            launches,
            lost_count: 0,
            lease_bound_ms: 0,
            held: false,
        }
    }

    /// Applies what came through a session.
    pub(crate) fn apply(&mut self, envelope: &Envelope) -> Outcome {
        self.index.0 += 1;
        if let Command::OpenSession { nonce, .. } = envelope.command {
            let known = self.sessions.iter().find(|(_, (known, _))| *known == nonce).map(|(&id, _)| id);
            let id = known.unwrap_or(SessionId(self.index.0));
            self.sessions.entry(id).or_insert((nonce, BTreeMap::new()));
            return Outcome::Session(id);
        }
        match self.sessions.get(&envelope.session) {
            None => return Outcome::Refused(Refusal::SessionGone(envelope.session)),
            Some((_, outcomes)) => {
                if let Some(outcome) = outcomes.get(&envelope.sequence) {
                    return outcome.clone();
                }
            }
        }
        let outcome = self.perform(envelope.session, &envelope.command);
        let session = self.sessions.entry(envelope.session).or_default();
        session.1.insert(envelope.sequence, outcome.clone());
        outcome
    }

    fn perform(&mut self, session: SessionId, command: &Command) -> Outcome {
        match command {
            Command::KeepAlive if self.duty.holder == Some(session) => self.duty.renewed = self.index,
            Command::TakeLease { .. } if self.duty.holder == Some(session) => return Outcome::Lease(self.duty.epoch),
            Command::ReleaseLease { epoch, .. } if self.duty.holder == Some(session) && self.duty.epoch == *epoch => {
                self.duty.holder = None;
            }
            Command::TakeLease { epoch, renewed, .. } => {
                let moved = self.duty.epoch != *epoch || (self.duty.holder.is_some() && self.duty.renewed != *renewed);
                if moved {
                    return Outcome::Refused(Refusal::LeaseMoved { epoch: self.duty.epoch });
                }
                let epoch = Epoch(epoch.0 + 1);
                self.duty = DutyState { holder: Some(session), epoch, renewed: self.index };
                return Outcome::Lease(epoch);
            }
            Command::ConcludeNodes { epoch, conclusions } => {
                if *epoch != self.duty.epoch {
                    return Outcome::Refused(Refusal::LeaseMoved { epoch: self.duty.epoch });
                }
                for one in conclusions {
                    let _ = self.conclude(one.node, one.incarnation, one.health);
                }
            }
            Command::BoundNodeLease { epoch, seen_ms, lease_ms, take_over }
                if *epoch == self.duty.epoch
                    && *seen_ms == self.lease_bound_ms
                    && take_over.check(*lease_ms).is_ok() =>
            {
                self.lease_bound_ms = *lease_ms;
            }
            Command::HoldConclusions { epoch, silent, .. } if *epoch == self.duty.epoch => self.held = *silent > 0,
            _ => {}
        }
        Outcome::Done
    }

    fn conclude(&mut self, id: NodeId, incarnation: Incarnation, health: NodeHealth) -> Outcome {
        let Some(node) = self.nodes.get_mut(&id) else { return Outcome::Done };
        if node.incarnation != incarnation || node.health == NodeHealth::Lost {
            return Outcome::Refused(Refusal::Superseded { incarnation: node.incarnation });
        }
        node.health = health;
        if health == NodeHealth::Lost {
            self.lost_count += 1;
            let over: Vec<RunRef> = self.runs.iter().filter(|(_, run)| run.node == id).map(|(&run, _)| run).collect();
            over.into_iter().for_each(|run| self.end(run));
        }
        self.place();
        Outcome::Done
    }

    pub(crate) fn register(&mut self, id: NodeId, instance: u64) -> Result<Incarnation, Refusal> {
        self.index.0 += 1;
        let instances = self.instances.entry(id).or_default();
        let present = Incarnation(instances.len() as u32);
        match instances.iter().position(|known| *known == instance) {
            Some(position) if position + 1 == instances.len() => return Ok(present),
            Some(_) => return Err(Refusal::Superseded { incarnation: present }),
            None => instances.push(instance),
        }
        let incarnation = Incarnation(present.0 + 1);
        self.nodes.insert(id, NodeState { incarnation, health: NodeHealth::Ready });
        self.place();
        Ok(incarnation)
    }

    pub(crate) fn report(&mut self, id: NodeId, reports: &[ohm_model::RunReport]) {
        self.index.0 += 1;
        for report in reports {
            match self.runs.get_mut(&report.run).filter(|run| run.node == id) {
                Some(run) if matches!(report.kind, RunReportKind::Started { .. }) => run.started = true,
                Some(_) => self.end(report.run),
                None => {}
            }
        }
        self.place();
    }

    /// Wishes some run to stop, as a preemption would.
    pub(crate) fn evict_one(&mut self) {
        self.index.0 += 1;
        let runs: Vec<RunRef> = self.runs.keys().copied().collect();
        if let Some(run) = self.dice.pick(&runs).and_then(|run| self.runs.get_mut(run)) {
            run.stop = true;
        }
    }

    /// The room is free and the task may be placed anew.
    fn end(&mut self, run: RunRef) {
        if self.runs.remove(&run).is_some() {
            self.pending.insert(run.task.task.0, run.incarnation.0 + 1);
        }
    }

    fn place(&mut self) {
        let ready = |(_, node): &(&NodeId, &NodeState)| node.health == NodeHealth::Ready;
        let ready: Vec<NodeId> = self.nodes.iter().filter(ready).map(|(&id, _)| id).collect();
        if ready.is_empty() {
            return;
        }
        for (task, incarnation) in std::mem::take(&mut self.pending) {
            let node = ready[self.dice.below(ready.len() as u64) as usize];
            let run = RunRef::new(JobId(1), 0, task, incarnation);
            self.runs.insert(run, RunState { node, started: false, stop: false });
        }
    }

    pub(crate) fn wanted(&self, id: NodeId) -> Option<WantedSet> {
        let node_incarnation = self.nodes.get(&id)?.incarnation;
        let here = self.runs.iter().filter(|(_, state)| state.node == id);
        let runs = here.map(|(&run, state)| WantedRun {
            run,
            started: state.started,
            stop: state.stop,
            stop_delay_ms: 0,
            grace_ms_max: None,
            devices: BTreeMap::new(),
            peers: None,
            probes: None,
            ready: false,
            launch: Some(self.launches[usize::from(keeps(run.task.task.0))].clone()),
        });
        Some(WantedSet { cell_incarnation: 1, node_incarnation, index: self.index, runs: runs.collect() })
    }
}
