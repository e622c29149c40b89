//! A cell with a router in front of it.

use super::super::{HttpOptions, router};
use crate::handle::{Question, ReplicaHandle, Servers, Unanswered};
use crate::log_readers::LogPiece;
use crate::log_readers::{AgentOutlet, LogReaders};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use ohm_cell::{Applied, Cell};
use ohm_log::{MemberChange, Members};
use ohm_model::{
    Actor, Amounts, Asked, Command, Entry, Envelope, Epoch, Exit, Grain, GroupIndex, Index, JobGuard, JobId, Lease,
    NodeSpec, Outcome, Placement, Role, RunRef, RunReport, RunReportKind, Sequence, SessionId, TaskIndex, Transaction,
};
use ohm_replica::{ChangeFailure, EventRing, Peer, TimeView};
use ohm_runtime::background::Background;
use ohm_wire::{AgentDown, LogPiece as WirePiece, ReadLog, agent_down};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

pub(super) const TOKEN: &str = "of-the-test";
/// How many events the world remembers.
pub(super) const EVENTS_MAX: usize = 100;

/// What the loop owns.
pub(super) struct Truth {
    pub(super) cell: Cell,
    pub(super) events: EventRing,
    applied: watch::Sender<Index>,
    sequences: BTreeMap<SessionId, u64>,
    people: SessionId,
    /// Answers to commands that fail instead of being applied, last one first.
    pub(super) failures: Vec<Unanswered>,
    pub(super) commands: usize,
    /// On whose behalf each command came.
    pub(super) actors: Vec<Actor>,
    /// The servers whose clocks a person believes.
    pub(super) believed: Vec<u64>,
    /// Reads that were asked to see everything acknowledged, and answers to those that fail, last one first.
    pub(super) reads: usize,
    pub(super) read_failures: Vec<Unanswered>,
    logs: BTreeMap<RunRef, Vec<LogPiece>>,
    /// Towards the agent of every node.
    agent: mpsc::Sender<AgentDown>,
}

impl Truth {
    /// Applies one command, stamped one second after the last.
    fn apply(&mut self, session: SessionId, asked: impl Into<Asked>) -> (Index, Outcome) {
        let asked = asked.into();
        let envelope = match session.0 {
            0 => Envelope::without_session(asked.command),
            _ => {
                let sequence = self.sequences.entry(session).or_insert(0);
                *sequence += 1;
                Envelope::new(session, Sequence(*sequence), Sequence(*sequence), asked)
            }
        };
        let index = Index(self.cell.applied().0 + 1);
        let mut applied = Applied::default();
        let entry = Entry { stamp_ms: 1000 * index.0, commands: vec![envelope] };
        self.cell.apply(index, &entry, &mut applied);
        self.events.extend(&applied.events);
        self.applied.send_replace(index);
        (index, applied.outcomes.remove(0))
    }

    pub(super) fn open(&mut self, role: Role, name: &str) -> SessionId {
        let nonce = self.cell.applied().0 + 77;
        match self.apply(SessionId(0), Command::OpenSession { nonce, role, name: name.into() }) {
            (_, Outcome::Session(session)) => session,
            other => panic!("no session: {other:?}"),
        }
    }

    pub(super) fn person(&mut self, command: Command) -> Outcome {
        self.apply(self.people, command).1
    }

    /// What the agent does about a reader; no test has more pieces than the first credit.
    fn read_log(&self, order: &ReadLog, readers: &LogReaders) {
        let run = RunRef::new(JobId(order.job), order.group as u16, order.task, order.incarnation);
        let pieces = self.logs.get(&run).cloned();
        let pieces = pieces.unwrap_or_else(|| vec![Err("there is no such file".to_string())]);
        for piece in pieces.into_iter().map(Some).chain([None]) {
            let (data, last, error) = match piece {
                Some(Ok(data)) => (data, false, String::new()),
                Some(Err(error)) => (Bytes::new(), true, error),
                None => (Bytes::new(), true, String::new()),
            };
            readers.pass(WirePiece { request: order.request, data, last, error });
        }
    }

    fn answer(&mut self, question: Question) {
        match question {
            Question::Cell(answer) => drop(answer.send(Arc::new(self.cell.clone()))),
            Question::Command(asked, answer) => {
                self.commands += 1;
                self.actors.push(asked.actor.clone());
                let result = match self.failures.pop() {
                    Some(failure) => Err(failure),
                    None => Ok(self.apply(self.people, *asked)),
                };
                drop(answer.send(result));
            }
            Question::Events(index, answer) => {
                drop(answer.send(self.events.page(index)));
            }
            Question::Read(answer) => {
                self.reads += 1;
                drop(answer.send(self.read_failures.pop().map_or(Ok(()), Err)));
            }
            Question::ChangeMembers(change, answer) => {
                let result = match change {
                    MemberChange::Remove { member: 2 } => Ok(2),
                    _ => Err(ChangeFailure { again: false, reason: "it is the last voter".into() }),
                };
                drop(answer.send(result));
            }
            Question::Transfer(_) => {}
            Question::BelieveClock(server) => self.believed.push(server),
            Question::Servers(answer) => {
                let members = Members { voters: vec![1, 2], learners: vec![3], ..Members::default() };
                let addresses = [(1, "http://one".to_string())].into();
                let time = Some(TimeView { stamp_ms: 5, offsets_ms: vec![(1, -3), (2, 86_400_000)] });
                let known = Servers { here: 1, leader: Some(2), members, addresses, time, ..Servers::default() };
                drop(answer.send(known));
            }
            Question::AgentOf(_, answer) => {
                let outlet = AgentOutlet { peer: Peer(1), orders: self.agent.downgrade() };
                drop(answer.send(Some(outlet)));
            }
        }
    }
}

/// A router and the cell behind it.
pub(super) struct World {
    pub(super) router: Router,
    pub(super) truth: Arc<Mutex<Truth>>,
    /// One thread.
    pub(super) background: Arc<Background>,
}

impl World {
    pub(super) fn new() -> Self {
        World::with(|_| {})
    }

    /// A world whose router has other options.
    pub(super) fn with(change: impl FnOnce(&mut HttpOptions)) -> Self {
        let (applied, applied_reader) = watch::channel(Index(0));
        let (agent, mut orders) = mpsc::channel(64);
        let mut truth = Truth {
            cell: Cell::new(),
            events: EventRing::new(EVENTS_MAX),
            applied,
            sequences: BTreeMap::new(),
            people: SessionId(0),
            failures: Vec::new(),
            commands: 0,
            actors: Vec::new(),
            believed: Vec::new(),
            reads: 0,
            read_failures: Vec::new(),
            logs: BTreeMap::new(),
            agent,
        };
        truth.people = truth.open(Role::Server, "server 1");
        let truth = Arc::new(Mutex::new(truth));
        let (questions, mut asked) = mpsc::channel(64);
        let answering = Arc::clone(&truth);
        tokio::spawn(async move {
            while let Some(question) = asked.recv().await {
                answering.lock().unwrap().answer(question);
            }
        });
        let log_readers = Arc::<LogReaders>::default();
        let (reading, files) = (Arc::clone(&log_readers), Arc::clone(&truth));
        tokio::spawn(async move {
            while let Some(order) = orders.recv().await {
                if let Some(agent_down::Kind::ReadLog(order)) = order.kind {
                    files.lock().unwrap().read_log(&order, &reading);
                }
            }
        });
        let mut options = HttpOptions::new("127.0.0.1:6460".parse().unwrap(), Some(TOKEN.into()));
        change(&mut options);
        let background = Arc::new(Background::start(1).unwrap());
        let router = router(
            ReplicaHandle { questions, applied: applied_reader, log_readers, log_relay: Arc::default() },
            Arc::clone(&background),
            options,
        );
        World { router, truth, background }
    }

    pub(super) fn node(&self, name: &str, cpus: i64) {
        let capacity: Amounts = [("cpu".into(), 1000 * cpus), ("memory".into(), 8 << 30), ("pods".into(), 100)].into();
        let labels = [("rack".to_string(), "r1".to_string())].into();
        let spec = NodeSpec { name: name.into(), labels, taints: vec![], capacity, address: "127.1.0.1".into() };
        let key = name.bytes().fold(7, |key, byte| key * 31 + u64::from(byte));
        let outcome = self.truth.lock().unwrap().person(Command::RegisterNode {
            spec,
            key,
            instance: 1,
            boot: 1,
            alive: Vec::new(),
        });
        assert!(matches!(outcome, Outcome::Node { .. }), "{outcome:?}");
    }

    /// Places the tasks of a job without a queue on a node and reports the first one to run.
    pub(super) fn run(&self, job: &str, node: &str) -> RunRef {
        let count = self.truth.lock().unwrap().cell.jobs().find(job).unwrap().spec.groups[0].count;
        self.place(job, (0, count), node)
    }

    /// Places so many tasks of a job without a queue on a node, and reports the first of them to run.
    pub(super) fn place(&self, job: &str, (first, count): (u32, u32), node: &str) -> RunRef {
        let mut truth = self.truth.lock().unwrap();
        let found = Arc::clone(truth.cell.jobs().find(job).unwrap());
        let scheduler = truth.open(Role::Scheduler(found.spec.class), "scheduler 1");
        let lease = Lease::Shard(found.shard);
        let state = truth.cell.sessions().lease(lease);
        let take = Command::TakeLease { lease, epoch: state.epoch, renewed: state.renewed };
        assert_eq!(truth.apply(scheduler, take).1, Outcome::Lease(Epoch(state.epoch.0 + 1)));
        let node = truth.cell.nodes().find(node).unwrap();
        let transaction = Transaction {
            jobs: vec![JobGuard { job: found.id, version: found.version, reserved: false }],
            place: vec![Placement {
                job: found.id,
                group: GroupIndex(0),
                first: TaskIndex(first),
                count,
                node,
                class: truth.cell.nodes().class(node),
                devices: vec![],
            }],
            ..Transaction::empty(found.shard, Epoch(state.epoch.0 + 1), truth.cell.applied(), Grain::PerTask)
        };
        let (_, outcome) = truth.apply(scheduler, Command::Commit(transaction));
        assert!(matches!(&outcome, Outcome::Verdict(verdict) if verdict.conflicts.is_empty()), "{outcome:?}");
        truth.apply(scheduler, Command::CloseSession);
        let incarnation = truth.cell.jobs().find(job).unwrap().groups[0].tasks[first as usize].incarnation.0;
        let run = RunRef::new(found.id, 0, first, incarnation);
        truth.report(node, run, RunReportKind::Started { pid: 4711 });
        run
    }

    /// The log looks at the time, so often, once a second.
    pub(super) fn ticks(&self, times: u64) {
        let mut truth = self.truth.lock().unwrap();
        (0..times).for_each(|_| drop(truth.apply(SessionId(0), Command::Tick)));
    }

    /// Reports the first task of a job to have ended.
    pub(super) fn end(&self, run: RunRef, node: &str, exit: Exit) {
        let mut truth = self.truth.lock().unwrap();
        let node = truth.cell.nodes().find(node).unwrap();
        truth.report(node, run, RunReportKind::Ended { exit, message: String::new() });
    }

    pub(super) fn log(&self, run: RunRef, pieces: Vec<LogPiece>) {
        self.truth.lock().unwrap().logs.insert(run, pieces);
    }

    /// The answer to a request, as it comes.
    pub(super) async fn raw(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// The answer to a well-behaved request.
    pub(super) async fn ask(&self, method: &str, path: &str, content_type: &str, body: Body) -> Response<Body> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:6460")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("ohm-owner", "ada")
            .header("content-type", content_type);
        self.raw(request.body(body).unwrap()).await
    }

    /// The status and the JSON of an answer.
    pub(super) async fn send(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (StatusCode, Value) {
        let response = self.ask(method, path, content_type, Body::from(body.to_vec())).await;
        let status = response.status();
        (status, serde_json::from_slice(&read(response).await).unwrap_or(Value::Null))
    }

    pub(super) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send("GET", path, "application/json", b"").await
    }

    /// A page that is no JSON.
    pub(super) async fn page(&self, path: &str) -> String {
        let response = self.ask("GET", path, "application/json", Body::empty()).await;
        String::from_utf8(read(response).await).unwrap()
    }

    pub(super) async fn submit(&self, yaml: &str) -> (StatusCode, Value) {
        self.send("POST", "/v1/submit", "application/yaml", yaml.as_bytes()).await
    }
}

impl Truth {
    fn report(&mut self, node: ohm_model::NodeId, run: RunRef, kind: RunReportKind) {
        self.person(Command::Report { node, reports: vec![RunReport { run, kind }] });
    }
}

pub(super) async fn read(response: Response<Body>) -> Vec<u8> {
    to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()
}

/// A job document of one group.
pub(super) fn job(name: &str, rest: &str) -> String {
    format!("apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{command: [work]{rest}}}\n")
}
