//! Processes that outlived their shim: found by identity, by the mark in their environment and by cgroup, and ended.

use super::folder::mark;
use super::journal::{self, Replayed};
use super::protocol::{Cause, End, EndedRun};
use super::{ShimError, cgroup_name};
use crate::cgroup::Cgroups;
use crate::cgroup::MemoryKill;
use crate::clock;
use crate::processes::{Identity, Processes};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process in the midst of an exec, whoever it belongs to, may take until its environment is seen.
const BIRTH: Duration = Duration::from_secs(2);

/// Kills everything that any shim of `folder` has left, and returns when all of it is gone.
pub(super) fn end_all(folder: &Path) -> Result<(), ShimError> {
    let replayed = journal::replay(folder).map_err(|source| ShimError::file(folder.join("journal"), source))?;
    end_processes(folder, &replayed)?;
    // Setting up the groups empties them first.
    Cgroups::open(&cgroup_name(folder))?;
    Ok(())
}

/// Kills what the journal names or the mark shows. A process of the same number but another start time is left alone,
/// and so is everything if the machine has been booted since.
pub(super) fn end_processes(folder: &Path, replayed: &Replayed) -> Result<(), ShimError> {
    let processes = Processes::open()?;
    let is_same_boot = clock::boot_id()? == replayed.boot;
    let named = replayed.open.values().flatten().filter(|_| is_same_boot);
    let mut targets: Vec<Identity> = named.flat_map(|identity| tree(&processes, *identity)).collect();
    let mark = mark(folder);
    let (end, births_end) = (Instant::now() + PATIENCE, Instant::now() + BIRTH);
    loop {
        let (found, has_unseen) = processes.with_environment(&mark)?;
        targets.extend(found);
        targets.retain(|identity| processes.is_alive(*identity));
        if targets.is_empty() && (!has_unseen || Instant::now() > births_end) {
            return Ok(());
        }
        if let Some(first) = targets.first().filter(|_| Instant::now() > end) {
            return Err(ShimError::ProcessStays { pid: first.pid });
        }
        for identity in &targets {
            processes.kill_verified(*identity);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tree(processes: &Processes, root: Identity) -> Vec<Identity> {
    if processes.is_alive(root) { processes.tree(root.pid) } else { Vec::new() }
}

/// The ends of runs that nobody saw end; to be called once their processes are gone.
pub(super) fn unseen_ends(replayed: &Replayed, boot: &str) -> Vec<EndedRun> {
    let cause = if replayed.boot == boot { Cause::ShimDied } else { Cause::Rebooted };
    let at_boottime_ms = clock::boottime_ms();
    let end = |run| EndedRun { run, end: End::Unseen, memory_kill: MemoryKill::None, at_boottime_ms, cause };
    replayed.open.keys().copied().map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::{JobId, RunRef};
    use std::process::Command;

    #[test]
    fn only_the_very_process_of_the_journal_and_marked_ones_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let processes = Processes::open().unwrap();
        let sleep = || Command::new("/bin/sleep").arg("600").spawn().unwrap();
        let (mut meant, mut reused, mut other_boot) = (sleep(), sleep(), sleep());
        let mark = mark(folder.path());
        let (name, value) = mark.split_once('=').unwrap();
        let mut marked = Command::new("/bin/sleep").arg("600").env(name, value).spawn().unwrap();
        let identity = |pid| processes.identity(pid).unwrap();
        let older = |pid| Identity { start_time_ticks: identity(pid).start_time_ticks - 1, ..identity(pid) };

        let run = |task| RunRef::new(JobId(1), 0, task, 1);
        let mut replayed = Replayed { boot: clock::boot_id().unwrap(), ..Replayed::default() };
        replayed.open.insert(run(0), Some(identity(meant.id())));
        replayed.open.insert(run(1), Some(older(reused.id())));
        replayed.open.insert(run(2), None);
        // Children of this test stay as zombies, which are not alive.
        end_processes(folder.path(), &replayed).unwrap();
        assert!(!processes.is_alive(identity(meant.id())) && !processes.is_alive(identity(marked.id())));
        assert!(processes.is_alive(identity(reused.id())));

        let mut elsewhere = Replayed { boot: "another".into(), ..Replayed::default() };
        elsewhere.open.insert(run(0), Some(identity(other_boot.id())));
        end_processes(folder.path(), &elsewhere).unwrap();
        assert!(processes.is_alive(identity(other_boot.id())));
        assert_eq!(unseen_ends(&elsewhere, "boot")[0].cause, Cause::Rebooted);
        for child in [&mut meant, &mut reused, &mut other_boot, &mut marked] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
