//! A server that knows one node: it registers it, answers its beats, wants runs of it, and hears its reports.

use ohm_agent::{Launch, WantedRun, WantedSet};
use ohm_model::{Incarnation, Index, JobId, OnDisconnect, Probes, RunRef, RunReport, RunReportKind, TaskSpec};
use ohm_runtime::test_server::{Replies, TestServer, serve};
use ohm_wire::{
    AgentDown, AgentUp, BeatAnswer, BeatAnswers, LogPiece, MoreLog, ReadLog, Registered, ReportsTaken, WantedRuns,
    agent_down, agent_up, read, write,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

#[derive(Default)]
pub(crate) struct State {
    pub(crate) registrations: u32,
    pub(crate) reports: Vec<RunReport>,
    pub(crate) pieces: BTreeMap<u64, Vec<LogPiece>>,
    index: u64,
    wanted: BTreeMap<RunRef, WantedRun>,
    agent: Option<mpsc::Sender<Result<AgentDown, Status>>>,
}

impl State {
    fn say(&self, kind: agent_down::Kind) {
        if let Some(agent) = &self.agent {
            let _ = agent.try_send(Ok(AgentDown { kind: Some(kind) }));
        }
    }

    fn say_wanted(&mut self) {
        self.index += 1;
        let set = WantedSet {
            cell_incarnation: 1,
            node_incarnation: Incarnation(self.registrations),
            index: Index(self.index),
            runs: self.wanted.values().cloned().collect(),
        };
        self.say(agent_down::Kind::Wanted(WantedRuns { node: 1, set_bytes: write(&set) }));
    }

    fn hear(&mut self, message: AgentUp) {
        match message.kind {
            Some(agent_up::Kind::Register(register)) => {
                self.registrations += 1;
                let (local, instance, incarnation) = (register.local, register.instance, self.registrations);
                let refusal_bytes = bytes::Bytes::new();
                let registered = Registered { local, instance, node: 1, incarnation, refusal_bytes };
                self.say(agent_down::Kind::Registered(registered));
                self.say_wanted();
            }
            Some(agent_up::Kind::Beats(beats)) => {
                let answer = |beat: ohm_wire::Beat| BeatAnswer {
                    node: beat.node,
                    incarnation: beat.incarnation,
                    sequence: beat.sequence,
                    duty_epoch: 1,
                    interval_ms: 1000,
                    lease_ms: 10_000,
                };
                let answers = beats.beats.into_iter().map(answer).collect();
                self.say(agent_down::Kind::Answers(BeatAnswers { answers }));
            }
            Some(agent_up::Kind::Reports(batch)) => {
                let reports: Vec<RunReport> = read("reports", &batch.reports_bytes).unwrap();
                for report in &reports {
                    match &report.kind {
                        RunReportKind::Started { .. } => {
                            self.wanted.entry(report.run).and_modify(|wanted| wanted.started = true);
                        }
                        RunReportKind::Ready { ready, .. } => {
                            let ready = *ready;
                            self.wanted.entry(report.run).and_modify(|wanted| wanted.ready = ready);
                        }
                        RunReportKind::Ended { .. } => drop(self.wanted.remove(&report.run)),
                    }
                }
                self.reports.extend(reports);
                let index = self.index + 1;
                self.say(agent_down::Kind::Taken(ReportsTaken { node: batch.node, batch: batch.batch, index }));
                self.say_wanted();
            }
            // A reader that takes one piece at a time.
            Some(agent_up::Kind::Log(piece)) => {
                self.say(agent_down::Kind::MoreLog(MoreLog { request: piece.request, pieces: 1 }));
                self.pieces.entry(piece.request).or_default().push(piece);
            }
            Some(agent_up::Kind::Conditions(_)) | None => {}
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

impl Server {
    /// Serves on a port of its own.
    pub(crate) async fn start() -> (Server, String) {
        let server = Server::default();
        let address = serve(server.clone()).await.unwrap();
        (server, address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Wants a shell script to run as `task`.
    pub(crate) fn want(&self, task: u32, script: &str) -> RunRef {
        self.want_probed(task, script, None)
    }

    /// Wants a shell script to run as `task`, with probes.
    pub(crate) fn want_probed(&self, task: u32, script: &str, probes: Option<Box<Probes>>) -> RunRef {
        let probed = probes.clone().map(|probes| Arc::new(*probes));
        let task_spec = TaskSpec {
            probes,
            command: vec!["/bin/sh".into(), "-c".into(), script.into()],
            grace_ms: 3_000,
            ..TaskSpec::default()
        };
        let launch = Launch {
            job_name: "train".into(),
            group_name: "workers".into(),
            count: 9,
            peers: vec!["127.1.0.1".into(), String::new()],
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            on_disconnect: OnDisconnect::Stop,
            deadline_ms: 0,
            task: task_spec,
        };
        let run = RunRef::new(JobId(1), 0, task, 1);
        let wanted = WantedRun {
            run,
            started: false,
            stop: false,
            stop_delay_ms: 0,
            grace_ms_max: None,
            devices: BTreeMap::new(),
            peers: None,
            probes: probed,
            ready: false,
            launch: Some(Arc::new(launch)),
        };
        let mut state = self.state();
        state.wanted.insert(run, wanted);
        state.say_wanted();
        run
    }

    pub(crate) fn want_stop(&self, run: RunRef) {
        let mut state = self.state();
        state.wanted.entry(run).and_modify(|wanted| wanted.stop = true);
        state.say_wanted();
    }

    pub(crate) fn read_log(&self, request: u64, run: RunRef, follow: bool) {
        let task = run.task;
        self.state().say(agent_down::Kind::ReadLog(ReadLog {
            request,
            node: 1,
            job: task.job.0,
            group: u32::from(task.group.0),
            task: task.task.0,
            incarnation: run.incarnation.0,
            stderr: false,
            follow,
            tail_bytes: 0,
            tail_lines: None,
            credit: 1,
            client: 0,
        }));
    }

    /// The whole answer to a request, once it is complete: the output, or why there is none.
    pub(crate) fn log(&self, request: u64) -> Option<Result<String, String>> {
        let state = self.state();
        let pieces = state.pieces.get(&request).filter(|pieces| pieces.last().is_some_and(|piece| piece.last))?;
        if let Some(failed) = pieces.iter().find(|piece| !piece.error.is_empty()) {
            return Some(Err(failed.error.clone()));
        }
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.data.to_vec()).collect();
        Some(Ok(String::from_utf8(bytes).unwrap()))
    }

    pub(crate) fn kinds(&self, run: RunRef) -> Vec<RunReportKind> {
        let state = self.state();
        state.reports.iter().filter(|report| report.run == run).map(|report| report.kind.clone()).collect()
    }
}

#[tonic::async_trait]
impl TestServer for Server {
    async fn agent(&self, mut messages: Streaming<AgentUp>) -> Result<Replies<AgentDown>, Status> {
        let (sender, receiver) = mpsc::channel(1024);
        self.state().agent = Some(sender);
        let server = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                server.state().hear(message);
            }
        });
        Ok(ReceiverStream::new(receiver))
    }
}
