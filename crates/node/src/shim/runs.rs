//! The runs of a shim and their lives, driven in turns: what ended is reaped, what is due is signalled, then one commit of
//! the journal covers the ends and the intents of the whole turn, and only after it the agent is told and processes are
//! started.
//!
//! ```text
//! Start ─▶ waiting ─commit─▶ running ──first process ended──▶ leftovers? ──none──▶ ended ─Forget─▶ (nothing)
//!             │                 └─Stop, deadline─▶ stopping ──┘   └─kill, look again─┘
//!             └─ refused: no lease, no room, no disk (leaves no trace)
//! ```

use super::fence::Step;
use super::ground::Ground;
use super::journal::{self, Contents, Journal, Record};
use super::launch::{LaunchError, Launcher};
use super::protocol::{Cause, End, EndedRun, Event, LiveRun, Request, RunSpec};
use crate::cgroup::{Cgroups, Slot};
use crate::processes::{Identity, Stat, signal_group};
use crate::rotation::{LogLimits, rotate};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use ohm_model::{OnDisconnect, RunRef};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most runs that live or wait at a time.
const RUNS_MAX: usize = 100_000;
/// Most processes started between two looks at everything else.
const STARTS_PER_TURN_MAX: usize = 64;
/// Between two looks at a run whose leftovers have been killed, and between two kills, in milliseconds.
const AGAIN_MS: u64 = 5;
/// Between two looks at the sizes of log files, in milliseconds.
const ROTATE_MS: u64 = 1_000;
const NO_LEASE: &str = "the lease of this node has run out";
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
    rotate_at_ms: u64,
    /// Ended, but not yet on disk.
    fresh: Vec<EndedRun>,
    events: Vec<Event>,
    is_closing: bool,
}

impl Runs {
    pub(super) fn new(ground: Ground, journal: Journal, ended: BTreeMap<RunRef, EndedRun>) -> Self {
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
            rotate_at_ms: 0,
            fresh: Vec::new(),
            events: Vec::new(),
            is_closing: false,
        }
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
            return refused("the shim is ending");
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
            self.ended(run, End::NeverStarted("stopped before it was started".into()), false, Cause::Stopped, now_ms);
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
            // Left alone unless it is empty: what a task wrote is not ours to throw away.
            let _ = std::fs::remove_dir(self.launcher.run_folder(run));
        }
    }

    /// Asks all runs to end, and starts no more.
    pub(super) fn close(&mut self, now_ms: u64) {
        self.is_closing = true;
        let runs: Vec<(RunRef, u64)> = self.book.live.iter().map(|(run, state)| (*run, state.grace_ms)).collect();
        runs.into_iter().for_each(|(run, grace_ms)| self.stop(run, grace_ms, Cause::Stopped, now_ms));
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
        if self.draining.is_empty() { wake_at_ms } else { wake_at_ms.min(now_ms + AGAIN_MS) }
    }

    /// Does all that is to be done now.
    pub(super) fn turn(&mut self, now_ms: u64) {
        self.reap(now_ms);
        self.fire(now_ms);
        self.drain(now_ms);
        self.start_and_commit(now_ms);
        if now_ms >= self.rotate_at_ms {
            self.rotate_logs();
            self.rotate_at_ms = now_ms + ROTATE_MS;
        }
    }

    /// Looks at ended processes before reaping them: until then their numbers are theirs.
    fn reap(&mut self, now_ms: u64) {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            match waitid(Id::All, look) {
                Ok(status) => match (status, status.pid()) {
                    (_, None) => break,
                    (WaitStatus::Exited(_, code), Some(pid)) => self.reap_one(pid, End::Code(code), now_ms),
                    (WaitStatus::Signaled(_, signal, _), Some(pid)) => {
                        self.reap_one(pid, End::Signal(signal as i32), now_ms);
                    }
                    (_, Some(pid)) => self.reap_one(pid, End::Unseen, now_ms),
                },
                // Someone died of a signal above 31, for which the library has no name: look for who it was.
                Err(Errno::EINVAL) if self.reap_zombies(now_ms) => {}
                Err(_) => break,
            }
        }
    }

    fn reap_one(&mut self, pid: Pid, end: End, now_ms: u64) {
        let number = pid.as_raw().unsigned_abs();
        match self.by_pid.remove(&number) {
            Some(run) => self.reap_run(run, number, end),
            // An orphan that came to us, or the guard.
            None => reap(pid),
        }
        if number == self.ground.guard.identity.pid {
            self.replace_guard(now_ms);
        }
    }

    /// Reaps all children that have ended, found in `/proc`; whether there were any.
    fn reap_zombies(&mut self, now_ms: u64) -> bool {
        let children = self.ground.processes.children(std::process::id());
        let stat = |pid| self.ground.processes.stat(pid).map(|stat| (pid, stat));
        let zombies: Vec<(u32, Stat)> =
            children.into_iter().filter_map(stat).filter(|(_, stat)| stat.state == b'Z').collect();
        for (pid, stat) in &zombies {
            let end = match (stat.exit_status & 0x7f, stat.exit_status >> 8) {
                (0, code) => End::Code(code),
                (signal, _) => End::Signal(signal),
            };
            self.reap_one(Pid::from_raw(pid.cast_signed()), end, now_ms);
        }
        !zombies.is_empty()
    }

    fn reap_run(&mut self, run: RunRef, number: u32, end: End) {
        // The rest of the group goes with its first process.
        let _ = signal_group(number, Signal::SIGKILL);
        let step = self.ground.fence.remove(number);
        reap(Pid::from_raw(number.cast_signed()));
        let Some(state) = self.book.live.get_mut(&run) else { return };
        let cause = match state.phase {
            Phase::Stopping { cause, .. } => cause,
            _ if step > Step::None => Cause::LeaseExpired,
            _ if end == End::Signal(Signal::SIGKILL as i32) && self.ground.guard_is_ending() => Cause::ShimDied,
            _ => Cause::Own,
        };
        state.phase = Phase::Draining { end, cause };
        self.draining.insert(run);
    }

    /// With a namespace the end of the guard is the end of all tasks: this shim is of no more use.
    fn replace_guard(&mut self, now_ms: u64) {
        let replaced = if self.ground.guard.has_namespace {
            None
        } else {
            self.ground.guard_starter.spawn(&self.ground.processes, false).ok()
        };
        match replaced {
            Some(guard) => self.ground.guard = guard,
            None => self.close(now_ms),
        }
    }

    /// Looks at all runs whose first process is gone.
    fn drain(&mut self, now_ms: u64) {
        let runs: Vec<RunRef> = self.draining.iter().copied().collect();
        let has_group = |run| self.book.live.get(run).and_then(|state| state.slot.as_ref()?.group()).is_some();
        // One look after all of them were reaped: what they left behind has found its new parent.
        let orphans = if runs.iter().all(has_group) {
            Vec::new()
        } else {
            self.ground.orphans(|pid| self.by_pid.contains_key(&pid))
        };
        runs.into_iter().for_each(|run| self.drain_one(run, &orphans, now_ms));
    }

    /// Ends a run if nothing is left of it; kills what is.
    fn drain_one(&mut self, run: RunRef, orphans: &[u32], now_ms: u64) {
        let Some(state) = self.book.live.get(&run) else { return };
        if self.ground.kill_leftovers(run, state.identity.pid, state.slot.as_ref(), orphans) {
            return;
        }
        self.draining.remove(&run);
        let Some(mut state) = self.book.live.remove(&run) else { return };
        self.set_due(run, &mut state, None);
        let out_of_memory = state.slot.as_ref().is_some_and(Slot::ran_out_of_memory);
        if let (Some(cgroups), Some(slot)) = (&mut self.ground.cgroups, state.slot) {
            cgroups.release(slot);
        }
        if let Phase::Draining { end, cause } = state.phase {
            self.ended(run, end, out_of_memory, cause, now_ms);
        }
    }

    fn ended(&mut self, run: RunRef, end: End, out_of_memory: bool, cause: Cause, at_boottime_ms: u64) {
        let ended = EndedRun { run, end, out_of_memory, at_boottime_ms, cause };
        self.journal.push(&Record::Ended(ended.clone()));
        self.book.ended.insert(run, ended.clone());
        self.fresh.push(ended);
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

    /// Deadlines and kills whose time has come.
    fn fire(&mut self, now_ms: u64) {
        while let Some((due_ms, run)) = self.agenda.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.agenda.remove(&(due_ms, run));
            let Some(mut state) = self.book.live.remove(&run) else { continue };
            state.due_ms = None;
            match state.phase {
                Phase::Stopping { .. } => {
                    self.ground.kill(state.identity.pid, state.slot.as_ref());
                    self.set_due(run, &mut state, Some(now_ms + AGAIN_MS.max(50)));
                    self.book.live.insert(run, state);
                }
                Phase::Running => {
                    let grace_ms = state.grace_ms;
                    self.book.live.insert(run, state);
                    self.stop(run, grace_ms, Cause::DeadlineExceeded, now_ms);
                }
                Phase::Draining { .. } => drop(self.book.live.insert(run, state)),
            }
        }
    }

    /// One commit for the ends of this turn and the intents of the next processes, then both take effect.
    fn start_and_commit(&mut self, now_ms: u64) {
        let starts = self.next_starts(now_ms);
        let committed = self.journal.commit(&self.book);
        // An end that cannot be written is still true, and its run can never be started again: the intent is on disk.
        self.events.extend(self.fresh.drain(..).map(Event::Exited));
        self.book.intents.clear();
        if starts.is_empty() {
            return;
        }
        if let Err(error) = committed {
            let reason = format!("the journal cannot be written: {error}");
            let refused = |(run, _)| Event::StartRefused { run, reason: reason.clone() };
            return self.events.extend(starts.into_iter().map(refused));
        }
        let mut started = Vec::with_capacity(starts.len());
        for (run, spec) in starts {
            // The sync may have taken any time.
            if !self.ground.has_lease() {
                self.ended(run, End::NeverStarted(NO_LEASE.into()), false, Cause::LeaseExpired, now_ms);
                continue;
            }
            match self.ground.launch(&self.launcher, run, &spec) {
                Ok((pid, slot)) => started.push((run, spec, pid, slot)),
                Err(LaunchError::Task(reason)) => {
                    self.ended(run, End::StartFailed(reason), false, Cause::Own, now_ms);
                }
                Err(LaunchError::Machine(reason)) => {
                    self.ended(run, End::NeverStarted(reason), false, Cause::Own, now_ms);
                }
            }
        }
        // No slot may be killed while we stand in it: the fence learns of the runs only now.
        if let Some(Err(error)) = self.ground.cgroups.as_mut().map(Cgroups::leave) {
            // Tasks die with us, which is better than being limited, or killed, in the place of one of them.
            tracing::error!(%error, "cannot leave a task's cgroup");
            std::process::exit(1);
        }
        for (run, spec, pid, slot) in started {
            self.admit(run, &spec, pid, slot, now_ms);
        }
        if self.journal.commit(&self.book).is_ok() {
            self.events.extend(self.fresh.drain(..).map(Event::Exited));
        }
    }

    /// The starts of this turn, their intents in the journal's buffer.
    fn next_starts(&mut self, now_ms: u64) -> Vec<(RunRef, RunSpec)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let has_lease = self.ground.has_lease();
        let count = self.waiting.len().min(STARTS_PER_TURN_MAX);
        let mut starts = Vec::with_capacity(count);
        for (run, spec) in self.waiting.drain(..count).collect::<Vec<_>>() {
            self.waits.remove(&run);
            if !has_lease {
                self.events.push(Event::StartRefused { run, reason: NO_LEASE.into() });
            } else if let Err(reason) = spec.check() {
                self.ended(run, End::StartFailed(reason), false, Cause::Own, now_ms);
            } else {
                self.journal.push(&Record::Intent(run));
                self.book.intents.insert(run);
                starts.push((run, spec));
            }
        }
        starts
    }

    fn admit(&mut self, run: RunRef, spec: &RunSpec, pid: u32, slot: Option<Slot>, now_ms: u64) {
        // Nobody else reaps, so the process is there at least as a zombie.
        let identity = self.ground.processes.identity(pid).unwrap_or(Identity { pid, start_time_ticks: 0 });
        if spec.on_disconnect == OnDisconnect::Stop {
            let group = slot.as_ref().and_then(Slot::group).cloned();
            self.ground.fence.add(pid, spec.grace_ms, group);
        }
        let mut state = Run {
            identity,
            at_boottime_ms: now_ms,
            grace_ms: spec.grace_ms,
            logs: spec.logs,
            slot,
            phase: Phase::Running,
            due_ms: None,
        };
        self.set_due(run, &mut state, spec.active_deadline_ms.map(|after_ms| now_ms.saturating_add(after_ms)));
        self.journal.push(&Record::Started(run, identity));
        self.by_pid.insert(pid, run);
        self.events.push(Event::Started(state.shown(run)));
        self.book.live.insert(run, state);
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

fn reap(pid: Pid) {
    // The status is known from the look before, and a signal without a name makes an error here.
    let _ = waitpid(pid, None);
}

impl Run {
    fn shown(&self, run: RunRef) -> LiveRun {
        LiveRun {
            run,
            pid: self.identity.pid,
            start_time_ticks: self.identity.start_time_ticks,
            at_boottime_ms: self.at_boottime_ms,
            is_stopping: !matches!(self.phase, Phase::Running),
        }
    }
}
