//! One process of the cell: started, watched, struck, and started again.

use crate::error::LiveError;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ohm_runtime::recorder::{DIRECTORY_VARIABLE, NAME_VARIABLE};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Between a death and the next start; grows while the process does not stay up.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const STEADY: Duration = Duration::from_secs(5);

/// What to start.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// Another program than this very one.
    pub(crate) path: Option<&'static str>,
    /// Higher ranks are stopped first.
    pub(crate) rank: u8,
    pub(crate) arguments: Vec<String>,
    pub(crate) log: PathBuf,
    pub(crate) records: PathBuf,
    /// Whether the kernel gives it and its children timers that send signals.
    pub(crate) has_timers: bool,
}

/// A child that comes back.
pub(crate) struct Process {
    pub(crate) program: Program,
    child: Option<Child>,
    changed: Instant,
    pause: Duration,
    /// How often it ended without having been struck.
    pub(crate) ended_by_itself: u32,
}

impl Process {
    pub(crate) fn start(program: Program) -> Result<Self, LiveError> {
        let child = Some(spawn(&program)?);
        Ok(Process { program, child, changed: Instant::now(), pause: PAUSE, ended_by_itself: 0 })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends a signal. A child is only ever signalled before its end was read, so its number can't be somebody else's.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
        {
            let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
        }
    }

    /// Waits for the end of a child that was killed; its process id.
    pub(crate) fn bury(&mut self) -> Option<u32> {
        let mut child = self.child.take()?;
        let _ = child.wait();
        self.changed = Instant::now();
        self.pause = PAUSE;
        Some(child.id())
    }

    /// Looks whether it ended by itself; the process id if it did just now.
    pub(crate) fn look(&mut self) -> Option<u32> {
        let child = self.child.as_mut()?;
        if matches!(child.try_wait(), Ok(None)) {
            return None;
        }
        let pid = child.id();
        self.child = None;
        self.pause = if self.changed.elapsed() > STEADY { PAUSE } else { (self.pause * 2).min(PAUSE_MAX) };
        self.changed = Instant::now();
        self.ended_by_itself += 1;
        Some(pid)
    }

    /// Starts it again once its pause is over.
    pub(crate) fn revive(&mut self) -> Result<(), LiveError> {
        if self.child.is_none() && self.changed.elapsed() >= self.pause {
            self.child = Some(spawn(&self.program)?);
            self.changed = Instant::now();
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(program: &Program) -> Result<Child, LiveError> {
    let failed = |error| LiveError::Start(program.name.clone(), error);
    let log = OpenOptions::new().create(true).append(true).open(&program.log).map_err(failed)?;
    let limit = if program.has_timers { None } else { Some(NoTimers::begin().map_err(failed)?) };
    // This very program, even if its file was replaced meanwhile; in a group of its own, since ctrl-C is for us.
    let child = Command::new(program.path.unwrap_or("/proc/self/exe"))
        .arg0(program.path.unwrap_or("ohm"))
        .args(&program.arguments)
        .env("OHM_PARENT", process::id().to_string())
        .env(DIRECTORY_VARIABLE, &program.records)
        .env(NAME_VARIABLE, &program.name)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(failed)?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(failed);
    drop(limit);
    child
}

/// As long as it lives, processes are started on a machine that has no room for timers that send signals.
struct NoTimers {
    soft: u64,
    hard: u64,
}

impl NoTimers {
    fn begin() -> io::Result<Self> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_SIGPENDING)?;
        setrlimit(Resource::RLIMIT_SIGPENDING, 0, hard)?;
        Ok(NoTimers { soft, hard })
    }
}

impl Drop for NoTimers {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::RLIMIT_SIGPENDING, self.soft, self.hard);
    }
}

/// A process that is not our child, told apart from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stranger {
    pub(crate) pid: u32,
    started: u64,
}

impl Stranger {
    fn find(pid: u32) -> Option<Stranger> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_gone = matches!(*fields.first()?, "Z" | "X");
        (!is_gone).then_some(Stranger { pid, started: fields.get(19)?.parse().ok()? })
    }

    /// The shim that keeps its state in `folder`, by the file in which it says who it is.
    pub(crate) fn shim(folder: &Path) -> Option<Stranger> {
        let text = fs::read_to_string(folder.join("shim.pid")).ok()?;
        let mut words = text.split_whitespace();
        let (pid, started): (u32, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Stranger::find(pid).filter(|found| found.started == started)
    }

    /// Everything that the shim of `folder` started, its guard included.
    pub(crate) fn marked(folder: &Path) -> BTreeSet<Stranger> {
        let mark = format!("OHM_SHIM={}", folder.display());
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let has_mark = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
        };
        pids.filter(has_mark).filter_map(Stranger::find).collect()
    }

    pub(crate) fn is_alive(&self) -> bool {
        Stranger::find(self.pid).as_ref() == Some(self)
    }

    pub(crate) fn kill(&self) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid.cast_signed()), Signal::SIGKILL);
        }
    }
}
