//! The world: everybody in one cell, their network, their clocks, and what goes wrong.

mod deliver;
mod people;
mod strike;

use crate::agenda::Agenda;
use crate::clocks::Clock;
use crate::faults::{self, Fault, Population, Victim};
use crate::links::{Link, Links, NetworkFaults};
use crate::node::NodeProcess;
use crate::report::Report;
use crate::roles::{ClientProcess, HealthProcess, SchedulerProcess, Shell};
use crate::server::ServerProcess;
use crate::workload;
use ohm_agent::BeatAnswer;
use ohm_log::Bytes;
use ohm_model::{Class, Command, Index, NodeId, NodeSpec, RunReport, SessionId};
use ohm_oracle::{Broken, Oracle, Record, Stuck, stuck_jobs};
use ohm_replica::{AgentOrder, AppendResult, Beat, FollowFrame, Purpose, ReplicaConfig, RequestId};
use ohm_stdx::{Prng, hash};
use std::collections::BTreeMap;

/// What a run is made of. Everything else follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// How long faults strike, in virtual milliseconds.
    pub faults_ms: u64,
    /// How long the healed cell has to become quiet.
    pub quiet_ms: u64,
    /// Keep a readable trace.
    pub trace: bool,
}

impl Scenario {
    /// The usual lengths.
    pub fn of_seed(seed: u64) -> Self {
        Scenario { seed, faults_ms: 40_000, quiet_ms: 75_000, trace: false }
    }
}

/// To the server.
#[derive(Debug)]
pub(crate) enum Up {
    Append { ticket: u64, commands: Vec<Bytes> },
    Follow { from: Index },
    Acknowledge { bytes: usize },
    Register { spec: NodeSpec, key: u64, instance: u64, boot: u64 },
    Beats(Vec<Beat>),
    Reports { node: NodeId, batch: u64, reports: Vec<RunReport> },
    Duty(SessionId),
    Answers(Vec<(NodeId, BeatAnswer)>),
    Command { request: u64, command: Command },
}

/// From the server.
#[derive(Debug)]
pub(crate) enum Down {
    Appended { ticket: u64, result: AppendResult },
    Frame(FollowFrame),
    Order(AgentOrder),
    Beats(Vec<Beat>),
    Done { request: u64, result: AppendResult },
}

#[derive(Debug)]
pub(crate) enum Event {
    Tick(Victim),
    Flush { starts: u64 },
    ToServer { connection: u64, up: Up },
    FromServer { connection: u64, down: Down },
    Connect(Victim),
    ProcessLoses { victim: Victim, connection: u64 },
    ServerLoses { connection: u64 },
    Strike(usize),
    Restart(Victim),
    Driver { node: usize },
    Wake(Victim),
    Encoded { starts: u64, purpose: Purpose, index: Index, pieces: Vec<Bytes> },
}

/// One direction of a cut: nothing of this process passes until then.
pub(crate) struct Connection {
    pub(crate) victim: Victim,
    /// The server's start it belongs to.
    pub(crate) server_starts: u64,
    /// Commands sent and not answered, so that outcomes find their envelopes.
    pub(crate) tickets: BTreeMap<u64, Vec<ohm_model::Envelope>>,
    pub(crate) next_ticket: u64,
}

/// A cell in virtual time.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) dice: Prng,
    pub(crate) network: NetworkFaults,
    pub(crate) links: Links,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) next_connection: u64,
    pub(crate) cut_until_ms: BTreeMap<(u8, usize), u64>,
    pub(crate) server: ServerProcess,
    pub(crate) schedulers: Vec<SchedulerProcess>,
    pub(crate) health: Vec<HealthProcess>,
    pub(crate) nodes: Vec<NodeProcess>,
    pub(crate) clients: Vec<ClientProcess>,
    pub(crate) requests: BTreeMap<RequestId, (u64, u64)>,
    pub(crate) next_request: u64,
    pub(crate) driver_planned: BTreeMap<usize, u64>,
    pub(crate) faults: Vec<(u64, Fault)>,
    /// What waits for processes that stand still.
    pub(crate) held: BTreeMap<(u8, usize), std::collections::VecDeque<Event>>,
    pub(crate) healed: bool,
    pub(crate) node_lease_ms: u64,
    pub(crate) oracle: Oracle,
    pub(crate) history: Vec<Record>,
    pub(crate) digest: u64,
    pub(crate) report: Report,
    pub(crate) trace: std::collections::VecDeque<String>,
    pub(crate) failed: Option<String>,
}

/// Runs a scenario from its seed.
pub fn run(scenario: Scenario) -> Report {
    World::new(scenario).run()
}

impl World {
    /// The world before its first moment.
    pub fn new(scenario: Scenario) -> Self {
        let mut dice = Prng::new(hash::mix(scenario.seed));
        let drift_ppm = [0, 200, 4_000][dice.below(3) as usize];
        let node_count = dice.between(1, 7) as usize;
        let clock = |dice: &mut Prng| Clock::drawn(dice, drift_ppm);
        let replica = ReplicaConfig {
            snapshot_every_entries: dice.between(20, 800),
            kept_bytes_max: if dice.chance(300) { 4 << 10 } else { 4 << 20 },
            ..ReplicaConfig::default()
        };
        let server = ServerProcess::new(clock(&mut dice), replica);
        let mut schedulers = Vec::new();
        for class in Class::ALL {
            for _ in 0..1 + usize::from(dice.chance(400)) {
                schedulers.push(SchedulerProcess { shell: Shell::new(clock(&mut dice)), class, core: None });
            }
        }
        let health =
            (0..2).map(|_| HealthProcess { shell: Shell::new(clock(&mut dice)), session: None, core: None }).collect();
        let stop_ms = dice.below(1_500);
        let nodes = (0..node_count)
            .map(|number| {
                let spec = workload::node(&mut dice, number);
                let key = dice.u64();
                NodeProcess::new(spec, clock(&mut dice), key, stop_ms)
            })
            .collect();
        let jobs = dice.between(3, 40);
        let clients = (0..2)
            .map(|_| ClientProcess {
                shell: Shell::new(clock(&mut dice)),
                next_at_ms: dice.between(100, 3_000),
                submitted: Vec::new(),
                open: BTreeMap::new(),
                next_request: 1,
                left: jobs,
            })
            .collect();
        let population = Population { schedulers: schedulers.len(), health: 2, nodes: node_count, clients: 2 };
        let faults = faults::draw(&mut dice, population, scenario.faults_ms);
        let network = NetworkFaults::drawn(&mut dice);
        World {
            scenario,
            agenda: Agenda::default(),
            network,
            links: Links::default(),
            connections: BTreeMap::new(),
            next_connection: 1,
            cut_until_ms: BTreeMap::new(),
            server,
            schedulers,
            health,
            nodes,
            clients,
            requests: BTreeMap::new(),
            next_request: 1,
            driver_planned: BTreeMap::new(),
            faults,
            held: BTreeMap::new(),
            healed: false,
            node_lease_ms: 8_000,
            oracle: Oracle::default(),
            history: Vec::new(),
            digest: 0,
            report: Report { seed: scenario.seed, ..Report::default() },
            trace: std::collections::VecDeque::new(),
            failed: None,
            dice,
        }
    }

    fn run(mut self) -> Report {
        self.begin();
        self.run_until(self.scenario.faults_ms);
        self.heal();
        self.run_until(self.scenario.faults_ms + self.scenario.quiet_ms);
        self.judge_quiet();
        self.oracle.finish();
        self.report.broken.extend(self.oracle.broken().iter().cloned());
        self.report.virtual_ms = self.agenda.now_ms();
        if let Some(core) = self.server.core() {
            self.digest = hash::chain(self.digest, core.replica().cell().digest());
        }
        self.report.digest = self.digest;
        if self.scenario.trace || !self.report.broken.is_empty() {
            self.report.trace = self.trace.into_iter().collect();
        }
        self.report
    }

    fn begin(&mut self) {
        let mut dice = self.dice.fork();
        if let Err(reason) = self.server.start(&mut dice) {
            self.failed = Some(reason);
        }
        self.agenda.at(0, Event::Tick(Victim::Server));
        for number in 0..self.faults.len() {
            self.agenda.at(self.faults[number].0, Event::Strike(number));
        }
        for victim in self.everybody() {
            let at_ms = self.dice.below(300);
            self.agenda.at(at_ms, Event::Restart(victim));
            self.agenda.at(at_ms, Event::Tick(victim));
        }
    }

    /// Everybody but the server.
    pub(crate) fn everybody(&self) -> Vec<Victim> {
        let schedulers = (0..self.schedulers.len()).map(Victim::Scheduler);
        let health = (0..self.health.len()).map(Victim::Health);
        let nodes = (0..self.nodes.len()).map(Victim::Node);
        let clients = (0..self.clients.len()).map(Victim::Client);
        schedulers.chain(health).chain(nodes).chain(clients).collect()
    }

    fn run_until(&mut self, until_ms: u64) {
        while self.failed.is_none()
            && let Some(event) = self.agenda.next(until_ms)
        {
            match self.target_of(&event) {
                Some(victim) if self.must_wait(victim) => self.hold(victim, event),
                _ => {
                    self.happen(event);
                    self.settle();
                }
            }
        }
        if let Some(reason) = self.failed.take() {
            self.note(|| format!("failed: {reason}"));
            self.report.broken.push(Broken { promise: "P3", what: reason });
        }
    }

    /// Whom the event is for, if it waits while that one stands still.
    fn target_of(&self, event: &Event) -> Option<Victim> {
        match event {
            Event::Tick(victim) | Event::Connect(victim) | Event::ProcessLoses { victim, .. } => Some(*victim),
            Event::ToServer { .. } | Event::Flush { .. } | Event::ServerLoses { .. } | Event::Encoded { .. } => {
                Some(Victim::Server)
            }
            Event::FromServer { connection, .. } => self.connections.get(connection).map(|known| known.victim),
            Event::Strike(_) | Event::Restart(_) | Event::Driver { .. } | Event::Wake(_) => None,
        }
    }

    fn paused_until_ms(&self, victim: Victim) -> u64 {
        match victim {
            Victim::Server => self.server.paused_until_ms,
            Victim::Scheduler(number) => self.schedulers[number].shell.paused_until_ms,
            Victim::Health(number) => self.health[number].shell.paused_until_ms,
            Victim::Node(number) => self.nodes[number].paused_until_ms,
            Victim::Client(number) => self.clients[number].shell.paused_until_ms,
        }
    }

    fn must_wait(&self, victim: Victim) -> bool {
        self.paused_until_ms(victim) > self.agenda.now_ms() || self.held.contains_key(&place_of(victim))
    }

    /// What arrives at a process that stands still waits in order, as in its sockets.
    fn hold(&mut self, victim: Victim, event: Event) {
        let held = self.held.entry(place_of(victim)).or_default();
        if held.is_empty() {
            let until_ms = self.paused_until_ms(victim);
            self.agenda.at(until_ms, Event::Wake(victim));
        }
        self.held.entry(place_of(victim)).or_default().push_back(event);
    }

    fn wake(&mut self, victim: Victim) {
        let until_ms = self.paused_until_ms(victim);
        if until_ms > self.agenda.now_ms() {
            return self.agenda.at(until_ms, Event::Wake(victim));
        }
        for event in self.held.remove(&place_of(victim)).unwrap_or_default() {
            self.happen(event);
            self.settle();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(victim) => self.tick(victim),
            Event::Flush { starts } => self.flush(starts),
            Event::ToServer { connection, up } => self.reach_server(connection, up),
            Event::FromServer { connection, down } => self.reach_process(connection, down),
            Event::Connect(victim) => self.connect(victim),
            Event::ProcessLoses { victim, connection } => self.process_loses(victim, connection),
            Event::ServerLoses { connection } => self.server_loses(connection),
            Event::Strike(number) => self.strike(number),
            Event::Restart(victim) => self.restart(victim),
            Event::Wake(victim) => self.wake(victim),
            Event::Driver { node } => self.run_driver(node),
            Event::Encoded { starts, purpose, index, pieces } => {
                if starts == self.server.starts {
                    self.step_server(ohm_replica::ServerInput::Encoded { purpose, index, pieces });
                }
            }
        }
    }

    /// Hands the history on to the oracle and mixes it into the digest.
    fn settle(&mut self) {
        let records = std::mem::take(&mut self.history);
        for record in &records {
            self.digest = hash::chain(self.digest, hash::bytes(summary(record).as_bytes()));
            match record {
                Record::Began { .. } => self.report.began += 1,
                Record::Acknowledged { .. } => self.report.acknowledged += 1,
                _ => {}
            }
            self.note(|| summary(record));
            self.oracle.watch(record);
        }
        if !self.oracle.broken().is_empty() && self.failed.is_none() {
            self.failed = Some("a promise broke; the run ends here".into());
        }
    }

    /// Keeps the last things that happened, for people.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        const KEPT: usize = 400;
        let now_ms = self.agenda.now_ms();
        self.trace.push_back(format!("{now_ms:>8} {}", text()));
        if !self.scenario.trace && self.trace.len() > KEPT {
            self.trace.pop_front();
        }
    }

    /// What is stuck stays so: two looks, some seconds apart, must show the same job with no attempt in between.
    fn judge_quiet(&mut self) {
        const BETWEEN_MS: u64 = 6_000;
        let first = self.stuck();
        self.run_until(self.agenda.now_ms() + BETWEEN_MS);
        if !self.report.broken.is_empty() {
            return;
        }
        let still =
            |stuck: &Stuck| first.iter().any(|early| (early.job, early.attempts) == (stuck.job, stuck.attempts));
        let mut broken: Vec<Broken> = self.stuck().into_iter().filter(still).map(|stuck| stuck.broken).collect();
        let Some(core) = self.server.core() else { return };
        for (node, record) in core.replica().cell().nodes().iter() {
            if record.health != ohm_model::NodeHealth::Ready {
                let what = format!("node {} ({node}) is still {:?}", record.spec.name, record.health);
                broken.push(Broken { promise: "P10", what });
            }
        }
        self.report.broken.extend(broken);
    }

    fn stuck(&self) -> Vec<Stuck> {
        self.server.core().map_or_else(Vec::new, |core| stuck_jobs(core.replica().cell()))
    }

    /// When a message sent now over `connection` arrives; nothing when it is lost with its connection.
    pub(crate) fn arrival_ms(&mut self, connection: u64, upwards: bool) -> Option<u64> {
        let victim = self.connections.get(&connection)?.victim;
        if self.is_cut(victim) {
            return None;
        }
        let link = Link { connection, upwards };
        self.links.arrival_ms(self.agenda.now_ms(), link, &self.network, &mut self.dice)
    }

    pub(crate) fn is_cut(&self, victim: Victim) -> bool {
        self.cut_until_ms.get(&place_of(victim)).is_some_and(|until_ms| *until_ms > self.agenda.now_ms())
    }
}

pub(crate) fn place_of(victim: Victim) -> (u8, usize) {
    match victim {
        Victim::Server => (0, 0),
        Victim::Scheduler(number) => (1, number),
        Victim::Health(number) => (2, number),
        Victim::Node(number) => (3, number),
        Victim::Client(number) => (4, number),
    }
}

/// One record in a line; entries by index and hash, because they are long.
fn summary(record: &Record) -> String {
    match record {
        Record::Applied { copy, index, chain, applied, .. } => {
            let kinds: Vec<String> = applied.events.iter().map(|event| format!("{:?}", event.kind)).collect();
            format!("{copy} applied {index} ({chain:016x}): {}", kinds.join("; "))
        }
        Record::Copied { copy, index, chain } => format!("{copy} copied {index} ({chain:016x})"),
        Record::Acknowledged { job, .. } => format!("acknowledged {job}"),
        Record::Began { at_ms, node, run, .. } => format!("{run} began on {node} at {at_ms}"),
        Record::Over { at_ms, node, run } => format!("{run} over on {node} at {at_ms}"),
    }
}
