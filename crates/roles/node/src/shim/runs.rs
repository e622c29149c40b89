//! The runs of a shim and their lives, driven in turns: what ended is reaped, what is due is signalled, then one commit
//! of the journal covers the ends and the intents of the whole turn, and only after it the agent is told and processes
//! are started.
//!
//! ```text
//! Start ─▶ waiting ─commit─▶ running ──first process ended──▶ leftovers? ──none──▶ ended ─Forget─▶ (nothing)
//!             │                 └─Stop, deadline─▶ stopping ──┘   └─kill, look again─┘
//!             └─ refused: no lease, room, process, disk (leaves no trace)
//! ```

mod ends;
mod probes;
mod starts;

use super::beside::{Programs, Wanted};
use super::ground::Ground;
use super::journal::{self, Contents, Journal, Record};
use super::launch::Launcher;
use super::protocol::{Cause, End, EndedRun, Event, LiveRun, Request, RunSpec};
use crate::cgroup::{MemoryKill, Slot};
use crate::processes::{Identity, signal_group};
use crate::rotation::{LogLimits, rotate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ohm_model::RunRef;
use ohm_runtime::recorder::{Happened, Recorder};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most runs that live or wait at a time.
const RUNS_MAX: usize = 100_000;
/// Most processes started between two looks at everything else.
const STARTS_PER_TURN_MAX: usize = 64;
/// Between two looks at a run whose leftovers have been killed, and between two kills, in milliseconds.
const AGAIN_MS: u64 = 5;
/// Between two looks at the sizes of log files, in milliseconds.
const ROTATE_MS: u64 = 1_000;
const NO_LEASE: &str = "the lease of this node has run out or is about to, or is of a later registration";
const ENDING: &str = "the shim is ending";
/// Entries in one part of a list.
const LIST_PART: usize = 1_000;

/// A run that has a process, or had one a moment ago.
#[derive(Debug)]
struct Run {
    identity: Identity,
    at_boottime_ms: u64,
    grace_ms: u64,
    logs: LogLimits,
    slot: Option<Slot>,
    /// Of one that is probed.
    spec: Option<Box<RunSpec>>,
    phase: Phase,
    /// When the agenda comes back to it.
    due_ms: Option<u64>,
}

#[derive(Debug)]
enum Phase {
    Running,
    Stopping {
        kill_at_ms: u64,
        cause: Cause,
    },
    /// The first process is gone, others of the run are not.
    Draining {
        end: End,
        cause: Cause,
    },
}

/// What is written down about runs.
#[derive(Default)]
struct Book {
    live: BTreeMap<RunRef, Run>,
    /// Intents on their way to disk, without a process yet.
    intents: BTreeSet<RunRef>,
    ended: BTreeMap<RunRef, EndedRun>,
}

impl Contents for Book {
    fn open(&self) -> Vec<(RunRef, Option<Identity>)> {
        let live = self.live.iter().map(|(run, state)| (*run, Some(state.identity)));
        live.chain(self.intents.iter().map(|run| (*run, None))).collect()
    }

    fn ended(&self) -> &BTreeMap<RunRef, EndedRun> {
        &self.ended
    }
}

/// All runs of this shim.
pub(super) struct Runs {
    ground: Ground,
    launcher: Launcher,
    journal: Journal,
    book: Book,
    by_pid: BTreeMap<u32, RunRef>,
    waiting: VecDeque<(RunRef, RunSpec)>,
    /// The runs in `waiting`.
    waits: BTreeSet<RunRef>,
    agenda: BTreeSet<(u64, RunRef)>,
    draining: BTreeSet<RunRef>,
    programs: Programs,
    rotate_at_ms: u64,
    /// Ended, but not yet on disk.
    fresh: Vec<EndedRun>,
    events: Vec<Event>,
    is_closing: bool,
    recorder: Recorder,
}

impl Runs {
    pub(super) fn new(ground: Ground, journal: Journal, ended: BTreeMap<RunRef, EndedRun>, recorder: Recorder) -> Self {
        Runs {
            launcher: Launcher::new(&ground.folder),
            ground,
            journal,
            book: Book { ended, ..Book::default() },
            by_pid: BTreeMap::new(),
            waiting: VecDeque::new(),
            waits: BTreeSet::new(),
            agenda: BTreeSet::new(),
            draining: BTreeSet::new(),
            programs: Programs::default(),
            rotate_at_ms: 0,
            fresh: Vec::new(),
            events: Vec::new(),
            is_closing: false,
            recorder,
        }
    }

    /// Whatever the run was, nothing of it is left.
    fn record_over(&mut self, run: RunRef) {
        let node = self.recorder.name().to_string();
        self.recorder.write(|| Happened::Over { node, run });
    }

    /// Takes a request; what only its sender should hear is the answer.
    pub(super) fn handle(&mut self, request: Request, now_ms: u64) -> Vec<Event> {
        match request {
            Request::Start { run, spec } => self.want_start(run, spec),
            Request::Stop { run, grace_ms } => self.want_stop(run, grace_ms, now_ms),
            Request::List => self.list(),
            Request::Forget { runs } => {
                self.forget(runs);
                Vec::new()
            }
            Request::Signal { run, signal } => {
                self.signal(run, signal);
                Vec::new()
            }
            Request::Probe { run, number, command, timeout_ms } => {
                self.want_probe(Wanted { run, number, command, timeout_ms })
            }
            // The connection has dealt with it.
            Request::Hello { .. } => Vec::new(),
        }
    }

    fn want_start(&mut self, run: RunRef, spec: RunSpec) -> Vec<Event> {
        if let Some(state) = self.book.live.get(&run) {
            return vec![Event::Started(state.shown(run))];
        }
        if let Some(ended) = self.book.ended.get(&run) {
            return vec![Event::Exited(ended.clone())];
        }
        let refused = |reason: &str| vec![Event::StartRefused { run, reason: reason.to_owned() }];
        if self.is_closing {
            return refused(ENDING);
        }
        if self.book.live.len() + self.waiting.len() >= RUNS_MAX {
            return refused(&format!("{RUNS_MAX} runs are the most one shim takes"));
        }
        if self.waits.insert(run) {
            self.waiting.push_back((run, spec));
        }
        Vec::new()
    }

    fn want_stop(&mut self, run: RunRef, grace_ms: u64, now_ms: u64) -> Vec<Event> {
        if self.waits.remove(&run) {
            self.waiting.retain(|(other, _)| *other != run);
            self.ended(
                run,
                End::NeverStarted("stopped before it was started".into()),
                MemoryKill::None,
                Cause::Stopped,
                now_ms,
            );
            return Vec::new();
        }
        if let Some(ended) = self.book.ended.get(&run) {
            return vec![Event::Exited(ended.clone())];
        }
        if !self.book.live.contains_key(&run) {
            return vec![Event::NotKnown { run }];
        }
        self.stop(run, grace_ms, Cause::Stopped, now_ms);
        Vec::new()
    }

    /// All live runs and all ends, in parts.
    pub(super) fn list(&self) -> Vec<Event> {
        let live: Vec<LiveRun> = self.book.live.iter().map(|(run, state)| state.shown(*run)).collect();
        let ended: Vec<EndedRun> = self.book.ended.values().cloned().collect();
        let part = |live: &[LiveRun], ended: &[EndedRun], is_last| Event::Listed {
            live: live.to_vec(),
            ended: ended.to_vec(),
            is_last,
        };
        let mut parts: Vec<Event> = live.chunks(LIST_PART).map(|chunk| part(chunk, &[], false)).collect();
        parts.extend(ended.chunks(LIST_PART).map(|chunk| part(&[], chunk, false)));
        parts.push(part(&[], &[], true));
        parts
    }

    fn forget(&mut self, runs: Vec<RunRef>) {
        for run in journal::forgettable(runs, &self.book.ended) {
            self.book.ended.remove(&run);
            self.journal.push(&Record::Forgotten(run));
            self.launcher.forget(run);
        }
    }

    /// Asks all runs to end, and starts no more: what waits for its start will never have one.
    pub(super) fn close(&mut self, cause: Cause, now_ms: u64) {
        self.is_closing = true;
        self.waits.clear();
        for (run, _) in std::mem::take(&mut self.waiting) {
            self.ended(run, End::NeverStarted(ENDING.into()), MemoryKill::None, cause, now_ms);
        }
        let runs: Vec<(RunRef, u64)> = self.book.live.iter().map(|(run, state)| (*run, state.grace_ms)).collect();
        runs.into_iter().for_each(|(run, grace_ms)| self.stop(run, grace_ms, cause, now_ms));
    }

    /// Closes without any grace.
    pub(super) fn close_at_once(&mut self, now_ms: u64) {
        self.close(Cause::ShimEnded, now_ms);
        let runs: Vec<RunRef> = self.book.live.keys().copied().collect();
        runs.into_iter().for_each(|run| self.stop(run, 0, Cause::ShimEnded, now_ms));
    }

    /// Whether a closing shim has nothing left to do.
    pub(super) fn is_done(&self) -> bool {
        self.is_closing && self.book.live.is_empty() && self.waiting.is_empty() && self.fresh.is_empty()
    }

    /// What the agent is to hear.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// When the next turn is due if nothing happens before.
    pub(super) fn wake_at_ms(&self, now_ms: u64) -> u64 {
        if !self.waiting.is_empty() {
            return now_ms;
        }
        let mut wake_at_ms = if self.book.live.is_empty() { now_ms + ROTATE_MS } else { self.rotate_at_ms };
        if let Some((due_ms, _)) = self.agenda.first() {
            wake_at_ms = wake_at_ms.min(*due_ms);
        }
        wake_at_ms = self.programs.due_ms(now_ms).map_or(wake_at_ms, |due_ms| wake_at_ms.min(due_ms));
        if self.draining.is_empty() { wake_at_ms } else { wake_at_ms.min(now_ms + AGAIN_MS) }
    }

    /// Does all that is to be done now.
    pub(super) fn turn(&mut self, now_ms: u64) {
        self.reap(now_ms);
        self.fire(now_ms);
        self.drain(now_ms);
        self.start_and_commit(now_ms);
        self.probe(now_ms);
        if now_ms >= self.rotate_at_ms {
            self.rotate_logs();
            self.ground.look_at_memory(now_ms);
            self.rotate_at_ms = now_ms + ROTATE_MS;
        }
    }

    fn set_due(&mut self, run: RunRef, state: &mut Run, due_ms: Option<u64>) {
        if let Some(old_ms) = state.due_ms {
            self.agenda.remove(&(old_ms, run));
        }
        state.due_ms = due_ms;
        self.agenda.extend(due_ms.map(|due_ms| (due_ms, run)));
    }

    /// Stops a live run; a second stop can only shorten the grace.
    fn stop(&mut self, run: RunRef, grace_ms: u64, cause: Cause, now_ms: u64) {
        let Some(mut state) = self.book.live.remove(&run) else { return };
        let asked_ms = now_ms.saturating_add(grace_ms);
        match state.phase {
            Phase::Running => {
                state.phase = Phase::Stopping { kill_at_ms: asked_ms, cause };
                let _ = signal_group(state.identity.pid, Signal::SIGTERM);
                // A stopped process hears nothing until it is continued.
                let _ = signal_group(state.identity.pid, Signal::SIGCONT);
                self.set_due(run, &mut state, Some(asked_ms));
            }
            Phase::Stopping { kill_at_ms, cause } => {
                let kill_at_ms = kill_at_ms.min(asked_ms);
                state.phase = Phase::Stopping { kill_at_ms, cause };
                self.set_due(run, &mut state, Some(kill_at_ms));
            }
            Phase::Draining { .. } => {}
        }
        self.book.live.insert(run, state);
    }

    /// Nobody else reaps, so a live run's number is its own.
    fn signal(&self, run: RunRef, signal: i32) {
        let live = self.book.live.get(&run).filter(|state| matches!(state.phase, Phase::Running));
        let (Some(state), Ok(signal)) = (live, Signal::try_from(signal)) else { return };
        if !self.ground.processes.is_alive(state.identity) {
            return;
        }
        let sent = i32::try_from(state.identity.pid).map(|pid| kill(Pid::from_raw(pid), signal));
        if !matches!(sent, Ok(Ok(()))) {
            tracing::debug!(%run, %signal, "signal not sent");
        }
    }

    fn rotate_logs(&self) {
        for (run, state) in self.book.live.iter().filter(|(_, state)| state.logs.bytes_max > 0) {
            let folder = super::launch::log_folder(&self.ground.folder, *run);
            for name in ["stdout", "stderr"] {
                if let Err(error) = rotate(&folder.join(name), state.logs) {
                    tracing::debug!(%run, name, %error, "log not rotated");
                }
            }
        }
    }
}

impl Run {
    fn shown(&self, run: RunRef) -> LiveRun {
        LiveRun {
            run,
            pid: self.identity.pid,
            start_time_ticks: self.identity.start_time_ticks,
            at_boottime_ms: self.at_boottime_ms,
            is_stopping: !matches!(self.phase, Phase::Running),
            grace_ms: self.grace_ms,
        }
    }
}
