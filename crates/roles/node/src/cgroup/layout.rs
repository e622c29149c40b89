//! Which cgroup hierarchies this machine has, and where in them this process stands.

use std::path::{Path, PathBuf};

/// What a hierarchy may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// CPU time, by weight.
    Cpu,
    /// Bounds on CPU time, which some kernels are built without; a part of the controller for CPU time.
    CpuQuota,
    /// Memory.
    Memory,
    /// The number of processes.
    Pids,
    /// Stopping all processes of a group at once (version 1 only; version 2 always can).
    Freezer,
}

impl Controller {
    const ALL: [Controller; 4] = [Controller::Cpu, Controller::Memory, Controller::Pids, Controller::Freezer];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::CpuQuota => "cpu limits",
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Freezer => "freezer",
        }
    }
}

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Which interface it speaks.
    pub version: Version,
    /// Where it is mounted.
    pub root: PathBuf,
    /// The folder of the group that this process is in.
    pub own: PathBuf,
    /// Controllers bound to it; empty for version 2, which lists them in `cgroup.controllers`.
    pub controllers: Vec<Controller>,
}

/// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`. Mounts that lie outside of what this process can see, and
/// version 1 hierarchies without a controller of use here, are left out.
pub fn mounts(mount_info: &str, own_groups: &str) -> Vec<Mount> {
    mount_info.lines().filter_map(|line| mount(line, own_groups)).collect()
}

fn mount(line: &str, own_groups: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let fields: Vec<&str> = before.split(' ').collect();
    let (inner_root, root) = (fields.get(3)?, PathBuf::from(fields.get(4)?));
    let mut after = after.split(' ');
    let version = match after.next()? {
        "cgroup2" => Version::Two,
        "cgroup" => Version::One,
        _ => return None,
    };
    let options: Vec<&str> = after.nth(1)?.split(',').collect();
    let controllers: Vec<Controller> = match version {
        Version::Two => Vec::new(),
        Version::One => Controller::ALL.into_iter().filter(|one| options.contains(&one.name())).collect(),
    };
    if version == Version::One && controllers.is_empty() {
        return None;
    }
    let own = own_groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        let mine = match version {
            Version::Two => names.is_empty(),
            Version::One => names.split(',').any(|name| name == controllers[0].name()),
        };
        mine.then_some(path)
    })?;
    // In a container the mount may show only a part of the hierarchy.
    let below = Path::new(own).strip_prefix(inner_root).ok()?;
    Some(Mount { version, own: root.join(below), root, controllers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_and_useless_ones_left_out() {
        let info = "24 1 0:1 / / rw - ext4 /dev/vda rw\n\
            30 24 0:20 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:5 - cgroup cgroup rw,cpu,cpuacct\n\
            31 24 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            32 24 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            33 24 0:23 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "9:name=systemd:/\n4:memory:/deep/er\n1:cpu,cpuacct:/\n0::/box/inner\n";
        let found = mounts(info, own);
        let shown: Vec<String> = found.iter().map(|one| format!("{:?} {}", one.version, one.own.display())).collect();
        assert_eq!(
            shown,
            [
                "One /sys/fs/cgroup/cpu,cpuacct/",
                "One /sys/fs/cgroup/memory/deep/er",
                "Two /sys/fs/cgroup/unified/inner"
            ]
        );
        assert_eq!(found[0].controllers, [Controller::Cpu]);
    }

    #[test]
    fn damaged_lines_are_skipped() {
        assert_eq!(mounts("garbage\n - \na b c - cgroup2\n1 2 3 / /x rw - cgroup2 cgroup2 rw\n", "nonsense"), []);
    }
}
