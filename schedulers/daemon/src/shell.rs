//! The loop around a core: what arrived goes in, what the core wants goes out, and time passes.

use crate::error::DaemonError;
use crate::follower::{Effect, Follower, Input, Wish};
use crate::link::{Arrival, Link, Outlets};
use crate::tickets::Tickets;
use ohm_client::{FollowerCore, FollowerInput, SessionInput};
use ohm_health::RelayedBeats;
use ohm_model::{Envelope, SessionId};
use ohm_runtime::clock::boot_ms;
use ohm_runtime::recorder::{Happened, Recorder};
use ohm_runtime::servers::{Dialer, Servers};
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::{BeatAnswers, DutyAttach, DutyUp, duty_up};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// Arrivals that may wait for the core. A frame of entries is up to 256 KiB, so this bounds memory to some 16 MiB.
const ARRIVALS_MAX: usize = 64;
/// Arrivals handed in before the core may plan although more keep coming.
const BUNCH_MAX: usize = 256;
/// How long the servers may take to close the session when the process is told to end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// Between two reports of the counters.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Runs `process` until `shutdown`, or until it can't go on. `name` is for people.
pub(crate) async fn run<F: Follower>(
    process: F,
    name: String,
    servers: Servers,
    shutdown: Shutdown,
) -> Result<(), DaemonError> {
    let dialer = Dialer::new(servers)?;
    let applied = Arc::new(AtomicU64::new(0));
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let recorder = Recorder::from_environment("follower", &name);
    let reconnect = Arc::new(Notify::new());
    let link = Link {
        reconnect: Arc::clone(&reconnect),
        dialer,
        name,
        has_duty: F::HAS_DUTY,
        applied: Arc::clone(&applied),
        cell_incarnation: AtomicU64::new(1),
        arrivals: sender,
    };
    // Ends with this function, however that ends.
    let mut tasks = JoinSet::new();
    tasks.spawn(link.run());
    let shell = Shell {
        process,
        applied,
        tickets: Tickets::default(),
        outlets: None,
        session: None,
        reconnect,
        held: 0,
        again: false,
        is_closed: false,
        effects: Vec::new(),
        recorder,
    };
    shell.run(arrivals, shutdown).await
}

struct Shell<F: Follower> {
    process: F,
    applied: Arc<AtomicU64>,
    tickets: Tickets,
    outlets: Option<Outlets>,
    /// The session opened last, which the duty stream is attached for, and its nonce.
    session: Option<(SessionId, u64)>,
    /// Tells the link to connect anew.
    reconnect: Arc<Notify>,
    /// How many leases are held.
    held: usize,
    /// The core has more to do once everything that has arrived is handed in.
    again: bool,
    is_closed: bool,
    effects: Vec<Effect<F>>,
    recorder: Recorder,
}

impl<F: Follower> Shell<F> {
    async fn run(mut self, mut arrivals: mpsc::Receiver<Arrival>, shutdown: Shutdown) -> Result<(), DaemonError> {
        let mut tick = interval(Duration::from_millis(self.process.tick_ms().max(1)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut report = interval(REPORT_EVERY);
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = shutdown.started();
        tokio::pin!(stop);
        let mut give_up: Option<Instant> = None;
        while !self.is_closed {
            tokio::select! { biased;
                () = &mut stop, if give_up.is_none() => {
                    give_up = Some(Instant::now() + CLOSE_PATIENCE);
                    self.session(SessionInput::Close);
                }
                () = sleep_until(give_up.unwrap_or_else(Instant::now)), if give_up.is_some() => break,
                _ = tick.tick() => self.tick(),
                _ = report.tick() => self.process.report(),
                arrival = arrivals.recv() => self.take(arrival.ok_or(DaemonError::LinkEnded)?)?,
                () = std::future::ready(()), if self.again => {}
            }
            for _ in 0..BUNCH_MAX {
                match arrivals.try_recv() {
                    Ok(arrival) => self.take(arrival)?,
                    Err(_) => break,
                }
            }
            if std::mem::take(&mut self.again)
                && let Some(proceed) = F::proceed()
            {
                self.step(FollowerInput::Own(proceed));
                // What was just sent goes out before the next pass is planned.
                tokio::task::yield_now().await;
            }
        }
        self.process.report();
        Ok(())
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), DaemonError> {
        match arrival {
            Arrival::Connected(outlets) => {
                self.outlets = Some(outlets);
                self.attach();
                self.session(SessionInput::Connected);
            }
            Arrival::Disconnected => {
                self.outlets = None;
                self.tickets.clear();
                self.session(SessionInput::Disconnected);
            }
            Arrival::Snapshot(cell) => self.step(FollowerInput::Snapshot(cell)),
            Arrival::Entries(entries) => {
                entries.into_iter().for_each(|(index, entry)| self.step(FollowerInput::Entry { index, entry }));
                let cell = self.process.core().cell();
                self.recorder.write(|| Happened::Copied { index: cell.applied(), chain: cell.chain() });
            }
            Arrival::Reply(reply) => {
                for input in self.tickets.answers(reply)? {
                    self.session(input);
                }
            }
            Arrival::Beats { relay, beats } => {
                if let Some(beats) = F::beats(RelayedBeats { relay, beats }) {
                    self.step(FollowerInput::Own(beats));
                }
            }
            Arrival::Failed(error) => return Err(error),
        }
        self.applied.store(self.process.core().cell().applied().0, Ordering::Release);
        Ok(())
    }

    fn tick(&mut self) {
        while let Some(arrived) = self.process.arrived() {
            self.step(FollowerInput::Own(arrived));
        }
        self.session(SessionInput::Tick);
    }

    fn session(&mut self, input: SessionInput) {
        self.step(FollowerInput::Session(input));
    }

    fn step(&mut self, input: Input<F>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.process.core_mut().step(boot_ms(), input, &mut effects);
        let (mut gained, mut dropped) = (0, 0);
        for effect in effects.drain(..) {
            match effect {
                Effect::<F>::Send(envelopes) => self.send(&envelopes),
                Effect::<F>::Opened { session, nonce } => {
                    tracing::info!(%session, "session open");
                    self.session = Some((session, nonce));
                    self.attach();
                }
                Effect::<F>::OpenRefused(refusal) => tracing::warn!(%refusal, "no session"),
                Effect::<F>::SessionGone => tracing::warn!("session gone; the work goes on under the next one"),
                Effect::<F>::Gained { .. } => gained += 1,
                Effect::<F>::Dropped { .. } => dropped += 1,
                Effect::<F>::Closed => self.is_closed = true,
                Effect::<F>::Own(effect) => match self.process.perform(effect) {
                    Some(Wish::Again) => self.again = true,
                    Some(Wish::Answer { relay, answers }) => self.answer(relay, answers),
                    Some(Wish::Reconnect) if self.outlets.take().is_some() => self.reconnect.notify_one(),
                    Some(Wish::Reconnect) => {}
                    None => {}
                },
            }
        }
        self.effects = effects;
        if gained + dropped > 0 {
            self.held = (self.held + gained).saturating_sub(dropped);
            tracing::info!(gained, dropped, held = self.held, "leases");
        }
    }

    /// What finds no room is lost, as on any network; the session core sends it again.
    fn send(&mut self, envelopes: &[Envelope]) {
        let Some(outlets) = &self.outlets else { return };
        for request in self.tickets.requests(envelopes) {
            if outlets.appends.try_send(request).is_err() {
                tracing::debug!("no room for an append request");
            }
        }
    }

    /// Tells the server which session competes for the duty here.
    fn attach(&self) {
        let duty = self.outlets.as_ref().and_then(|outlets| outlets.duty.as_ref());
        if let (Some(duty), Some((session, nonce))) = (duty, self.session) {
            let attach = DutyAttach { session: session.0, nonce };
            if duty.try_send(DutyUp { kind: Some(duty_up::Kind::Attach(attach)) }).is_err() {
                tracing::warn!("no room on the duty stream");
            }
        }
    }

    /// Answers go back over the connection that brought the beats, or nowhere: the agents beat again.
    fn answer(&self, relay: u64, answers: BeatAnswers) {
        let outlets = self.outlets.as_ref().filter(|outlets| outlets.number == relay);
        if let Some(duty) = outlets.and_then(|outlets| outlets.duty.as_ref())
            && duty.try_send(DutyUp { kind: Some(duty_up::Kind::Answers(answers)) }).is_err()
        {
            tracing::debug!("no room for answers to beats");
        }
    }
}
