//! If the shim dies, its tasks die: the guard sees to that.
//!
//! **With a process namespace** (root, or CAP_SYS_ADMIN) the kernel does it alone. The shim stays in the host's
//! namespace and opens a new one for its children only; the guard is the first process in it. The guard asks for
//! SIGKILL at the death of its parent, and when the first process of a namespace dies, the kernel kills everything in
//! it: daemons, processes that stopped themselves, processes without any environment. Nothing in this chain is our code
//! running, so it also holds when shim, guard and agent are killed in one stroke. Tasks see only each other in `/proc`,
//! and cannot signal the agent or the machine; process ids in reports are the host's.
//!
//! **Without one** the guard is a process of its own session that waits for the end of a pipe whose other end the shim
//! holds, then kills what carries the shim's mark in its environment, and empties the cgroups. Killing shim and
//! guard at once leaves tasks until the next shim starts, and processes that shed both environment and cgroup are not
//! found; the shim says so as a warning.
//!
//! Looked at and not taken: `PR_SET_PDEATHSIG` in every task needs code between fork and exec (unsafe, +13 % per start
//! here, and grandchildren are not covered); `setpriv --pdeathsig` costs a second exec (2.4 times as much per start).

use super::{ShimError, leftovers};
use crate::processes::{Identity, Processes};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a guard may take to say that it is ready, or to end its work.
const GUARD_PATIENCE: Duration = Duration::from_secs(10);
const READY: &str = "ready";

/// The running guard, as the shim holds it.
#[derive(Debug)]
pub(super) struct Guard {
    /// Its identity.
    pub(super) identity: Identity,
    /// Whether it heads a process namespace.
    pub(super) has_namespace: bool,
    /// Closed by our death.
    _pipe: PipeWriter,
}

/// How to start a guard; gathered before `/proc` changes.
#[derive(Debug)]
pub(super) struct GuardStarter {
    program: PathBuf,
    folder: PathBuf,
    own_namespace: File,
}

impl GuardStarter {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(GuardStarter {
            program: super::client::this_program()?,
            folder: folder.to_path_buf(),
            own_namespace: File::open("/proc/self/ns/pid")?,
        })
    }

    /// Starts a guard, with a namespace if that is wanted and possible. Also says what could not be had.
    pub(super) fn start(&self, processes: &Processes, wants_namespace: bool) -> io::Result<(Guard, Option<String>)> {
        let mut warning = "process namespaces are switched off".to_owned();
        if wants_namespace {
            match self.start_in_namespace(processes) {
                Ok(guard) => return Ok((guard, None)),
                Err(error) => warning = format!("no process namespace ({error}; it takes CAP_SYS_ADMIN)"),
            }
        }
        // Orphans come to us then, not to the guard.
        prctl::set_child_subreaper(true)?;
        let guard = self.spawn(processes, false)?;
        let rest = "a guard process ends the tasks if the shim dies, but not if both are killed at once";
        Ok((guard, Some(format!("{warning}: {rest}"))))
    }

    fn start_in_namespace(&self, processes: &Processes) -> io::Result<Guard> {
        unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS)?;
        let started = private_mounts().and_then(|()| self.spawn(processes, true));
        if started.is_err() {
            // Without its first process the new namespace would take no children at all.
            setns(&self.own_namespace, CloneFlags::CLONE_NEWPID)?;
        }
        started
    }

    /// Starts another guard without a namespace, after one has died.
    pub(super) fn spawn(&self, processes: &Processes, has_namespace: bool) -> io::Result<Guard> {
        let (their_end, pipe) = io::pipe()?;
        let mut command = Command::new(&self.program);
        command.args(["shim", "--guard", "--dir"]).arg(&self.folder).current_dir("/");
        if has_namespace {
            command.arg("--in-namespace");
        }
        let mut child = command.stdin(Stdio::from(their_end)).stdout(Stdio::piped()).spawn()?;
        let ready = wait_until_ready(&mut child);
        let identity = processes.identity(child.id());
        match (ready, identity) {
            (Ok(()), Some(identity)) => Ok(Guard { identity, has_namespace, _pipe: pipe }),
            (ready, _) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(ready.err().unwrap_or_else(|| io::Error::other("the guard ended at once")))
            }
        }
    }
}

fn private_mounts() -> io::Result<()> {
    // What the host mounts later still comes in; what is mounted here does not go out.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    Ok(())
}

fn wait_until_ready(child: &mut Child) -> io::Result<()> {
    let Some(stdout) = child.stdout.take() else { return Err(io::Error::other("no pipe from the guard")) };
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(GUARD_PATIENCE).map_err(io::Error::other)?;
    if poll(&mut polled, patience)? == 0 {
        return Err(io::Error::other("the guard says nothing"));
    }
    let mut line = String::new();
    BufReader::new(stdout.take(4096)).read_line(&mut line)?;
    if line.trim() == READY { Ok(()) } else { Err(io::Error::other(format!("the guard says {:?}", line.trim()))) }
}

/// Waits until no guard of an earlier shim is at work any more.
pub(super) fn wait_for_predecessor(folder: &Path) -> Result<(), ShimError> {
    let end = Instant::now() + GUARD_PATIENCE;
    while lock(folder).is_err() {
        if Instant::now() > end {
            return Err(ShimError::GuardStays { path: lock_path(folder) });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn lock_path(folder: &Path) -> PathBuf {
    folder.join("guard.lock")
}

fn lock(folder: &Path) -> io::Result<Flock<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(lock_path(folder))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| io::Error::from(errno))
}

/// The guard process: `ohm shim --guard`, started by the shim only. Returns when its work is done.
pub(super) fn run_guard(folder: &Path, has_namespace: bool) -> Result<(), ShimError> {
    match prepare(folder, has_namespace) {
        Ok((_lock, signals)) => {
            say(READY)?;
            reap_until_end_of_input(&signals)?;
            // With a namespace our own end is the end of all.
            if has_namespace { Ok(()) } else { leftovers::end_all(folder) }
        }
        Err(error) => Ok(say(&error.to_string())?),
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

fn prepare(folder: &Path, has_namespace: bool) -> io::Result<(Flock<File>, SignalFd)> {
    // Failing is fine: only root may ask to be spared.
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = nix::unistd::setsid();
    let lock = lock(folder)?;
    if has_namespace {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)?;
    }
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    Ok((lock, SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
}

/// Orphans in a namespace become children of its first process, which must reap them.
fn reap_until_end_of_input(signals: &SignalFd) -> io::Result<()> {
    let mut input = io::stdin().lock();
    loop {
        let mut polled =
            [PollFd::new(input.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            result => result?,
        };
        let has_input = polled[0].revents().is_some_and(|events| !events.is_empty());
        while matches!(signals.read_signal(), Ok(Some(_))) {}
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive) {}
        if has_input && input.read(&mut [0; 16])? == 0 {
            return Ok(());
        }
    }
}
