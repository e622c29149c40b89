//! One run's group in each hierarchy it uses.

use super::layout::{Controller, Version};
use super::limits::Resources;
use super::memory::{Counters, MemoryKill};
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
    resources: Resources,
    parts: Vec<Part>,
    killer: Option<GroupOfRun>,
    /// What its memory had counted when its run began.
    before: Counters,
}

impl Slot {
    pub(super) fn new(number: u32, resources: Resources) -> Self {
        Slot { number, resources, parts: Vec::new(), killer: None, before: Counters::default() }
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
        let has_memory = controllers.contains(&Controller::Memory);
        self.parts.push(Part { hierarchy, version, folder: folder.clone(), has_memory });
        if kills {
            self.killer = Some(GroupOfRun { folder: Arc::from(folder.as_path()), version });
        }
        for controller in controllers.iter().filter(|one| self.resources.wants(**one)) {
            write_resource(&folder, version, *controller, &self.resources)?;
        }
        self.renew();
        Ok(())
    }

    /// The number that names its folders.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn resources(&self) -> Resources {
        self.resources
    }

    pub(super) fn folder(&self, hierarchy: usize) -> Option<&Path> {
        self.parts.iter().find(|part| part.hierarchy == hierarchy).map(|part| part.folder.as_path())
    }

    /// The files that list the processes of its groups: what is written there joins them.
    pub fn process_files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.parts.iter().map(|part| part.folder.join("cgroup.procs"))
    }

    /// The handle that kills; none when no hierarchy can.
    pub fn group(&self) -> Option<&GroupOfRun> {
        self.killer.as_ref()
    }

    /// Whether the memory of its run is counted, and its limit of memory enforced.
    pub fn counts_memory(&self) -> bool {
        self.parts.iter().any(|part| part.has_memory)
    }

    /// Whether a process of this run was killed for memory, and on whose account.
    pub fn memory_kill(&self) -> MemoryKill {
        self.counters().kill_since(&self.before, &self.resources)
    }

    fn counters(&self) -> Counters {
        let part = self.parts.iter().find(|part| part.has_memory);
        part.map(|part| Counters::read(&part.folder, part.version)).unwrap_or_default()
    }

    /// Makes the slot ready for its next run.
    pub(super) fn renew(&mut self) {
        self.before = self.counters();
    }

    /// Whether the next run would get what it is to get in full, and its memory be judged by itself: files in memory
    /// stay charged to the group they were made in, and the most that a group took is never forgotten.
    pub(super) fn is_clean(&self) -> bool {
        let Some(part) = self.parts.iter().find(|part| part.has_memory) else { return true };
        let Resources { requests, limits } = self.resources;
        if requests.memory_bytes == 0 && limits.memory_bytes == 0 {
            return true;
        }
        let file = match part.version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        };
        let text = fs::read_to_string(part.folder.join(file)).unwrap_or_default();
        let is_empty = text.trim().parse::<u64>().is_ok_and(|bytes| bytes <= MEMORY_LEFT_BYTES_MAX);
        is_empty && !self.counters().has_peak_over(requests.memory_bytes)
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

fn write_resource(folder: &Path, version: Version, controller: Controller, resources: &Resources) -> io::Result<()> {
    let Resources { requests, limits } = resources;
    let write = |file: &str, value: String| {
        fs::write(folder.join(file), value)
            .map_err(|error| io::Error::new(error.kind(), format!("{}/{file}: {error}", folder.display())))
    };
    match (controller, version) {
        (Controller::Cpu, Version::Two) => write("cpu.weight", requests.cpu_weight().to_string()),
        (Controller::Cpu, Version::One) => write("cpu.shares", requests.cpu_shares().to_string()),
        (Controller::CpuQuota, version) => {
            let quota_us = (u64::from(limits.cpu_millicores) * CPU_PERIOD_US / 1000).max(CPU_QUOTA_US_MIN);
            if version == Version::Two {
                return write("cpu.max", format!("{quota_us} {CPU_PERIOD_US}"));
            }
            write("cpu.cfs_period_us", CPU_PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", quota_us.to_string())
        }
        (Controller::Memory, Version::Two) => {
            // One process of a run that is out of memory leaves a broken run: the run ends whole. All but the limit are
            // extras.
            let _ = write("memory.oom.group", "1".into());
            if requests.memory_bytes > 0 {
                let _ = write("memory.low", requests.memory_bytes.to_string());
            }
            if limits.memory_bytes == 0 {
                return Ok(());
            }
            let _ = write("memory.swap.max", "0".into());
            write("memory.max", limits.memory_bytes.to_string())
        }
        (Controller::Memory, Version::One) if limits.memory_bytes == 0 => Ok(()),
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
