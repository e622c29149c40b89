//! The loop around a core: what arrived goes in, what the core wants goes out, and time passes.

use crate::error::DaemonError;
use crate::follower::{Effect, Follower, Input};
use crate::link::{Arrival, Link, Outlets};
use crate::tickets::Tickets;
use ohm_model::{Envelope, SessionId};
use ohm_runtime::clock::boot_ms;
use ohm_runtime::recorder::{Happened, Recorder};
use ohm_runtime::servers::{Dialer, Servers};
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::{BeatAnswers, DutyUp, duty_up};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
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

/// Runs `core` until `shutdown`, or until it can't go on. `name` is for people.
pub(crate) async fn run<F: Follower>(
    core: F,
    name: String,
    servers: Servers,
    shutdown: Shutdown,
) -> Result<(), DaemonError> {
    let dialer = Dialer::new(servers)?;
    let applied = Arc::new(AtomicU64::new(0));
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let recorder = Recorder::from_environment("follower", &name);
    let link = Link {
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
        core,
        applied,
        tickets: Tickets::default(),
        outlets: None,
        session: None,
        again: false,
        is_closed: false,
        effects: Vec::new(),
        recorder,
    };
    shell.run(arrivals, shutdown).await
}

struct Shell<F> {
    core: F,
    applied: Arc<AtomicU64>,
    tickets: Tickets,
    outlets: Option<Outlets>,
    /// The session opened last, which the duty stream is attached for.
    session: Option<SessionId>,
    /// The core has more to do once everything that has arrived is handed in.
    again: bool,
    is_closed: bool,
    effects: Vec<Effect>,
    recorder: Recorder,
}

impl<F: Follower> Shell<F> {
    async fn run(mut self, mut arrivals: mpsc::Receiver<Arrival>, shutdown: Shutdown) -> Result<(), DaemonError> {
        let mut tick = interval(Duration::from_millis(self.core.tick_ms().max(1)));
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
                    self.step(Input::Close);
                }
                () = sleep_until(give_up.unwrap_or_else(Instant::now)), if give_up.is_some() => break,
                _ = tick.tick() => self.step(Input::Tick),
                _ = report.tick() => self.core.report(),
                arrival = arrivals.recv() => self.take(arrival.ok_or(DaemonError::LinkEnded)?)?,
                () = std::future::ready(()), if self.again => {}
            }
            for _ in 0..BUNCH_MAX {
                match arrivals.try_recv() {
                    Ok(arrival) => self.take(arrival)?,
                    Err(_) => break,
                }
            }
            if std::mem::take(&mut self.again) {
                self.step(Input::Proceed);
                // What was just sent goes out before the next pass is planned.
                tokio::task::yield_now().await;
            }
        }
        self.core.report();
        Ok(())
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), DaemonError> {
        match arrival {
            Arrival::Connected(outlets) => {
                self.outlets = Some(outlets);
                self.attach();
                self.step(Input::Connected);
            }
            Arrival::Disconnected => {
                self.outlets = None;
                self.tickets.clear();
                self.step(Input::Disconnected);
            }
            Arrival::Snapshot(cell) => self.step(Input::Snapshot(cell)),
            Arrival::Entries(entries) => {
                entries.into_iter().for_each(|(index, entry)| self.step(Input::Entry { index, entry }));
                let core = &self.core;
                self.recorder.write(|| Happened::Copied { index: core.applied(), chain: core.chain() });
            }
            Arrival::Reply(reply) => {
                for input in self.tickets.answers(reply)? {
                    self.step(input);
                }
            }
            Arrival::Beats { relay, beats } => self.step(Input::Beats { relay, beats }),
            Arrival::Failed(error) => return Err(error),
        }
        self.applied.store(self.core.applied().0, Ordering::Release);
        Ok(())
    }

    fn step(&mut self, input: Input) {
        let mut effects = std::mem::take(&mut self.effects);
        self.core.step(boot_ms(), input, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send(envelopes) => self.send(&envelopes),
                Effect::Again => self.again = true,
                Effect::Opened(session) => {
                    self.session = Some(session);
                    self.attach();
                }
                Effect::Answers { relay, answers } => self.answer(relay, answers),
                Effect::Closed => self.is_closed = true,
            }
        }
        self.effects = effects;
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
        if let (Some(duty), Some(session)) = (duty, self.session)
            && duty.try_send(DutyUp { kind: Some(duty_up::Kind::Attach(session.0)) }).is_err()
        {
            tracing::warn!("no room on the duty stream");
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
