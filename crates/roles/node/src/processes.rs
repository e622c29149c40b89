//! Processes by identity: a process id alone is only a number that the kernel gives out again.
//!
//! Everything is read through one handle on `/proc` opened early, because the shim later mounts another `/proc` over
//! it for its tasks (see [`crate::shim`]) while process ids here stay those of the host.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};

/// What names one process for as long as this boot lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// The process id, as the host counts.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time_ticks: u64,
}

/// The part of `/proc/PID/stat` that the shim needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The state letter: `Z` has ended and waits to be reaped.
    pub state: u8,
    /// Its process group.
    pub group: u32,
    /// Kernel flags (`PF_*`).
    pub flags: u32,
    /// When it started, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// How a process in state `Z` ended, as `wait` tells it; 0 where the kernel does not say.
    pub exit_status: i32,
}

/// `PF_EXITING`: the process is on its way out.
const FLAG_EXITING: u32 = 0x4;
/// No environment is read further than this.
const ENVIRONMENT_BYTES_MAX: u64 = 4 << 20;

impl Stat {
    /// Whether the process has ended or is about to.
    pub fn is_ending(&self) -> bool {
        matches!(self.state, b'Z' | b'X') || self.flags & FLAG_EXITING != 0
    }

    /// Parses one line of `/proc/PID/stat`. The name in parentheses may itself hold parentheses and blanks.
    pub fn parse(line: &str) -> Option<Stat> {
        let after_name = line.rsplit_once(')')?.1;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        Some(Stat {
            state: *fields.first()?.as_bytes().first()?,
            group: fields.get(2)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            start_time_ticks: fields.get(19)?.parse().ok()?,
            exit_status: fields.get(49).and_then(|field| field.parse().ok()).unwrap_or(0),
        })
    }
}

/// A handle on one `/proc`.
#[derive(Debug)]
pub struct Processes {
    folder: File,
}

impl Processes {
    /// Opens the `/proc` that is mounted now.
    pub fn open() -> io::Result<Self> {
        Ok(Processes { folder: File::open("/proc")? })
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = File::from(openat(&self.folder, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?);
        let mut bytes = Vec::new();
        file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// `/proc/vmstat`: what the kernel counts of the whole machine's memory; empty where it can't be read.
    pub fn vm_statistics(&self) -> String {
        String::from_utf8_lossy(&self.read("vmstat").unwrap_or_default()).into_owned()
    }

    /// Sets how early the kernel takes the memory of `pid`, and of what it starts from now on, when that of the node
    /// ends. To be called only while the number can't be given out again.
    pub fn set_oom_points(&self, pid: u32, points: u64) -> io::Result<()> {
        let path = format!("{pid}/oom_score_adj");
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.folder, path.as_str(), flags, Mode::empty())?);
        file.write_all(points.to_string().as_bytes())
    }

    /// What the kernel says about `pid`; nothing when there is no such process.
    pub fn stat(&self, pid: u32) -> Option<Stat> {
        let bytes = self.read(&format!("{pid}/stat")).ok()?;
        Stat::parse(&String::from_utf8_lossy(&bytes))
    }

    /// The identity of the process that has `pid` now.
    pub fn identity(&self, pid: u32) -> Option<Identity> {
        Some(Identity { pid, start_time_ticks: self.stat(pid)?.start_time_ticks })
    }

    /// Whether that very process still exists and has not ended.
    pub fn is_alive(&self, identity: Identity) -> bool {
        self.stat(identity.pid).is_some_and(|stat| {
            stat.start_time_ticks == identity.start_time_ticks && !matches!(stat.state, b'Z' | b'X')
        })
    }

    /// The children of the main thread of `pid`.
    pub fn children(&self, pid: u32) -> Vec<u32> {
        let bytes = self.read(&format!("{pid}/task/{pid}/children")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// `pid` and everything that descends from it, parents first.
    pub fn tree(&self, pid: u32) -> Vec<Identity> {
        let mut tree: Vec<Identity> = self.identity(pid).into_iter().collect();
        let mut next = 0;
        while next < tree.len() {
            let children = self.children(tree[next].pid);
            tree.extend(children.into_iter().filter_map(|child| self.identity(child)));
            next += 1;
        }
        tree
    }

    /// Whether the environment that `pid` was started with holds exactly all `pairs` (`NAME=VALUE`). None while that
    /// cannot be seen: the process has ended, or is in the midst of an exec. Those of other people and of the kernel,
    /// which may not be read, hold nothing.
    pub fn has_environment(&self, pid: u32, pairs: &[&str]) -> Option<bool> {
        let environment = self.read(&format!("{pid}/environ"));
        match &environment {
            Ok(bytes) if !bytes.is_empty() => {
                let has = |pair: &&str| bytes.split(|byte| *byte == 0).any(|entry| entry == pair.as_bytes());
                return Some(pairs.iter().all(has));
            }
            _ => self.stat(pid).filter(|stat| !stat.is_ending())?,
        };
        // The kernel fills in environment and arguments at once, late in an exec.
        let has_arguments = || self.read(&format!("{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        (environment.is_err() || has_arguments()).then_some(false)
    }

    /// All processes whose environment holds exactly the pair `NAME=VALUE`, and whether there are others of which that
    /// cannot be seen yet. Walks the whole of the `/proc` that is mounted now, so it is for rare moments only.
    pub fn with_environment(&self, pair: &str) -> io::Result<(Vec<Identity>, bool)> {
        let (mut found, mut has_unseen) = (Vec::new(), false);
        for entry in std::fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Some(identity) = self.identity(pid) else { continue };
            match self.has_environment(pid, &[pair]) {
                Some(true) => found.push(identity),
                Some(false) => {}
                None => has_unseen |= self.is_alive(identity),
            }
        }
        Ok((found, has_unseen))
    }

    /// Sends SIGKILL to that very process; whether it was there. Between the look and the signal lie microseconds in
    /// which the kernel would have to run once through all process ids.
    pub fn kill_verified(&self, identity: Identity) -> bool {
        self.is_alive(identity)
            && checked(identity.pid).is_ok_and(|pid| kill(pid, Signal::SIGKILL).is_ok() || kill(pid, None).is_ok())
    }
}

/// Process ids 0 and 1 and everything that turns negative mean "many processes" to the kernel.
fn checked(pid: u32) -> Result<Pid, Errno> {
    match i32::try_from(pid) {
        Ok(raw) if raw > 1 => Ok(Pid::from_raw(raw)),
        _ => Err(Errno::ESRCH),
    }
}

/// Signals the process group `leader`. To be called only while the leader has not been reaped, which keeps the number
/// from being given out again.
pub fn signal_group(leader: u32, signal: Signal) -> Result<(), Errno> {
    killpg(checked(leader)?, signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_parser() {
        let line = "77 (a) b (c) S 1 77 77 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 991 8 9";
        let expected = Stat { state: b'S', group: 77, flags: 4_194_304, start_time_ticks: 991, exit_status: 0 };
        assert_eq!(Stat::parse(line), Some(expected));
        for broken in ["", "77", "77 (sh", "77 (sh) S 1", "77 (sh) S x y z"] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_process_with_another_start_time_is_not_killed() {
        let processes = Processes::open().unwrap();
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let identity = processes.identity(child.id()).unwrap();
        let other = Identity { start_time_ticks: identity.start_time_ticks + 1, ..identity };
        assert!(!processes.kill_verified(other));
        assert!(processes.is_alive(identity));
        assert!(processes.kill_verified(identity));
        child.wait().unwrap();
        assert!(!processes.kill_verified(identity));
    }

    #[test]
    fn numbers_that_mean_many_processes_are_refused() {
        for pid in [0, 1, u32::MAX, i32::MAX as u32 + 1] {
            assert_eq!(signal_group(pid, Signal::SIGKILL), Err(Errno::ESRCH));
        }
    }
}
