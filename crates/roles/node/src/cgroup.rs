//! Control groups: requests and limits of a run, and the one sure way to reach all of its processes, however they hide.
//!
//! Every run gets a **slot**: a group of its own in the hierarchy that can kill (version 2 with `cgroup.kill`, else the
//! version 1 freezer), in those of CPU and memory, and in each other whose limit it uses. What it asks for of CPU is a
//! weight, of memory (version 2) what is reclaimed last (`memory.low`); only limits are bounds. The shim steps into the
//! slot itself, starts the process, which is born inside, and steps out: no task ever runs a moment outside of its
//! group, and no code runs between fork and exec. Slots are used again for the same requests and limits, which saves
//! making and removing folders at thousands of starts per second; a slot that still holds memory of its last run, or
//! whose last run took more than it asked for, is thrown away instead.
//!
//! Machines mix: here limits may come from version 1 and killing from version 2. What is missing is said once, in
//! the warning of [`Cgroups`], and the rest is used.

pub mod layout;
mod limits;
mod memory;
mod slot;

use layout::{Controller, Mount, Version};
pub use limits::{Limits, MEMORY_BYTES_MIN, Requests, Resources};
pub use memory::MemoryKill;
use slot::make;
pub use slot::{GroupOfRun, Slot};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Most empty slots kept for later runs.
const FREE_SLOTS_MAX: usize = 256;

/// One hierarchy in use: our folder in it, and what it is good for.
#[derive(Debug)]
struct Hierarchy {
    version: Version,
    folder: PathBuf,
    /// The group this process belongs to outside of slots.
    origin: PathBuf,
    controllers: Vec<Controller>,
    kills: bool,
    /// The slot the shim stands in now.
    inside: Option<u32>,
}

/// The groups of one shim.
#[derive(Debug)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    free: BTreeMap<Resources, Vec<Slot>>,
    free_count: usize,
    next_number: u32,
    doomed: Vec<Slot>,
    /// What the runs in slots ask for.
    reserved: Reserved,
}

/// What runs ask for together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reserved {
    cpu_millicores: u64,
    memory_bytes: u64,
    /// What the group around all runs was given for its share of the processors.
    weighed_millicores: u64,
}

impl Cgroups {
    /// Sets up the groups below this process's own ones, under `name`. What a dead shim of that name left behind is
    /// killed and removed first. Also says what cannot be had, if anything.
    pub fn open(name: &str) -> io::Result<(Cgroups, Option<String>)> {
        let mounts =
            layout::mounts(&fs::read_to_string("/proc/self/mountinfo")?, &fs::read_to_string("/proc/self/cgroup")?);
        Ok(Cgroups::with_mounts(mounts, name))
    }

    fn with_mounts(mounts: Vec<Mount>, name: &str) -> (Cgroups, Option<String>) {
        let mut troubles = Vec::new();
        let mut hierarchies = Vec::new();
        for mount in mounts {
            match hierarchy(&mount, name) {
                Ok(hierarchy) => hierarchies.push(hierarchy),
                Err(error) => troubles.push(format!("{}: {error}", mount.own.display())),
            }
        }
        // A controller lives in one hierarchy only; of those that can kill, version 2 does it in one write.
        hierarchies.sort_by_key(|one| one.version == Version::One);
        let mut killer_found = false;
        for one in &mut hierarchies {
            let able = one.version == Version::Two || one.controllers.contains(&Controller::Freezer);
            one.kills = able && !killer_found;
            killer_found |= one.kills;
        }
        hierarchies.retain(|one| {
            let is_used = one.kills || one.controllers.iter().any(|two| *two != Controller::Freezer);
            if !is_used {
                // It was made to see what it can do; nothing else would ever remove it.
                let _ = fs::remove_dir(&one.folder);
            }
            is_used
        });
        let mut missing: Vec<&str> = [Controller::Cpu, Controller::CpuQuota, Controller::Memory, Controller::Pids]
            .into_iter()
            .filter(|wanted| !hierarchies.iter().any(|one| one.controllers.contains(wanted)))
            .map(Controller::name)
            .collect();
        if !killer_found {
            missing.push("killing by group");
        }
        let warning = (!missing.is_empty()).then(|| {
            format!("cgroups give no {} here ({})", missing.join(", "), slot::join_or(&troubles, "no such controller"))
        });
        let groups = Cgroups {
            hierarchies,
            free: BTreeMap::new(),
            free_count: 0,
            next_number: 0,
            doomed: Vec::new(),
            reserved: Reserved::default(),
        };
        (groups, warning)
    }

    /// Whether runs can be reached as groups at all.
    #[cfg(test)]
    fn can_kill(&self) -> bool {
        self.hierarchies.iter().any(|one| one.kills)
    }

    /// Whether the memory of runs is counted, and their limits of it enforced.
    pub fn count_memory(&self) -> bool {
        self.hierarchies.iter().any(|one| one.controllers.contains(&Controller::Memory))
    }

    /// A slot for `resources`: a free one or a new one.
    pub fn acquire(&mut self, resources: Resources) -> io::Result<Slot> {
        self.retire_doomed();
        let slot = match self.free.get_mut(&resources).and_then(Vec::pop) {
            Some(slot) => {
                self.free_count -= 1;
                slot
            }
            None => self.make_slot(resources)?,
        };
        let Requests { cpu_millicores, memory_bytes } = resources.requests;
        self.reserve(Reserved {
            cpu_millicores: self.reserved.cpu_millicores.saturating_add(cpu_millicores.into()),
            memory_bytes: self.reserved.memory_bytes.saturating_add(memory_bytes),
            ..self.reserved
        });
        Ok(slot)
    }

    fn make_slot(&mut self, resources: Resources) -> io::Result<Slot> {
        let number = self.next_number;
        self.next_number += 1;
        let mut slot = Slot::new(number, resources);
        for (index, one) in self.hierarchies.iter().enumerate() {
            let is_used = one.controllers.iter().any(|controller| resources.wants(*controller));
            if !(one.kills || is_used) {
                continue;
            }
            if let Err(error) =
                slot.add(index, one.version, one.folder.join(number.to_string()), &one.controllers, one.kills)
            {
                slot.remove();
                return Err(error);
            }
        }
        Ok(slot)
    }

    /// Moves this process into `slot`, so that what it starts next is born there.
    pub fn enter(&mut self, slot: &Slot) -> io::Result<()> {
        for (index, one) in self.hierarchies.iter_mut().enumerate() {
            let target = slot.folder(index).map(|_| slot.number());
            if one.inside == target {
                continue;
            }
            let folder = slot.folder(index).unwrap_or(&one.origin);
            fs::write(folder.join("cgroup.procs"), "0")?;
            one.inside = target;
        }
        Ok(())
    }

    /// Moves this process out of all slots. Until this has worked no slot that was entered may be killed.
    pub fn leave(&mut self) -> io::Result<()> {
        for one in self.hierarchies.iter_mut().filter(|one| one.inside.is_some()) {
            fs::write(one.origin.join("cgroup.procs"), "0")?;
            one.inside = None;
        }
        Ok(())
    }

    /// The kernel keeps for a group no more than for the one around it, and shares the processors between those first:
    /// so ours is to have what its runs ask for. Where it stands in a service with nothing of its own, that is nothing.
    /// The weight is written where it is a quarter off: it is a share of what others want, too, and each start would
    /// cost a write.
    fn reserve(&mut self, reserved: Reserved) {
        let before = std::mem::replace(&mut self.reserved, reserved);
        let (wanted, weighed) = (reserved.cpu_millicores.max(1_000), reserved.weighed_millicores);
        let is_off = wanted * 4 > weighed * 5 || wanted * 5 < weighed * 4;
        if is_off {
            self.reserved.weighed_millicores = wanted;
        }
        let sum = Requests { cpu_millicores: u32::try_from(wanted).unwrap_or(u32::MAX), memory_bytes: 0 };
        for one in &self.hierarchies {
            if one.version == Version::Two
                && one.controllers.contains(&Controller::Memory)
                && before.memory_bytes != reserved.memory_bytes
            {
                let _ = fs::write(one.folder.join("memory.low"), reserved.memory_bytes.to_string());
            }
            if is_off && one.controllers.contains(&Controller::Cpu) {
                let _ = match one.version {
                    Version::Two => fs::write(one.folder.join("cpu.weight"), sum.cpu_weight().to_string()),
                    Version::One => fs::write(one.folder.join("cpu.shares"), sum.cpu_shares().to_string()),
                };
            }
        }
    }

    /// Takes back a slot whose processes are all gone.
    pub fn release(&mut self, mut slot: Slot) {
        let Requests { cpu_millicores, memory_bytes } = slot.resources().requests;
        self.reserve(Reserved {
            cpu_millicores: self.reserved.cpu_millicores.saturating_sub(cpu_millicores.into()),
            memory_bytes: self.reserved.memory_bytes.saturating_sub(memory_bytes),
            ..self.reserved
        });
        if self.free_count < FREE_SLOTS_MAX && slot.is_clean() {
            slot.renew();
            self.free_count += 1;
            self.free.entry(slot.resources()).or_default().push(slot);
        } else if !slot.remove() {
            self.doomed.push(slot);
        }
    }

    /// A folder can stay busy for a moment after its last process; it is tried again later.
    fn retire_doomed(&mut self) {
        self.doomed.retain_mut(|slot| !slot.remove());
    }
}

/// Leaves nothing behind, as far as nobody is in it.
impl Drop for Cgroups {
    fn drop(&mut self) {
        for slot in self.free.values_mut().flatten().chain(&mut self.doomed) {
            slot.remove();
        }
        for one in &self.hierarchies {
            let _ = fs::remove_dir(&one.folder);
        }
    }
}

/// Makes our folder in one hierarchy.
fn hierarchy(mount: &Mount, name: &str) -> io::Result<Hierarchy> {
    let mut controllers = mount.controllers.clone();
    let mut folder = mount.own.join(name);
    if mount.version == Version::Two {
        (folder, controllers) = enable(mount, name)?;
        if !folder.join("cgroup.kill").exists() && !folder.join("cgroup.freeze").exists() {
            return Err(io::Error::other("neither cgroup.kill nor cgroup.freeze: kernel 5.2 or newer is needed"));
        }
    }
    make(&folder)?;
    let has_quota = ["cpu.max", "cpu.cfs_quota_us"].iter().any(|file| folder.join(file).exists());
    if controllers.contains(&Controller::Cpu) && has_quota {
        controllers.push(Controller::CpuQuota);
    }
    slot::clear(&folder, mount.version)?;
    Ok(Hierarchy { version: mount.version, folder, origin: mount.own.clone(), controllers, kills: false, inside: None })
}

/// Version 2 forbids processes beside groups with controllers, except at the root. So our folder goes below our own
/// group if that can be, else below the root of the mount, as container engines do it.
fn enable(mount: &Mount, name: &str) -> io::Result<(PathBuf, Vec<Controller>)> {
    let wanted = [Controller::Cpu, Controller::Memory, Controller::Pids];
    let mut best: Option<(PathBuf, Vec<Controller>)> = None;
    let mut trouble = io::Error::other("no version 2 group can be made");
    let bases = if mount.own == mount.root { vec![&mount.root] } else { vec![&mount.own, &mount.root] };
    for base in bases {
        let folder = base.join(name);
        if let Err(error) = make(&folder) {
            trouble = error;
            continue;
        }
        let has: Vec<Controller> = wanted
            .into_iter()
            .filter(|one| {
                let order = format!("+{}", one.name());
                fs::write(base.join("cgroup.subtree_control"), &order).is_ok()
                    && fs::write(folder.join("cgroup.subtree_control"), &order).is_ok()
            })
            .collect();
        let worse = match &best {
            Some((_, found)) if found.len() >= has.len() => Some((folder, has)),
            _ => best.replace((folder, has)),
        };
        if let Some((folder, _)) = worse {
            // Empties what a dead shim of that name left there, too.
            let _ = slot::clear(&folder, Version::Two).and_then(|()| fs::remove_dir(&folder));
        }
    }
    best.ok_or(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cgroup folders are files with an interface, so plain folders show what would be written.
    fn fake(version: Version, controllers: &[Controller], files: &[&str]) -> (tempfile::TempDir, Mount) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_path_buf();
        make(&root.join("ohm")).unwrap();
        for file in files {
            fs::write(root.join("ohm").join(file), "").unwrap();
        }
        let mount = Mount { version, own: root.clone(), root, controllers: controllers.to_vec() };
        (folder, mount)
    }

    fn resources(requests: (u32, u64), limits: (u32, u64)) -> Resources {
        let requests = Requests { cpu_millicores: requests.0, memory_bytes: requests.1 };
        Resources { requests, limits: Limits { cpu_millicores: limits.0, memory_bytes: limits.1, pids: 0 } }
    }

    #[test]
    fn version_two_is_told_in_its_words() {
        let (_folder, mount) = fake(Version::Two, &[], &["cgroup.kill", "cgroup.subtree_control", "cpu.max"]);
        let root = mount.root.clone();
        let (mut groups, warning) = Cgroups::with_mounts(vec![mount], "ohm");
        assert_eq!(warning, None);
        let mut wanted = resources((1500, 8 << 20), (2500, 16 << 20));
        wanted.limits.pids = 10;
        let slot = groups.acquire(wanted).unwrap();
        groups.enter(&slot).unwrap();
        let read = |file: &str| fs::read_to_string(root.join("ohm").join(file)).unwrap();
        assert_eq!((read("0/cpu.weight"), read("0/cpu.max")), ("150".into(), "250000 100000".into()));
        assert_eq!((read("0/memory.low"), read("0/memory.max")), ("8388608".into(), "16777216".into()));
        assert_eq!((read("0/pids.max"), read("0/cgroup.procs")), ("10".into(), "0".into()));
        assert!(groups.can_kill());
        // The group around all runs has what they ask for together, as long as they stand.
        assert_eq!(read("cpu.weight"), "150");
        let other = groups.acquire(resources((0, 1 << 20), (0, 0))).unwrap();
        assert_eq!(read("memory.low"), "9437184");
        groups.release(slot);
        groups.release(other);
        assert_eq!((read("memory.low"), read("cpu.weight")), ("0".into(), "100".into()));
    }

    #[test]
    fn a_version_two_kernel_without_quotas_is_one_without_limits() {
        let (_folder, mount) = fake(Version::Two, &[], &["cgroup.kill", "cgroup.subtree_control"]);
        let (mut groups, warning) = Cgroups::with_mounts(vec![mount], "ohm");
        assert!(warning.is_some_and(|warning| warning.contains("no cpu limits")));
        groups.acquire(resources((250, 0), (500, 0))).unwrap();
    }

    #[test]
    fn requests_alone_are_no_bounds() {
        let (_folder, mount) = fake(Version::Two, &[], &["cgroup.kill", "cgroup.subtree_control"]);
        let root = mount.root.clone();
        let (mut groups, _) = Cgroups::with_mounts(vec![mount], "ohm");
        groups.acquire(resources((10, 8 << 20), (0, 0))).unwrap();
        groups.acquire(Resources::default()).unwrap();
        for (slot, weight) in [("ohm/0", "1"), ("ohm/1", "1")] {
            let has = |file: &str| root.join(slot).join(file).exists();
            assert_eq!(fs::read_to_string(root.join(slot).join("cpu.weight")).unwrap(), weight);
            assert!(!["cpu.max", "memory.max", "memory.swap.max", "pids.max"].into_iter().any(has), "{slot}");
        }
    }

    #[test]
    fn version_one_fills_in_and_what_is_missing_is_said() {
        let (_folder, mount) = fake(Version::One, &[Controller::Cpu], &["cpu.cfs_quota_us"]);
        let root = mount.root.clone();
        let (mut groups, warning) = Cgroups::with_mounts(vec![mount], "ohm");
        let warning = warning.unwrap();
        assert!(warning.contains("no memory, pids, killing by group"), "{warning}");
        groups.acquire(resources((250, 0), (500, 0))).unwrap();
        groups.acquire(resources((250, 0), (0, 0))).unwrap();
        let read = |file: &str| fs::read_to_string(root.join("ohm").join(file));
        assert_eq!(
            (read("0/cpu.shares").unwrap(), read("0/cpu.cfs_quota_us").unwrap()),
            ("256".into(), "50000".into())
        );
        assert_eq!(read("1/cpu.shares").unwrap(), "256");
        assert!(read("1/cpu.cfs_quota_us").is_err());
        assert!(!groups.can_kill() && !groups.count_memory());
    }

    #[test]
    fn a_kernel_without_quotas_weighs_all_the_same() {
        let (_folder, mount) = fake(Version::One, &[Controller::Cpu, Controller::Memory], &[]);
        let root = mount.root.clone();
        let (mut groups, warning) = Cgroups::with_mounts(vec![mount], "ohm");
        let warning = warning.unwrap();
        assert!(warning.contains("no cpu limits, pids, killing by group"), "{warning}");
        groups.acquire(resources((250, 0), (500, 8 << 20))).unwrap();
        let read = |file: &str| fs::read_to_string(root.join("ohm/0").join(file));
        assert_eq!(read("cpu.shares").unwrap(), "256");
        assert_eq!(read("memory.limit_in_bytes").unwrap(), "8388608");
        assert!(read("cpu.cfs_quota_us").is_err() && groups.count_memory());
    }

    #[test]
    fn a_slot_whose_run_took_more_than_it_asked_for_is_not_used_again() {
        let (_folder, mount) = fake(Version::One, &[Controller::Memory], &[]);
        let root = mount.root.clone();
        let (mut groups, _) = Cgroups::with_mounts(vec![mount], "ohm");
        let mut number_after = |peak: u64| {
            let slot = groups.acquire(resources((0, 8 << 20), (0, 16 << 20))).unwrap();
            let folder = root.join("ohm").join(slot.number().to_string());
            fs::write(folder.join("memory.usage_in_bytes"), "0").unwrap();
            fs::write(folder.join("memory.max_usage_in_bytes"), peak.to_string()).unwrap();
            let number = slot.number();
            groups.release(slot);
            number
        };
        assert_eq!([8 << 20, (8 << 20) + 1, 0].map(&mut number_after), [0, 0, 1]);
    }

    #[test]
    fn folders_that_are_not_used_and_those_of_a_clean_end_are_gone() {
        let (_two, unified) = fake(Version::Two, &[], &["cgroup.kill", "cgroup.subtree_control"]);
        let freezer = tempfile::tempdir().unwrap();
        let root = freezer.path().to_path_buf();
        let controllers = vec![Controller::Freezer];
        let mount = Mount { version: Version::One, own: root.clone(), root: root.clone(), controllers };
        let (groups, _) = Cgroups::with_mounts(vec![unified, mount], "ohm");
        assert!(groups.can_kill());
        assert!(!root.join("ohm").exists(), "the version 2 group kills; the freezer is of no use");
    }

    #[test]
    fn the_version_one_freezer_kills_all_there_is() {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let mut mounts = layout::mounts(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        mounts.retain(|mount| mount.controllers.contains(&Controller::Freezer));
        let name = format!("ohm-test-{}", std::process::id());
        let (mut groups, _) = Cgroups::with_mounts(mounts, &name);
        let slot = groups.acquire(Resources::default()).unwrap();
        let Some(group) = slot.group().cloned() else {
            println!("not tested here: no writable version 1 freezer");
            return;
        };
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read go; trap '' TERM; sleep 600 & setsid sleep 600 & wait"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        fs::write(slot.folder(0).unwrap().join("cgroup.procs"), child.id().to_string()).unwrap();
        drop(child.stdin.take());
        assert!(!group.is_empty());
        group.kill().unwrap();
        child.wait().unwrap();
        while !group.is_empty() {
            group.kill().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        groups.release(slot);
    }
}
