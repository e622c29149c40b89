//! What every simulated process acts on: time, the network, and the record of what happened.

mod messages;

use crate::agenda::Agenda;
use crate::clocks::Clock;
use crate::faults::{Fault, Victim, Way};
use crate::knobs::Knobs;
use crate::links::{Links, NetworkFaults};
use crate::mischief::Mischief;
use crate::outside::Outside;
use crate::readers::Readers;
use crate::report::Report;
use crate::workload::Stop;
use ohm_agent::BeatAnswer;
use ohm_log::Bytes;
use ohm_model::{
    Asked, Command, Envelope, Incarnation, Index, JobId, NodeCondition, NodeId, NodeSpec, RunRef, RunReport, SessionId,
};
use ohm_oracle::{Broken, Record};
use ohm_provisioning::Answered;
use ohm_replica::{AgentOrder, AppendResult, Beat, FollowFrame, Purpose, RequestId};
use ohm_stdx::Prng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

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
    Duty(SessionId, u64),
    Answers(Vec<(NodeId, BeatAnswer)>),
    Command { request: u64, asked: Asked },
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
    Outside { provisioner: usize, starts: u64, answered: Answered },
    Operate,
    Read,
    Connect(Victim),
    ProcessLoses { victim: Victim, connection: u64 },
    ServerLoses { connection: u64, server: usize, starts: u64 },
    Strike(Fault),
    TakeBack { node: usize },
    Ask(Box<Command>),
    Stop(Stop),
    Lift { until_ms: u64 },
    Finish(JobId),
    Restart(Victim),
    DiskRoom { server: usize, starts: u64 },
    DiskDeadline { server: usize, starts: u64 },
    Driver { node: usize },
    Wake(Victim),
    GoOn(Victim),
    Encoded { server: usize, starts: u64, purpose: Purpose, index: Index, pieces: Vec<Bytes> },
}

/// A stream between a process and a server.
pub(crate) struct Connection {
    pub(crate) victim: Victim,
    pub(crate) server: usize,
    /// The server's start it belongs to.
    pub(crate) server_starts: u64,
    /// Commands sent and not answered, so that outcomes find their envelopes.
    pub(crate) tickets: BTreeMap<u64, Vec<Envelope>>,
    pub(crate) next_ticket: u64,
    /// The latest request of a person that came over it.
    pub(crate) last_request: u64,
}

/// A node that was brought and joins the cell.
pub(crate) struct Newcomer {
    pub(crate) spec: NodeSpec,
    pub(crate) clock: Clock,
    pub(crate) key: u64,
}

/// Time, the network between the processes, and what happened.
pub(crate) struct Stage {
    pub(crate) knobs: Knobs,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) dice: Prng,
    pub(crate) network: NetworkFaults,
    pub(crate) storm: (u64, u64),
    pub(crate) links: Links,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// Streams that are over, whose last messages may still arrive: their server and its start.
    pub(crate) late: BTreeMap<u64, (usize, u64)>,
    next_connection: u64,
    next_request: u64,
    pub(crate) cuts: BTreeMap<Victim, (Way, u64)>,
    pub(crate) splits: BTreeMap<(usize, usize), u64>,
    /// What the process that is being stepped sends leaves it only after so long.
    pub(crate) sending_delay_ms: u64,
    pub(crate) outside: Outside,
    /// How many nodes there are, those included that join now.
    pub(crate) nodes: usize,
    pub(crate) newcomers: Vec<Newcomer>,
    pub(crate) readers: Readers,
    /// What the clocks of servers showed lately before they were set: when, whose, and how far ahead of real time.
    pub(crate) shown_clocks: Vec<(u64, usize, i64)>,
    pub(crate) mischief: Mischief,
    /// How many jobs the scheduler that is being stepped has planned.
    pub(crate) planned: Rc<Cell<u64>>,
    pub(crate) healed: bool,
    pub(crate) traces: bool,
    pub(crate) history: Vec<Record>,
    pub(crate) report: Report,
    pub(crate) failed: Option<Broken>,
}

impl Stage {
    /// An empty stage, before the first moment.
    pub(crate) fn new(dice: Prng, knobs: Knobs, network: NetworkFaults, report: Report, traces: bool) -> Self {
        Stage {
            agenda: Agenda::default(),
            network,
            storm: (1, 0),
            links: Links::default(),
            connections: BTreeMap::new(),
            late: BTreeMap::new(),
            next_connection: 1,
            next_request: 1,
            cuts: BTreeMap::new(),
            splits: BTreeMap::new(),
            sending_delay_ms: 0,
            outside: Outside::new(report.seed),
            nodes: knobs.nodes,
            newcomers: Vec::new(),
            readers: Readers::new(report.seed),
            shown_clocks: Vec::new(),
            mischief: Mischief::new(Cell::new(knobs.mischief_permille)),
            planned: Rc::default(),
            healed: false,
            traces,
            history: Vec::new(),
            report,
            failed: None,
            dice,
            knobs,
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.agenda.now_ms()
    }

    /// Something that must not be.
    pub(crate) fn fail(&mut self, promise: &'static str, what: String) {
        self.failed.get_or_insert(Broken { promise, what });
    }

    /// Counts something that went wrong.
    pub(crate) fn count(&mut self, kind: &'static str) {
        *self.report.faults.entry(kind).or_insert(0) += 1;
    }

    /// Writes a line of the trace.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.traces {
            let now_ms = self.now_ms();
            self.report.trace.push(format!("{:>5}.{:03} s  {}", now_ms / 1000, now_ms % 1000, text()));
        }
    }

    /// A person asks for `command` at `at_ms`.
    pub(crate) fn ask_at(&mut self, at_ms: u64, command: Command) {
        self.agenda.at(at_ms, Event::Ask(Box::new(command)));
    }

    /// A number that no request to a server has had.
    pub(crate) fn next_request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request - 1)
    }

    /// Opens a stream from a process to this start of a server.
    pub(crate) fn open_connection(&mut self, victim: Victim, server: usize, server_starts: u64) -> u64 {
        let connection = self.next_connection;
        self.next_connection += 1;
        let known =
            Connection { victim, server, server_starts, tickets: BTreeMap::new(), next_ticket: 1, last_request: 0 };
        self.connections.insert(connection, known);
        connection
    }

    /// Everything heals: the network is kind, and nobody errs any more.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.note(|| "nothing goes wrong from here on".to_string());
        self.network = NetworkFaults::calm();
        self.storm = (1, 0);
        self.mischief.set(0);
        self.cuts.clear();
        self.splits.clear();
    }
}
