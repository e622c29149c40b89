//! What the agent and its shim say to each other, and what a run is.
//!
//! Frames of [`ohm_stdx::codec`] (format byte, length, checksum) over the Unix socket `DIR/shim.sock`. Every request
//! may be sent again at any time: a start of a run that is there answers with what is there, and nothing is ever
//! started twice.

use crate::cgroup::{MEMORY_BYTES_MIN, MemoryKill, Resources};
use crate::rotation::LogLimits;
use ohm_model::{Exit, Incarnation, OnDisconnect, RunRef};
use serde::{Deserialize, Serialize};

/// The version of these messages; both sides must speak the same.
pub const PROTOCOL_VERSION: u16 = 3;
/// The format byte of every frame on the socket.
pub(crate) const FORMAT: u8 = 1;
/// No request is longer. The kernel takes about 2 MiB of arguments and environment.
pub(crate) const REQUEST_BYTES_MAX: usize = 2 << 20;
/// No event is longer; lists are cut into parts.
pub(crate) const EVENT_BYTES_MAX: usize = 2 << 20;

/// What one run executes, and how it is to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Program and arguments. A program without `/` is looked up in the `PATH` of `environment`.
    pub command: Vec<String>,
    /// The whole environment; the shim adds only `PATH` (if there is none), `OHM_RUN`, `OHM_INCARNATION` and
    /// `OHM_SHIM`.
    pub environment: Vec<(String, String)>,
    /// Where it starts; the run's own folder `DIR/runs/RUN` when empty.
    pub working_dir: String,
    /// What it is to get, and what it may use at most.
    pub resources: Resources,
    /// How much of its output is kept.
    pub logs: LogLimits,
    /// Between the polite signal and the kill, in milliseconds.
    pub grace_ms: u64,
    /// Whether the lease of the node ends the run.
    pub on_disconnect: OnDisconnect,
    /// The run is stopped when it has run this long, in milliseconds.
    pub active_deadline_ms: Option<u64>,
    /// The registration of the node that the order was given under. It is not obeyed once the lease is of a later one:
    /// the cell may have placed the task elsewhere by then.
    pub registration: Incarnation,
    /// Whether programs may be run beside it, by [`Request::Probe`].
    pub is_probed: bool,
}

impl RunSpec {
    /// A run of `command` with no requests and limits, ten seconds of grace, and an end with the lease, under any
    /// registration.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        RunSpec {
            command: command.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            working_dir: String::new(),
            resources: Resources::default(),
            logs: LogLimits::default(),
            grace_ms: 10_000,
            on_disconnect: OnDisconnect::Stop,
            active_deadline_ms: None,
            registration: Incarnation(u32::MAX),
            is_probed: false,
        }
    }

    /// What is wrong with it, in words; a run of such a spec ends as "could not start".
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command is empty; it must name a program".into());
        }
        let texts = self.command.iter().chain(self.environment.iter().flat_map(|(name, value)| [name, value]));
        if texts.chain([&self.working_dir]).any(|text| text.contains('\0')) {
            return Err("command, environment and working directory must not hold a zero byte".into());
        }
        if let Some((name, _)) = self.environment.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
            return Err(format!("environment name {name:?} must be non-empty and without '='"));
        }
        let memory_bytes = self.resources.limits.memory_bytes;
        if memory_bytes > 0 && memory_bytes < MEMORY_BYTES_MIN {
            return Err(format!(
                "a memory limit of {memory_bytes} bytes is too small; the least is {MEMORY_BYTES_MIN}"
            ));
        }
        Ok(())
    }
}

/// From the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first request of a connection. Answered by [`Event::Hello`], or by [`Event::Refused`] and the end.
    Hello {
        /// Must be [`PROTOCOL_VERSION`].
        version: u16,
    },
    /// Start the run unless it was started before. Answered by `Started`, `Exited` or `StartRefused`.
    Start {
        /// The run.
        run: RunRef,
        /// What it executes.
        spec: RunSpec,
    },
    /// Stop the run: SIGTERM now, SIGKILL after the grace. Answered by `Exited` once all of its processes are gone, at
    /// once by `Exited` when it has ended already, and by `NotKnown` when it never was here.
    Stop {
        /// The run.
        run: RunRef,
        /// Milliseconds until the kill; 0 kills at once. A second stop can only shorten it.
        grace_ms: u64,
    },
    /// Say everything again: answered by [`Event::Listed`].
    List,
    /// The ends of these runs are known where it matters; their records may go.
    Forget {
        /// The runs. Those that still live or are not known are left alone.
        runs: Vec<RunRef>,
    },
    /// Send this signal to the first process of the run, unless it is ending or gone.
    Signal {
        /// The run.
        run: RunRef,
        /// As the kernel numbers it.
        signal: i32,
    },
    /// Run a program beside the run, as the run in everything. Answered by [`Event::Probed`] unless the run ends.
    Probe {
        /// The run, which must be one that is probed.
        run: RunRef,
        /// Comes back with the answer.
        number: u64,
        /// Program and arguments.
        command: Vec<String>,
        /// It is killed when it has run so long, in milliseconds.
        timeout_ms: u64,
    },
}

/// To the agent. Every connection gets every event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Who answers. Followed by `Listed`, unasked.
    Hello(ShimInfo),
    /// The run has a process.
    Started(LiveRun),
    /// The run was not started (no lease, no room, the machine out of processes or disk), and no trace of it is kept:
    /// it may be started later.
    StartRefused {
        /// The run.
        run: RunRef,
        /// Why, in words.
        reason: String,
    },
    /// All processes of the run are gone, and the record of it is on disk until it is forgotten.
    Exited(EndedRun),
    /// A stop named a run that was never here, or is forgotten.
    NotKnown {
        /// The run.
        run: RunRef,
    },
    /// A part of the list: all live runs and all ends not yet forgotten.
    Listed {
        /// Runs with processes.
        live: Vec<LiveRun>,
        /// Runs without.
        ended: Vec<EndedRun>,
        /// Whether this is the last part.
        is_last: bool,
    },
    /// A program beside a run is over.
    Probed {
        /// The run.
        run: RunRef,
        /// Of the request.
        number: u64,
        /// How it ended.
        end: ProbeEnd,
    },
    /// The connection did something wrong and is closed.
    Refused {
        /// What was wrong and what would be right.
        reason: String,
    },
}

/// What a shim says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimInfo {
    /// [`PROTOCOL_VERSION`] of the shim.
    pub version: u16,
    /// Its process id.
    pub pid: u32,
    /// Whether the kernel itself ends all tasks with the shim (a process namespace), rather than a guard process.
    pub has_namespace: bool,
    /// What this machine lacks, for people; each is said once.
    pub warnings: Vec<String>,
}

/// A run that has processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRun {
    /// The run.
    pub run: RunRef,
    /// Its first process, as the host counts.
    pub pid: u32,
    /// When that process started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time_ticks: u64,
    /// When the shim started it, in milliseconds of CLOCK_BOOTTIME.
    pub at_boottime_ms: u64,
    /// Whether it is being stopped.
    pub is_stopping: bool,
    /// Between the polite signal and the kill, as it was started with, in milliseconds.
    pub grace_ms: u64,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    /// The run.
    pub run: RunRef,
    /// How its first process ended.
    pub end: End,
    /// Whether any of its processes was killed for memory, and on whose account.
    pub memory_kill: MemoryKill,
    /// When the shim saw all of it gone, in milliseconds of CLOCK_BOOTTIME.
    pub at_boottime_ms: u64,
    /// On whose behalf.
    pub cause: Cause,
}

/// How the first process of a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// There never was a process: it could not be executed, for this reason.
    StartFailed(String),
    /// There never was a process, and never will be: it was stopped before. Why, in words.
    NeverStarted(String),
    /// Nobody saw it.
    Unseen,
}

/// How a program beside a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeEnd {
    /// With exit code 0.
    Success,
    /// In any other way; how, for people.
    Failure(String),
    /// This machine could not run it; why, for people.
    NotRun(String),
}

/// On whose behalf a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Its own.
    Own,
    /// The agent asked for it.
    Stopped,
    /// The lease of the node ran out.
    LeaseExpired,
    /// It ran longer than its spec allows.
    DeadlineExceeded,
    /// The shim died, or its guard, and the run with it.
    ShimDied,
    /// The machine was booted anew.
    Rebooted,
    /// The shim was told to end, and its runs with it.
    ShimEnded,
}

impl EndedRun {
    /// The end in the words of the cell. Why a run was stopped is the agent's knowledge; here it keeps its exit.
    pub fn exit(&self) -> Exit {
        match (&self.cause, &self.end) {
            (Cause::LeaseExpired, _) => Exit::LeaseExpired,
            (Cause::ShimDied | Cause::Rebooted, _) | (_, End::Unseen) => Exit::Vanished,
            (_, End::NeverStarted(_)) => Exit::NeverStarted,
            (Cause::ShimEnded, _) => Exit::NodeShutdown,
            (_, End::StartFailed(_)) => Exit::StartFailed,
            (_, End::Code(0)) => Exit::Code(0),
            (_, End::Code(code)) => self.for_memory().unwrap_or(Exit::Code(*code)),
            (_, End::Signal(signal)) => self.for_memory().unwrap_or(Exit::Signal(*signal)),
        }
    }

    fn for_memory(&self) -> Option<Exit> {
        match self.memory_kill {
            MemoryKill::None => None,
            MemoryKill::OverLimit => Some(Exit::OutOfMemory),
            MemoryKill::OverRequest => Some(Exit::OverRequest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_specs_are_named() {
        let mut small = RunSpec::new(["true"]);
        small.resources.limits.memory_bytes = 1;
        let mut named = RunSpec::new(["true"]);
        named.environment.push(("A=B".into(), String::new()));
        for (spec, word) in [
            (RunSpec::new(Vec::<String>::new()), "empty"),
            (RunSpec::new(["a\0b"]), "zero byte"),
            (small, "too small"),
            (named, "A=B"),
        ] {
            assert!(spec.check().unwrap_err().contains(word));
        }
        assert_eq!(RunSpec::new(["true"]).check(), Ok(()));
    }

    #[test]
    fn the_lease_and_the_shim_are_never_charged_to_the_task() {
        let run = RunRef::new(ohm_model::JobId(1), 0, 0, 1);
        let killed = |end, memory_kill, cause| EndedRun { run, end, memory_kill, at_boottime_ms: 0, cause }.exit();
        let ended = |end, cause| killed(end, MemoryKill::None, cause);
        assert_eq!(ended(End::Signal(9), Cause::LeaseExpired), Exit::LeaseExpired);
        assert_eq!(ended(End::Signal(9), Cause::ShimDied), Exit::Vanished);
        assert_eq!(ended(End::Signal(15), Cause::ShimEnded), Exit::NodeShutdown);
        assert_eq!(ended(End::NeverStarted(String::new()), Cause::ShimEnded), Exit::NeverStarted);
        assert_eq!(killed(End::Signal(9), MemoryKill::OverLimit, Cause::Own), Exit::OutOfMemory);
        assert_eq!(killed(End::Code(0), MemoryKill::OverLimit, Cause::Own), Exit::Code(0));
        assert_eq!(killed(End::Signal(9), MemoryKill::OverRequest, Cause::Own), Exit::OverRequest);
        // A child was killed, and its parent gave up.
        assert_eq!(killed(End::Code(1), MemoryKill::OverRequest, Cause::Own), Exit::OverRequest);
        assert_eq!(killed(End::Signal(9), MemoryKill::OverRequest, Cause::LeaseExpired), Exit::LeaseExpired);
    }
}
