//! The loop around the agent core: what servers and shim say goes in, what the core wants goes out, and time passes.

use super::checks::Found;
use super::key::NodeIdentity;
use super::link::{ARRIVALS_MAX, Arrival, Outlets};
use super::messages::{self, Order};
use super::prober::{Prober, RESULTS_MAX};
use super::readers::Readers;
use super::retention::{LogRetention, Retention};
use super::runner::{Orders, WORDS_MAX, Word};
use super::spec::Place;
use super::{AgentError, stop};
use crate::processes::Identity;
use crate::shim::{LeaseFile, NodeLease, Request};
use nix::sys::signal::Signal;
use ohm_agent::{AgentConfig, AgentCore, AgentEffect, AgentInput, RunnerEvent};
use ohm_model::{NodeSpec, RunRef};
use ohm_runtime::clock::boot_ms;
use ohm_runtime::dice;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::{AgentUp, write};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// The longest sleep, in milliseconds.
const SLEEP_MS_MAX: u64 = 1_000;
/// How long tasks may take to be gone beyond the longest grace of any of them, when the agent is told to end with them.
/// The shim goes on by itself after that.
const STOP_MARGIN: Duration = Duration::from_secs(30);
/// How long the last reports may take once the shim has ended.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);
/// Ended runs whose output waits to be counted; more are found at the next start.
const FORGOTTEN_MAX: usize = 8_192;

/// Everything the loop holds.
pub(super) struct Desk {
    core: AgentCore,
    spec_bytes: bytes::Bytes,
    identity: NodeIdentity,
    place: Place,
    lease: LeaseFile,
    folder: PathBuf,
    retention: LogRetention,
    outlets: Option<Outlets>,
    /// The connection to the shim that orders are meant for, and that shim.
    shim: Option<(u64, Identity)>,
    requests: Vec<Request>,
    live: BTreeSet<RunRef>,
    readers: Readers,
    forgotten: Option<mpsc::Sender<RunRef>>,
    /// The longest grace of any run so far.
    grace_ms_max: u64,
    /// The tasks are to end with this process.
    is_stopping: bool,
    is_superseded: bool,
    effects: Vec<AgentEffect>,
    prober: Prober,
    /// What the probes find that are made here.
    probed: mpsc::Receiver<RunnerEvent>,
}

/// How far the end of the process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Tasks are being stopped.
    Stopping,
    /// They are gone, and so is the shim; reports may be under way.
    Reporting,
}

impl Desk {
    pub(super) fn new(
        node: &NodeSpec,
        identity: NodeIdentity,
        config: AgentConfig,
        place: Place,
        lease: LeaseFile,
        folder: &Path,
        retention: LogRetention,
    ) -> Self {
        let (results, probed) = mpsc::channel(RESULTS_MAX);
        Desk {
            prober: Prober::new(&place.node_address, results),
            probed,
            core: AgentCore::new(config, dice::dice()),
            spec_bytes: write(node),
            identity,
            place,
            lease,
            folder: folder.to_path_buf(),
            retention,
            outlets: None,
            shim: None,
            requests: Vec::new(),
            live: BTreeSet::new(),
            readers: Readers::new(folder),
            forgotten: None,
            grace_ms_max: 0,
            is_stopping: false,
            is_superseded: false,
            effects: Vec::new(),
        }
    }

    /// Works until `shutdown`. With `closing` the tasks are stopped then; it is set before, so that no new shim is
    /// started.
    pub(super) async fn run(
        mut self,
        mut words: mpsc::Receiver<Word>,
        orders: mpsc::Sender<Orders>,
        mut arrivals: mpsc::Receiver<Arrival>,
        mut findings: mpsc::Receiver<Found>,
        shutdown: Shutdown,
        closing: Option<Arc<AtomicBool>>,
    ) -> Result<(), AgentError> {
        let (mut stage, mut give_up, mut is_hurried) = (Stage::Serving, Instant::now(), false);
        loop {
            let sleep_ms = self.core.due_ms().map_or(SLEEP_MS_MAX, |due_ms| due_ms.saturating_sub(boot_ms()));
            tokio::select! { biased;
                () = shutdown.started(), if stage == Stage::Serving => {
                    let Some(closing) = &closing else { return Ok(()) };
                    closing.store(true, Ordering::Release);
                    let patience = Duration::from_millis(self.grace_ms_max) + STOP_MARGIN;
                    (stage, give_up) = (Stage::Stopping, Instant::now() + patience);
                    self.is_stopping = true;
                    self.stop_shim(Signal::SIGTERM);
                }
                () = shutdown.hurried(), if stage == Stage::Stopping && !is_hurried => {
                    is_hurried = true;
                    self.stop_shim(Signal::SIGQUIT);
                }
                () = sleep_until(give_up), if stage != Stage::Serving => return Ok(()),
                word = words.recv(), if stage != Stage::Reporting => match word {
                    Some(word) => self.hear(word)?,
                    None if stage == Stage::Stopping => {
                        (stage, give_up) = (Stage::Reporting, Instant::now() + REPORT_PATIENCE);
                    }
                    None => return Err(AgentError::TaskEnded("the shim")),
                },
                permit = orders.reserve(), if !self.requests.is_empty() => match permit {
                    Ok(permit) => permit.send(self.take_orders()),
                    Err(_) => self.requests.clear(),
                },
                arrival = arrivals.recv() => self.take(arrival.ok_or(AgentError::TaskEnded("the servers"))?)?,
                Some(event) = self.probed.recv() => self.step(AgentInput::Runner(event)),
                Some((kind, finding)) = findings.recv() => self.step(AgentInput::Checked { kind, finding }),
                () = sleep(Duration::from_millis(sleep_ms.min(SLEEP_MS_MAX))) => {}
            }
            self.drain(&mut words, &mut arrivals)?;
            self.step(AgentInput::Tick);
            if self.is_superseded {
                return Err(AgentError::Superseded);
            }
            if stage == Stage::Reporting && (self.core.run_count() == 0 || self.outlets.is_none()) {
                return Ok(());
            }
        }
    }

    /// Takes what else has arrived, so that what follows from it travels together.
    fn drain(
        &mut self,
        words: &mut mpsc::Receiver<Word>,
        arrivals: &mut mpsc::Receiver<Arrival>,
    ) -> Result<(), AgentError> {
        for _ in 0..WORDS_MAX {
            let Ok(word) = words.try_recv() else { break };
            self.hear(word)?;
        }
        for _ in 0..ARRIVALS_MAX {
            let Ok(arrival) = arrivals.try_recv() else { break };
            self.take(arrival)?;
        }
        Ok(())
    }

    /// Orders that are not for the shim in charge now have been overtaken by its list.
    fn take_orders(&mut self) -> Orders {
        let connection = self.shim.map_or(0, |(connection, _)| connection);
        Orders { connection, requests: std::mem::take(&mut self.requests) }
    }

    fn stop_shim(&self, signal: Signal) {
        let stopped = self.shim.map(|(_, identity)| stop::send(identity, signal));
        match stopped {
            Some(Ok(())) => tracing::info!(runs = self.live.len(), "stopping the tasks of this node"),
            Some(Err(error)) => tracing::warn!(%error, "the shim was not told to end"),
            None => tracing::warn!("there is no shim to be told to end"),
        }
    }

    fn hear(&mut self, word: Word) -> Result<(), AgentError> {
        match word {
            Word::Found { connection, shim, event } => {
                self.requests.clear();
                self.shim = stop::identify(shim)?.map(|identity| (connection, identity));
                self.note(&event);
                self.step(AgentInput::Runner(event));
                if self.is_stopping {
                    self.stop_shim(Signal::SIGTERM);
                }
            }
            Word::Event(event) => {
                self.note(&event);
                self.step(AgentInput::Runner(event));
            }
            Word::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Keeps count of what lives, for those who read along.
    fn note(&mut self, event: &RunnerEvent) {
        match event {
            RunnerEvent::Found { live, exits, .. } => {
                self.live = live.iter().map(|found| found.run).collect();
                self.grace_ms_max = live.iter().map(|found| found.grace_ms).fold(self.grace_ms_max, u64::max);
                self.readers.runs_ended(|run| !self.live.contains(&run));
                let known = live.iter().map(|found| found.run).chain(exits.iter().map(|found| found.run));
                let known: BTreeSet<RunRef> = known.collect();
                if self.forgotten.is_none() {
                    self.place.peers.keep_only(&known);
                }
                self.keep_output(known);
            }
            RunnerEvent::Started { run, .. } => {
                self.live.insert(*run);
            }
            RunnerEvent::Probed { .. } => {}
            RunnerEvent::Exited { run, .. } | RunnerEvent::StartFailed { run, .. } => {
                self.live.remove(run);
                self.readers.runs_ended(|other| other == *run);
            }
        }
    }

    /// Begins, once, to bound the output of runs that the shim has forgotten. Disks may be slow: this has its own
    /// thread.
    fn keep_output(&mut self, known: BTreeSet<RunRef>) {
        if self.forgotten.is_some() {
            return;
        }
        let (sender, mut forgotten) = mpsc::channel(FORGOTTEN_MAX);
        let (folder, bounds) = (self.folder.clone(), self.retention);
        self.forgotten = Some(sender);
        tokio::task::spawn_blocking(move || {
            let mut retention = Retention::find(&folder, bounds, &known);
            while let Some(run) = forgotten.blocking_recv() {
                retention.keep(run);
            }
        });
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), AgentError> {
        match arrival {
            Arrival::Connected(outlets) => {
                self.outlets = Some(outlets);
                self.step(AgentInput::Connected);
            }
            Arrival::Disconnected => {
                self.outlets = None;
                self.readers.stop_all();
                self.step(AgentInput::Disconnected);
            }
            // The stream carries one node.
            Arrival::Order(Order::Local { input, .. } | Order::Node { input, .. }) => self.step(input),
            Arrival::Order(Order::Answers(answers)) => {
                answers.into_iter().for_each(|(_, answer)| self.step(AgentInput::BeatAnswer(answer)));
            }
            Arrival::Order(Order::ReadLog(request)) => {
                if let Some(outlets) = &self.outlets {
                    self.readers.open(request, self.live.contains(&request.run), &outlets.pieces);
                }
            }
            Arrival::Order(Order::MoreLog { request, pieces }) => self.readers.grant(request, pieces),
            Arrival::Order(Order::StopLog { request }) => self.readers.stop(request),
            Arrival::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn step(&mut self, input: AgentInput) {
        let mut effects = std::mem::take(&mut self.effects);
        self.core.step(boot_ms(), input, &mut effects);
        effects.drain(..).for_each(|effect| self.perform(effect));
        self.effects = effects;
    }

    fn perform(&mut self, effect: AgentEffect) {
        match effect {
            AgentEffect::Register { instance, alive } => {
                let NodeIdentity { key, boot } = self.identity;
                self.send(messages::register(0, self.spec_bytes.clone(), key, (instance, boot), &alive));
            }
            AgentEffect::RegisterRefused(refusal) => tracing::warn!(%refusal, "not registered; trying again"),
            AgentEffect::Beat { node, incarnation, sequence, .. } => {
                self.send(messages::beats(vec![messages::beat(node, incarnation, sequence)]));
            }
            AgentEffect::SendReports { batch, node, reports } => self.send(messages::reports(node, batch, &reports)),
            AgentEffect::SendConditions { number, node, incarnation, conditions } => {
                tracing::info!(?conditions, "telling what is wrong with this node");
                self.send(messages::conditions(node, incarnation, number, &conditions));
            }
            AgentEffect::WriteLease(file) => {
                let (deadline_ms, since_ms, incarnation) = (file.deadline_ms, file.since_ms, file.incarnation.0);
                if let Err(error) = self.lease.write(NodeLease { deadline_ms, since_ms, incarnation }) {
                    tracing::error!(%error, "the lease is not written: tasks end when the last one does");
                }
            }
            AgentEffect::StartRun { incarnation, wanted } => {
                if !wanted.launch.peers.is_empty() {
                    self.write_peers(wanted.run, &wanted.launch.peers);
                }
                let spec = self.place.run_spec(&wanted, incarnation);
                self.grace_ms_max = self.grace_ms_max.max(spec.grace_ms);
                self.requests.push(Request::Start { run: wanted.run, spec });
            }
            AgentEffect::StopRun { run, grace_ms } => self.requests.push(Request::Stop { run, grace_ms }),
            AgentEffect::Probe(order) => {
                let request = self.prober.probe(&order);
                self.requests.extend(request);
            }
            AgentEffect::TellPeers { run, notice } => {
                if self.write_peers(run, &notice.addresses) && notice.signal != 0 {
                    self.requests.push(Request::Signal { run, signal: notice.signal });
                }
            }
            AgentEffect::ForgetRun { run } => {
                self.place.peers.forget(run);
                self.requests.push(Request::Forget { runs: vec![run] });
                if let Some(forgotten) = &self.forgotten {
                    // What finds no room is found at the next start.
                    let _ = forgotten.try_send(run);
                }
            }
            AgentEffect::Superseded => self.is_superseded = true,
        }
    }

    /// Says whether they are new. A task whose file can't be written goes on with what it has.
    fn write_peers(&self, run: RunRef, addresses: &[String]) -> bool {
        self.place.peers.write(run, addresses).unwrap_or_else(|error| {
            tracing::warn!(%run, %error, "the file of peers is not written");
            false
        })
    }

    /// What finds no room is lost, as on any network; the core sends it again.
    fn send(&self, message: AgentUp) {
        if let Some(outlets) = &self.outlets
            && outlets.messages.try_send(message).is_err()
        {
            tracing::debug!("no room for a message to the server");
        }
    }
}
