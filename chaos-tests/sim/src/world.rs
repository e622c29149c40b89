//! The world: everybody in one cell, their network, their clocks, and what goes wrong.

mod aim;
mod begin;
mod deliver;
mod disks;
mod end;
mod operator;
mod outside;
mod people;
mod reads;
mod reasons;
mod records;
mod server_effects;
mod steps;
mod strike;

use crate::agenda::Agenda;
use crate::faults::{Fault, Victim, Way};
use crate::knobs::Knobs;
use crate::links::{self, Link, Links, NetworkFaults};
use crate::mischief::Mischief;
use crate::node::NodeProcess;
use crate::report::Report;
use crate::roles::{ClientProcess, HealthProcess, ProvisionerProcess, SchedulerProcess, Shell};
use crate::scenario::Scenario;
use crate::server::ServerProcess;
use ohm_agent::BeatAnswer;
use ohm_log::Bytes;
use ohm_model::{
    Command, Epoch, Incarnation, Index, JobId, NodeCondition, NodeId, NodeSpec, RunRef, RunReport, SessionId,
};
use ohm_oracle::{Broken, Oracle, Record};
use ohm_provisioning::Answer;
use ohm_replica::{AgentOrder, AppendResult, Beat, FollowFrame, Purpose, RequestId};
use ohm_stdx::Prng;
use operator::Operator;
use outside::Outside;
use reads::Readers;
use std::collections::{BTreeMap, VecDeque};

/// To a server.
#[derive(Clone, Debug)]
pub(crate) enum Up {
    Append { ticket: u64, commands: Vec<Bytes> },
    Follow { from: Index },
    Acknowledge { bytes: usize },
    Register { spec: NodeSpec, key: u64, instance: u64, boot: u64, alive: Vec<RunRef> },
    Beats(Vec<Beat>),
    Reports { node: NodeId, batch: u64, reports: Vec<RunReport> },
    Conditions { node: NodeId, incarnation: Incarnation, number: u64, conditions: Vec<NodeCondition> },
    Duty(SessionId),
    Answers(Vec<(NodeId, BeatAnswer)>),
    Command { request: u64, command: Command },
}

/// From a server.
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
    Flush { server: usize, starts: u64 },
    ToServer { connection: u64, up: Up },
    FromServer { connection: u64, down: Down },
    Between { from: usize, to: usize, bytes: Bytes },
    Unreachable { from: usize, to: usize },
    Outside { victim: Victim, starts: u64, id: String, epoch: Epoch, answer: Answer },
    Operate,
    Read,
    Connect(Victim),
    ProcessLoses { victim: Victim, connection: u64 },
    ServerLoses { connection: u64, server: usize, starts: u64 },
    Strike(usize),
    Ask(usize),
    Finish(JobId),
    Restart(Victim),
    DiskRoom { server: usize, starts: u64 },
    DiskDeadline { server: usize, starts: u64 },
    Driver { node: usize },
    Wake(Victim),
    Encoded { server: usize, starts: u64, purpose: Purpose, index: Index, pieces: Vec<Bytes> },
}

/// A stream between a process and a server.
pub(crate) struct Connection {
    pub(crate) victim: Victim,
    pub(crate) server: usize,
    /// The server's start it belongs to.
    pub(crate) server_starts: u64,
    /// Commands sent and not answered, so that outcomes find their envelopes.
    pub(crate) tickets: BTreeMap<u64, Vec<ohm_model::Envelope>>,
    pub(crate) next_ticket: u64,
    /// The latest request of a person that came over it.
    pub(crate) last_request: u64,
}

/// A cell in virtual time.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) knobs: Knobs,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) dice: Prng,
    pub(crate) network: NetworkFaults,
    pub(crate) storm: (u64, u64),
    pub(crate) links: Links,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// Streams that are over, whose last messages may still arrive: their server and its start.
    pub(crate) late: BTreeMap<u64, (usize, u64)>,
    pub(crate) next_connection: u64,
    pub(crate) cuts: BTreeMap<Victim, (Way, u64)>,
    pub(crate) splits: BTreeMap<(usize, usize), u64>,
    pub(crate) servers: Vec<ServerProcess>,
    /// What the server that is being stepped sends leaves it only after so long.
    pub(crate) sending_delay_ms: u64,
    pub(crate) schedulers: Vec<SchedulerProcess>,
    pub(crate) health: Vec<HealthProcess>,
    pub(crate) provisioners: Vec<ProvisionerProcess>,
    pub(crate) outside: Outside,
    pub(crate) nodes: Vec<NodeProcess>,
    pub(crate) clients: Vec<ClientProcess>,
    pub(crate) operator: Operator,
    pub(crate) readers: Readers,
    pub(crate) requests: BTreeMap<(usize, RequestId), (u64, u64)>,
    pub(crate) next_request: u64,
    pub(crate) faults: Vec<(u64, Fault)>,
    pub(crate) asks: Vec<(u64, Command)>,
    /// Up to which entry was looked for something to aim at.
    pub(crate) aimed: Index,
    /// What waits for processes that stand still.
    pub(crate) held: BTreeMap<Victim, VecDeque<Event>>,
    pub(crate) healed: bool,
    pub(crate) mischief: Mischief,
    pub(crate) oracle: Oracle,
    pub(crate) history: Vec<Record>,
    pub(crate) digest: u64,
    pub(crate) report: Report,
    pub(crate) failed: Option<Broken>,
}

/// Runs a scenario from its seed.
pub fn run(scenario: &Scenario) -> Report {
    World::new(scenario.clone()).run()
}

impl World {
    fn run(mut self) -> Report {
        self.begin();
        self.run_until(self.knobs.faults_ms);
        self.heal();
        self.run_until(self.knobs.faults_ms + self.knobs.quiet_ms);
        self.finish()
    }

    /// Something that must not be.
    pub(crate) fn fail(&mut self, promise: &'static str, what: String) {
        self.failed.get_or_insert(Broken { promise, what });
    }

    /// Counts something that went wrong.
    pub(crate) fn count(&mut self, kind: &'static str) {
        *self.report.faults.entry(kind).or_insert(0) += 1;
    }

    fn run_until(&mut self, until_ms: u64) {
        while self.failed.is_none()
            && self.report.broken.is_empty()
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
        if let Some(broken) = self.failed.take() {
            self.note(|| broken.to_string());
            self.report.broken.push(broken);
        }
    }

    /// Whom the event is for, if it waits while that one stands still.
    fn target_of(&self, event: &Event) -> Option<Victim> {
        let server_of = |connection: &u64| {
            let known = self.connections.get(connection).map(|known| known.server);
            known.or_else(|| self.late.get(connection).map(|(server, _)| *server)).map(Victim::Server)
        };
        match event {
            Event::Tick(victim)
            | Event::Connect(victim)
            | Event::ProcessLoses { victim, .. }
            | Event::Outside { victim, .. } => Some(*victim),
            Event::Flush { server, .. } | Event::ServerLoses { server, .. } | Event::Encoded { server, .. } => {
                Some(Victim::Server(*server))
            }
            Event::Between { to, .. } => Some(Victim::Server(*to)),
            Event::Unreachable { from, .. } => Some(Victim::Server(*from)),
            Event::ToServer { connection, .. } => server_of(connection),
            Event::FromServer { connection, .. } => self.connections.get(connection).map(|known| known.victim),
            _ => None,
        }
    }

    pub(crate) fn paused_until_ms(&self, victim: Victim) -> u64 {
        match victim {
            Victim::Server(number) => self.servers[number].paused_until_ms,
            Victim::Scheduler(number) => self.schedulers[number].shell.paused_until_ms,
            Victim::Health(number) => self.health[number].shell.paused_until_ms,
            Victim::Provisioner(number) => self.provisioners[number].shell.paused_until_ms,
            Victim::Node(number) => self.nodes[number].paused_until_ms,
            Victim::Client(number) => self.clients[number].shell.paused_until_ms,
        }
    }

    fn must_wait(&self, victim: Victim) -> bool {
        self.paused_until_ms(victim) > self.agenda.now_ms() || self.held.contains_key(&victim)
    }

    /// What arrives at a process that stands still waits in order, as in its sockets.
    fn hold(&mut self, victim: Victim, event: Event) {
        let until_ms = self.paused_until_ms(victim);
        let held = self.held.entry(victim).or_default();
        if held.is_empty() {
            self.agenda.at(until_ms, Event::Wake(victim));
        }
        held.push_back(event);
    }

    fn wake(&mut self, victim: Victim) {
        while self.held.contains_key(&victim) {
            let until_ms = self.paused_until_ms(victim);
            if until_ms > self.agenda.now_ms() {
                return self.agenda.at(until_ms, Event::Wake(victim));
            }
            let Some(held) = self.held.get_mut(&victim) else { return };
            match held.pop_front() {
                Some(event) => {
                    self.happen(event);
                    self.settle();
                }
                None => drop(self.held.remove(&victim)),
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(victim) => self.tick(victim),
            Event::Flush { server, starts } => self.flush(server, starts),
            Event::ToServer { connection, up } => self.reach_server(connection, up),
            Event::FromServer { connection, down } => self.reach_process(connection, down),
            Event::Between { from, to, bytes } => self.reach_peer(from, to, bytes),
            Event::Unreachable { from, to } => self.miss_peer(from, to),
            Event::Outside { victim, starts, id, epoch, answer } => {
                self.outside_answers(victim, starts, (id, epoch, answer));
            }
            Event::Operate => self.operate(),
            Event::Read => self.read(),
            Event::Connect(victim) => self.connect(victim),
            Event::ProcessLoses { victim, connection } => self.process_loses(victim, connection),
            Event::ServerLoses { connection, server, starts } => self.server_loses(connection, server, starts),
            Event::Strike(number) => self.strike(number),
            Event::Ask(number) => self.ask_scripted(number),
            Event::Finish(job) => self.finish_tasks(job),
            Event::Restart(victim) => self.restart(victim),
            Event::DiskRoom { server, starts } => self.give_disk_room(server, starts),
            Event::DiskDeadline { server, starts } => self.end_doomed(server, starts),
            Event::Wake(victim) => self.wake(victim),
            Event::Driver { node } => self.run_driver(node),
            Event::Encoded { server, starts, purpose, index, pieces } => {
                if starts == self.servers[server].starts {
                    self.step_server(server, ohm_replica::ServerInput::Encoded { purpose, index, pieces });
                }
            }
        }
    }

    /// How long a message sent now is under way.
    pub(crate) fn way_ms(&mut self) -> u64 {
        let (times, until_ms) = self.storm;
        let times = if until_ms > self.agenda.now_ms() { times } else { 1 };
        links::way_ms(&self.network, times, &mut self.dice)
    }

    /// When a message sent now over the stream of `connection` arrives; nothing when it is lost with its stream.
    pub(crate) fn arrival_ms(&mut self, connection: u64, upwards: bool) -> Option<u64> {
        let Connection { victim, server, .. } = *self.connections.get(&connection)?;
        if self.is_cut(victim, server, upwards) {
            return None;
        }
        if self.breaks() {
            self.count("stream broken");
            return None;
        }
        let (way_ms, now_ms) = (self.way_ms() + self.sending_delay_ms, self.agenda.now_ms());
        Some(self.links.arrival_ms(now_ms, Link::Stream { connection, upwards }, way_ms))
    }

    /// Whether the stream over which a message leaves breaks under it.
    pub(crate) fn breaks(&mut self) -> bool {
        self.network.break_per_100000 > 0 && self.dice.below(100_000) < self.network.break_per_100000
    }

    /// Whether a cut keeps messages between this process and this server from passing in this direction.
    pub(crate) fn is_cut(&self, victim: Victim, server: usize, upwards: bool) -> bool {
        self.is_cut_off(victim, upwards) || self.is_cut_off(Victim::Server(server), upwards)
    }

    /// Whether nothing passes from one server to another.
    pub(crate) fn is_cut_between(&self, from: usize, to: usize) -> bool {
        let split_until_ms = self.splits.get(&(from, to)).copied().unwrap_or(0);
        split_until_ms > self.agenda.now_ms()
            || self.is_cut_off(Victim::Server(from), false)
            || self.is_cut_off(Victim::Server(to), true)
    }

    fn is_cut_off(&self, victim: Victim, upwards: bool) -> bool {
        let Some(&(way, until_ms)) = self.cuts.get(&victim) else { return false };
        let this_way = way == Way::Both || (way == Way::Up) == upwards;
        this_way && until_ms > self.agenda.now_ms()
    }

    pub(crate) fn shell_of(&mut self, victim: Victim) -> Option<&mut Shell> {
        match victim {
            Victim::Scheduler(number) => Some(&mut self.schedulers[number].shell),
            Victim::Health(number) => Some(&mut self.health[number].shell),
            Victim::Provisioner(number) => Some(&mut self.provisioners[number].shell),
            Victim::Client(number) => Some(&mut self.clients[number].shell),
            Victim::Server(_) | Victim::Node(_) => None,
        }
    }
}
