//! One run's group in each hierarchy it uses.

use super::layout::{Controller, Version};
use super::limits::Limits;
use crate::processes::{Identity, Processes};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Limits on CPU time are stated per this many microseconds.
const CPU_PERIOD_US: u64 = 100_000;
/// The kernel refuses quotas below one millisecond.
const CPU_QUOTA_US_MIN: u64 = 1_000;
/// A slot that holds more memory than this after its run is not used again.
const MEMORY_LEFT_BYTES_MAX: u64 = 1 << 20;
/// How often a group left by a dead shim is looked at until it is empty, 10 ms apart.
const CLEAR_LOOKS_MAX: u32 = 500;

#[derive(Debug)]
struct Part {
    hierarchy: usize,
    version: Version,
    folder: PathBuf,
    has_memory: bool,
}

/// The group that reaches all processes of a run; shared with the fence.
#[derive(Clone, Debug)]
pub struct GroupOfRun {
    folder: Arc<Path>,
    version: Version,
}

/// Room for one run.
#[derive(Debug)]
pub struct Slot {
    number: u32,
    limits: Limits,
    parts: Vec<Part>,
    killer: Option<GroupOfRun>,
    out_of_memory_before: u64,
}

impl Slot {
    pub(super) fn new(number: u32, limits: Limits) -> Self {
        Slot { number, limits, parts: Vec::new(), killer: None, out_of_memory_before: 0 }
    }

    pub(super) fn add(
        &mut self,
        hierarchy: usize,
        version: Version,
        folder: PathBuf,
        controllers: &[Controller],
        kills: bool,
    ) -> io::Result<()> {
        make(&folder)?;
        let has_memory = self.limits.memory_bytes > 0 && controllers.contains(&Controller::Memory);
        self.parts.push(Part { hierarchy, version, folder: folder.clone(), has_memory });
        if kills {
            self.killer = Some(GroupOfRun { folder: Arc::from(folder.as_path()), version });
        }
        for controller in controllers.iter().filter(|one| self.limits.wants(**one)) {
            write_limit(&folder, version, *controller, &self.limits)?;
        }
        self.renew();
        Ok(())
    }

    /// The number that names its folders.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn folder(&self, hierarchy: usize) -> Option<&Path> {
        self.parts.iter().find(|part| part.hierarchy == hierarchy).map(|part| part.folder.as_path())
    }

    /// The handle that kills; none when no hierarchy can.
    pub fn group(&self) -> Option<&GroupOfRun> {
        self.killer.as_ref()
    }

    /// Whether a process of this run was killed because the run took more memory than it may.
    pub fn ran_out_of_memory(&self) -> bool {
        self.out_of_memory_count() > self.out_of_memory_before
    }

    fn out_of_memory_count(&self) -> u64 {
        let Some(part) = self.parts.iter().find(|part| part.has_memory) else { return 0 };
        let file = match part.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(part.folder.join(file)).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Makes the slot ready for its next run.
    pub(super) fn renew(&mut self) {
        self.out_of_memory_before = self.out_of_memory_count();
    }

    /// Whether the next run would get its limits in full: files in memory stay charged to the group they were made in.
    pub(super) fn is_clean(&self) -> bool {
        let Some(part) = self.parts.iter().find(|part| part.has_memory) else { return true };
        let file = match part.version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        };
        let text = fs::read_to_string(part.folder.join(file)).unwrap_or_default();
        text.trim().parse::<u64>().is_ok_and(|bytes| bytes <= MEMORY_LEFT_BYTES_MAX)
    }

    /// Removes the folders; whether all are gone.
    pub(super) fn remove(&mut self) -> bool {
        self.parts.retain(|part| match fs::remove_dir(&part.folder) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
        self.parts.is_empty()
    }
}

impl GroupOfRun {
    /// Sends SIGKILL to every process in the group, also to those being born right now.
    pub fn kill(&self) -> io::Result<()> {
        if self.version == Version::Two && fs::write(self.folder.join("cgroup.kill"), "1").is_ok() {
            return Ok(());
        }
        // Frozen processes cannot fork away, and their numbers cannot be given out again before the signal.
        let (file, freeze, thaw) = match self.version {
            Version::One => ("freezer.state", "FROZEN", "THAWED"),
            Version::Two => ("cgroup.freeze", "1", "0"),
        };
        fs::write(self.folder.join(file), freeze)?;
        let killed = Processes::open().map(|processes| {
            for identity in self.members().filter_map(|pid| processes.identity(pid)) {
                processes.kill_verified(identity);
            }
        });
        fs::write(self.folder.join(file), thaw)?;
        killed
    }

    /// Whether no process is left in it. A group that cannot be read is not empty.
    pub fn is_empty(&self) -> bool {
        fs::read(self.folder.join("cgroup.procs")).is_ok_and(|bytes| bytes.is_empty())
    }

    fn members(&self) -> impl Iterator<Item = u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>().into_iter()
    }
}

fn write_limit(folder: &Path, version: Version, controller: Controller, limits: &Limits) -> io::Result<()> {
    let quota_us = (u64::from(limits.cpu_millicores) * CPU_PERIOD_US / 1000).max(CPU_QUOTA_US_MIN);
    let write = |file: &str, value: String| {
        fs::write(folder.join(file), value)
            .map_err(|error| io::Error::new(error.kind(), format!("{}/{file}: {error}", folder.display())))
    };
    match (controller, version) {
        (Controller::Cpu, Version::Two) => write("cpu.max", format!("{quota_us} {CPU_PERIOD_US}")),
        (Controller::Cpu, Version::One) => {
            write("cpu.cfs_period_us", CPU_PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", quota_us.to_string())
        }
        (Controller::Memory, Version::Two) => {
            // One process of a run that is out of memory leaves a broken run: the run ends whole. Both are extras.
            let _ = write("memory.oom.group", "1".into());
            let _ = write("memory.swap.max", "0".into());
            write("memory.max", limits.memory_bytes.to_string())
        }
        (Controller::Memory, Version::One) => write("memory.limit_in_bytes", limits.memory_bytes.to_string()),
        (Controller::Pids, _) => write("pids.max", limits.pids.to_string()),
        (Controller::Freezer, _) => Ok(()),
    }
}

/// Kills and removes the slots of an earlier shim in `folder`; version 1 hierarchies that cannot freeze are emptied
/// process by process.
pub(super) fn clear(folder: &Path, version: Version) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let group = GroupOfRun { folder: Arc::from(path.as_path()), version };
        let processes = Processes::open()?;
        for _ in 0..CLEAR_LOOKS_MAX {
            if group.members().next().is_none() && fs::remove_dir(&path).is_ok() {
                break;
            }
            if group.kill().is_err() {
                let members: Vec<Identity> = group.members().filter_map(|pid| processes.identity(pid)).collect();
                for identity in members {
                    processes.kill_verified(identity);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Makes one of our folders, if it is not there.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn join_or(texts: &[String], otherwise: &str) -> String {
    if texts.is_empty() { otherwise.to_owned() } else { texts.join("; ") }
}
