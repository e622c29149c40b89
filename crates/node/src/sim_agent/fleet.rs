//! All nodes of the process and the agenda of what is due.

use crate::agent::key::NodeIdentity;
use crate::agent::messages::{self, Order};
use ohm_agent::{AgentConfig, AgentCore, DriverConfig, DriverInput, Effect, Input, RunnerEvent, SimDriver};
use ohm_model::{NodeId, NodeSpec, OnDisconnect, RunRef};
use ohm_runtime::recorder::{Happened, Recorder};
use ohm_stdx::{Prng, hash};
use ohm_wire::{AgentUp, Beat, write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes that are told of a new connection in one turn: their registrations come in bunches that a server takes.
const CONNECTS_PER_TURN: usize = 512;
/// Between two such bunches, in milliseconds.
const CONNECT_PAUSE_MS: u64 = 25;

/// One node.
struct SimNode {
    name: String,
    spec_bytes: bytes::Bytes,
    key: u64,
    agent: AgentCore,
    driver: SimDriver,
    /// Its place in the agenda.
    due_ms: Option<u64>,
    is_refused: bool,
}

/// All of them.
pub(super) struct Fleet {
    nodes: Vec<SimNode>,
    by_node: BTreeMap<NodeId, usize>,
    agenda: BTreeSet<(u64, usize)>,
    boot: u64,
    /// The next node to be told of the connection, and when.
    connecting: Option<(usize, u64)>,
    superseded: usize,
    messages: Vec<AgentUp>,
    beats: Vec<Beat>,
    effects: VecDeque<Effect>,
    recorder: Recorder,
}

impl Fleet {
    /// Nodes of these descriptions. The key of `identity` makes theirs, together with their names.
    pub(super) fn new(
        specs: Vec<NodeSpec>,
        identity: NodeIdentity,
        config: &AgentConfig,
        driver: DriverConfig,
        mut dice: Prng,
        recorder: Recorder,
    ) -> Self {
        let mut node = |spec: NodeSpec| SimNode {
            spec_bytes: write(&spec),
            key: hash::chain(identity.key, hash::bytes(spec.name.as_bytes())),
            name: spec.name,
            agent: AgentCore::new(config.clone(), dice.fork()),
            driver: SimDriver::new(driver),
            due_ms: None,
            is_refused: false,
        };
        let nodes = specs.into_iter().map(&mut node).collect();
        Fleet {
            nodes,
            by_node: BTreeMap::new(),
            agenda: BTreeSet::new(),
            boot: identity.boot,
            connecting: None,
            superseded: 0,
            messages: Vec::new(),
            beats: Vec::new(),
            effects: VecDeque::new(),
            recorder,
        }
    }

    /// Introduces every driver to its agent; before everything else.
    pub(super) fn attach(&mut self, now_ms: u64) {
        (0..self.nodes.len()).for_each(|local| self.drive(now_ms, local, DriverInput::Attach));
    }

    pub(super) fn connected(&mut self, now_ms: u64) {
        self.connecting = Some((0, now_ms));
    }

    pub(super) fn disconnected(&mut self, now_ms: u64) {
        self.connecting = None;
        (0..self.nodes.len()).for_each(|local| self.step(now_ms, local, Input::Disconnected));
    }

    /// Whether newer processes have taken all nodes over.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded == self.nodes.len()
    }

    /// The next moment at which [`Self::turn`] has something to do.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let due_ms = self.agenda.first().map(|(due_ms, _)| *due_ms);
        due_ms.into_iter().chain(self.connecting.map(|(_, due_ms)| due_ms)).min()
    }

    pub(super) fn take(&mut self, now_ms: u64, order: Order) {
        match order {
            Order::Local { local, node, input } => {
                let Some(local) = usize::try_from(local).ok().filter(|local| *local < self.nodes.len()) else { return };
                if let Input::Registered { .. } = input {
                    self.by_node.insert(node, local);
                    self.nodes[local].is_refused = false;
                }
                self.step(now_ms, local, input);
            }
            Order::Node { node, input } => {
                if let Some(&local) = self.by_node.get(&node) {
                    self.step(now_ms, local, input);
                }
            }
            Order::Answers(answers) => {
                for (node, answer) in answers {
                    if let Some(&local) = self.by_node.get(&node) {
                        self.step(now_ms, local, Input::BeatAnswer(answer));
                    }
                }
            }
            Order::ReadLog(request) => {
                let reason = "this node is simulated: its tasks write nothing".to_string();
                self.messages.push(messages::log_piece(request.request, Err(reason)));
            }
            Order::MoreLog { .. } | Order::StopLog { .. } => {}
        }
    }

    /// Does what is due.
    pub(super) fn turn(&mut self, now_ms: u64) {
        if let Some((first, _)) = self.connecting.filter(|(_, due_ms)| *due_ms <= now_ms) {
            let end = (first + CONNECTS_PER_TURN).min(self.nodes.len());
            (first..end).for_each(|local| self.step(now_ms, local, Input::Connected));
            self.connecting = (end < self.nodes.len()).then_some((end, now_ms + CONNECT_PAUSE_MS));
        }
        // Each node at most once, however short its pauses are.
        let due: Vec<usize> = self.agenda.range(..=(now_ms, usize::MAX)).map(|(_, local)| *local).collect();
        for local in due {
            self.drive(now_ms, local, DriverInput::Tick);
            self.step(now_ms, local, Input::Tick);
        }
    }

    /// What is to be sent: all beats of the turn are one message.
    pub(super) fn take_messages(&mut self) -> Vec<AgentUp> {
        let mut messages = std::mem::take(&mut self.messages);
        if !self.beats.is_empty() {
            messages.push(messages::beats(std::mem::take(&mut self.beats)));
        }
        messages
    }

    fn step(&mut self, now_ms: u64, local: usize, input: Input) {
        let mut effects = Vec::new();
        self.nodes[local].agent.step(now_ms, input, &mut effects);
        self.effects.extend(effects);
        self.perform(now_ms, local);
    }

    fn drive(&mut self, now_ms: u64, local: usize, input: DriverInput) {
        self.tell_driver(now_ms, local, input);
        self.perform(now_ms, local);
    }

    /// Hands `input` to the driver, and what the driver says to the agent.
    fn tell_driver(&mut self, now_ms: u64, local: usize, input: DriverInput) {
        let node = &mut self.nodes[local];
        let (mut events, mut effects) = (Vec::<RunnerEvent>::new(), Vec::new());
        let witness = self.recorder.is_on().then(|| Witness::before(&node.driver, &input));
        node.driver.step(now_ms, input, &mut events);
        if let Some(witness) = witness {
            witness.record(now_ms, &node.name, &events, &mut self.recorder);
        }
        events.into_iter().for_each(|event| node.agent.step(now_ms, Input::Runner(event), &mut effects));
        self.effects.extend(effects);
    }

    /// Performs all effects of one node, and those that follow from them; then finds its new place in the agenda.
    fn perform(&mut self, now_ms: u64, local: usize) {
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                Effect::Register { instance } => {
                    let node = &self.nodes[local];
                    let (spec, key) = (node.spec_bytes.clone(), node.key);
                    self.messages.push(messages::register(local as u64, spec, key, instance, self.boot));
                }
                Effect::RegisterRefused(refusal) => {
                    let node = &mut self.nodes[local];
                    if !std::mem::replace(&mut node.is_refused, true) {
                        tracing::warn!(node = node.name, %refusal, "not registered; trying again");
                    }
                }
                Effect::Beat { node, incarnation, sequence, .. } => {
                    self.beats.push(messages::beat(node, incarnation, sequence));
                }
                Effect::SendReports { batch, node, reports } => {
                    self.messages.push(messages::reports(node, batch, &reports));
                }
                Effect::StartRun { incarnation, wanted } => {
                    self.tell_driver(now_ms, local, DriverInput::Start { incarnation, wanted });
                }
                Effect::StopRun { run, grace_ms } => {
                    self.tell_driver(now_ms, local, DriverInput::Stop { run, grace_ms });
                }
                Effect::ForgetRun { run } => self.tell_driver(now_ms, local, DriverInput::Forget { run }),
                Effect::WriteLease(file) => self.tell_driver(now_ms, local, DriverInput::Lease(file)),
                Effect::Superseded => {
                    tracing::warn!(node = self.nodes[local].name, "a newer agent process has this node now");
                    self.superseded += 1;
                }
            }
        }
        self.reschedule(local);
    }

    fn reschedule(&mut self, local: usize) {
        let node = &mut self.nodes[local];
        let due_ms = node.agent.due_ms().into_iter().chain(node.driver.due_ms()).min();
        if node.due_ms == due_ms {
            return;
        }
        if let Some(former_ms) = std::mem::replace(&mut node.due_ms, due_ms) {
            self.agenda.remove(&(former_ms, local));
        }
        self.agenda.extend(due_ms.map(|due_ms| (due_ms, local)));
    }
}

/// What must be known before a step of a driver to record what it did.
struct Witness {
    /// Simulated tasks end at this moment at the latest, however late their process hears of it.
    deadline_ms: u64,
    /// A run that would be new, and whether it may overlap with its replacement.
    starts: Option<(RunRef, bool)>,
}

impl Witness {
    fn before(driver: &SimDriver, input: &DriverInput) -> Self {
        let starts = match input {
            DriverInput::Start { wanted, .. } if !driver.is_live(wanted.run) => {
                Some((wanted.run, wanted.launch.on_disconnect == OnDisconnect::Keep))
            }
            _ => None,
        };
        Witness { deadline_ms: driver.lease().map_or(u64::MAX, |lease| lease.deadline_ms), starts }
    }

    fn record(&self, now_ms: u64, node: &str, events: &[RunnerEvent], recorder: &mut Recorder) {
        for event in events {
            let node = node.to_string();
            match *event {
                RunnerEvent::Started { run, .. } => {
                    if let Some((_, keeps)) = self.starts.filter(|(new, _)| *new == run) {
                        recorder.write_at(now_ms, Happened::Began { node, run, keeps });
                    }
                }
                RunnerEvent::Exited { run, .. } => {
                    recorder.write_at(now_ms.min(self.deadline_ms), Happened::Over { node, run });
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_agent::{BeatAnswer, Launch, WantedRun, WantedSet};
    use ohm_model::{Epoch, Exit, Incarnation, Index, JobId, OnDisconnect, RunRef, RunReport, RunReportKind, TaskSpec};
    use ohm_runtime::recorder;
    use ohm_wire::{agent_up, read};
    use std::sync::Arc;

    fn spec(number: usize) -> NodeSpec {
        let (labels, taints, capacity) = Default::default();
        NodeSpec { name: format!("node-{number}"), labels, taints, capacity, address: String::new() }
    }

    fn fleet(nodes: usize) -> Fleet {
        let specs = (0..nodes).map(spec).collect();
        let mut fleet = Fleet::new(
            specs,
            NodeIdentity { key: 1, boot: 1 },
            &AgentConfig::default(),
            DriverConfig::default(),
            Prng::new(1),
            Recorder::default(),
        );
        fleet.attach(0);
        fleet
    }

    /// Answers like a server: every registration at once, every beat at once.
    fn answer(fleet: &mut Fleet, now_ms: u64, reports: &mut Vec<RunReport>) -> usize {
        let mut registered = 0;
        for message in fleet.take_messages() {
            match message.kind {
                Some(agent_up::Kind::Register(register)) => {
                    let (node, incarnation) = (NodeId(1000 + register.local as u32), Incarnation(1));
                    let input = Input::Registered { instance: register.instance, node, incarnation };
                    fleet.take(now_ms, Order::Local { local: register.local, node, input });
                    registered += 1;
                }
                Some(agent_up::Kind::Beats(beats)) => {
                    let answer = |beat: Beat| {
                        let (incarnation, duty_epoch) = (Incarnation(beat.incarnation), Epoch(1));
                        let (sequence, lease_ms, interval_ms) = (beat.sequence, 10_000, 1_000);
                        let answer = BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms };
                        (NodeId(beat.node), answer)
                    };
                    fleet.take(now_ms, Order::Answers(beats.beats.into_iter().map(answer).collect()));
                }
                Some(agent_up::Kind::Reports(batch)) => {
                    reports.extend(read::<Vec<RunReport>>("reports", &batch.reports_bytes).unwrap());
                    let input = Input::ReportsAccepted { batch: batch.batch, index: Index(9) };
                    fleet.take(now_ms, Order::Node { node: NodeId(batch.node), input });
                }
                Some(agent_up::Kind::Log(_)) | None => {}
            }
        }
        registered
    }

    fn wanted(run: RunRef) -> WantedSet {
        let task = TaskSpec { sim_duration_ms: 500, ..TaskSpec::default() };
        let launch = Launch {
            job_name: "job".into(),
            group_name: "main".into(),
            count: 1,
            peers: Vec::new(),
            requests: BTreeMap::new(),
            on_disconnect: OnDisconnect::Stop,
            deadline_ms: 0,
            task,
        };
        let run =
            WantedRun { run, started: false, stop: false, devices: BTreeMap::new(), launch: Some(Arc::new(launch)) };
        WantedSet { cell_incarnation: 1, node_incarnation: Incarnation(1), index: Index(5), runs: vec![run] }
    }

    #[test]
    fn a_task_runs_on_one_of_many_nodes_and_its_end_is_reported() {
        let nodes = CONNECTS_PER_TURN * 2 + 1;
        let folder = tempfile::tempdir().unwrap();
        let (mut fleet, mut reports, mut registered) = (fleet(nodes), Vec::new(), 0);
        fleet.recorder = Recorder::open(folder.path(), "fleet", "fleet").unwrap();
        fleet.connected(0);
        let run = RunRef::new(JobId(1), 0, 0, 1);
        let mut now_ms = 0;
        while now_ms < 2_000 {
            now_ms = fleet.due_ms().unwrap().max(now_ms + 1);
            fleet.turn(now_ms);
            let count = answer(&mut fleet, now_ms, &mut reports);
            assert!(count <= CONNECTS_PER_TURN, "registrations come in bunches");
            registered += count;
            if registered == nodes && reports.is_empty() {
                fleet.take(now_ms, Order::Node { node: NodeId(1003), input: Input::Wanted(wanted(run)) });
            }
        }
        assert_eq!(registered, nodes);
        let kinds: Vec<&RunReportKind> = reports.iter().map(|report| &report.kind).collect();
        let ended = RunReportKind::Ended { exit: Exit::Code(0), message: String::new() };
        assert_eq!(kinds, [&RunReportKind::Started { pid: 0 }, &ended]);
        assert!(fleet.agenda.len() <= nodes, "one place per node");
        let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let lines = recorder::read(&path).unwrap();
        let node = || "node-3".to_string();
        assert_eq!(lines[1].what, Happened::Began { node: node(), run, keeps: false });
        assert_eq!(lines[2].what, Happened::Over { node: node(), run });
        assert_eq!((lines.len(), lines[2].at_ms - lines[1].at_ms), (3, 500));
    }

    #[test]
    fn a_turn_costs_what_is_due_and_an_outage_quiets_the_agenda() {
        let (mut fleet, mut reports) = (fleet(10), Vec::new());
        assert_eq!(fleet.due_ms(), None, "nothing to do without a server");
        fleet.connected(0);
        for now_ms in 0..50 {
            fleet.turn(now_ms);
            answer(&mut fleet, now_ms, &mut reports);
        }
        let due_ms = fleet.due_ms().unwrap();
        fleet.turn(due_ms - 1);
        assert!(fleet.take_messages().is_empty(), "before its time nothing is done");
        fleet.disconnected(due_ms);
        assert_eq!(fleet.due_ms(), None);
        fleet.take(due_ms, Order::Node { node: NodeId(77), input: Input::Tick });
        fleet.take(due_ms, Order::Local { local: u64::MAX, node: NodeId(0), input: Input::Tick });
        assert!(fleet.take_messages().is_empty(), "what is not ours is passed over");
    }

    #[test]
    fn keys_follow_from_the_names() {
        let (first, second) = (fleet(2), fleet(3));
        let keys = |fleet: &Fleet| fleet.nodes.iter().map(|node| node.key).collect::<Vec<_>>();
        assert_eq!(keys(&first), keys(&second)[..2]);
        assert_ne!(keys(&first)[0], keys(&first)[1]);
    }
}
