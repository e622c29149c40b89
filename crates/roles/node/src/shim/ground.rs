//! What runs stand on, and what can be done to their processes: start, signal, find the rest.

use super::beside::{Output, Starter};
use super::fence::Fence;
use super::folder;
use super::guard::{Guard, GuardStarter};
use super::launch::{LaunchError, Launcher};
use super::lease::LeaseReader;
use super::oom::{self, KernelKills};
use super::protocol::RunSpec;
use crate::cgroup::{Cgroups, Slot};
use crate::clock;
use crate::processes::{Processes, signal_group};
use nix::sys::signal::Signal;
use ohm_agent::may_start;
use ohm_model::{Incarnation, RunRef};
use std::path::PathBuf;

/// What the shim stands on; gathered when it starts.
pub(super) struct Ground {
    pub(super) folder: PathBuf,
    pub(super) processes: Processes,
    pub(super) guard: Guard,
    pub(super) guard_starter: GuardStarter,
    pub(super) cgroups: Option<Cgroups>,
    pub(super) fence: Fence,
    pub(super) lease: LeaseReader,
    pub(super) fence_lead_ms: u64,
    /// The memory of this machine, in bytes.
    pub(super) memory_bytes: u64,
    pub(super) kernel_kills: KernelKills,
    pub(super) beside: Starter,
}

impl Ground {
    /// How long it takes until the fence may end a task that was ordered under `registration` and is started now;
    /// nothing if it may not be started.
    pub(super) fn fence_in_ms(&mut self, registration: Incarnation) -> Option<u64> {
        let (lease, now_ms) = (self.lease.read(), clock::boottime_ms());
        let may = may_start(now_ms, lease.deadline_ms, self.fence_lead_ms) && lease.incarnation <= registration.0;
        may.then(|| lease.deadline_ms.saturating_sub(now_ms.saturating_add(self.fence_lead_ms)))
    }

    /// Where no group says it, the kernel is asked once in a while whether it killed for memory.
    pub(super) fn look_at_memory(&mut self, now_ms: u64) {
        if !self.cgroups.as_ref().is_some_and(Cgroups::count_memory) {
            self.kernel_kills.look(&self.processes, now_ms);
        }
    }

    pub(super) fn guard_is_ending(&self) -> bool {
        self.guard.has_namespace
            && self
                .processes
                .stat(self.guard.identity.pid)
                .is_none_or(|stat| stat.is_ending() || stat.start_time_ticks != self.guard.identity.start_time_ticks)
    }

    /// Starts the first process of `run`, born into its slot. We stand in the slot afterwards.
    pub(super) fn launch(
        &mut self,
        launcher: &mut Launcher,
        run: RunRef,
        spec: &RunSpec,
    ) -> Result<(u32, Option<Slot>), LaunchError> {
        let started = self.start_in_slot(launcher, run, spec)?;
        let (pid, slot) = &started;
        let is_held = slot.as_ref().is_some_and(Slot::counts_memory);
        if let Some(points) = oom::points(&spec.resources, self.memory_bytes, is_held) {
            // It may have ended already, or have as many points as its starter, who may not take any.
            let _ = self.processes.set_oom_points(*pid, points);
        }
        Ok(started)
    }

    /// Starts a program beside the task of `run`.
    pub(super) fn launch_beside(
        &self,
        launcher: &Launcher,
        (run, spec): (RunRef, &RunSpec),
        slot: Option<&Slot>,
        command: &[String],
    ) -> Result<(u32, Output), LaunchError> {
        let (pid, output) = self.beside.start(launcher, (run, spec), slot, command)?;
        let is_held = slot.is_some_and(Slot::counts_memory);
        if let Some(points) = oom::points(&spec.resources, self.memory_bytes, is_held) {
            let _ = self.processes.set_oom_points(pid, points);
        }
        Ok((pid, output))
    }

    fn start_in_slot(
        &mut self,
        launcher: &mut Launcher,
        run: RunRef,
        spec: &RunSpec,
    ) -> Result<(u32, Option<Slot>), LaunchError> {
        let Some(cgroups) = &mut self.cgroups else { return Ok((launcher.start(run, spec)?, None)) };
        let machine = |error: std::io::Error| LaunchError::Machine(format!("no cgroup: {error}"));
        let slot = cgroups.acquire(spec.resources).map_err(machine)?;
        let started = cgroups.enter(&slot).map_err(machine).and_then(|()| launcher.start(run, spec));
        match started {
            Ok(pid) => Ok((pid, Some(slot))),
            Err(error) => {
                // Failing here is met again, and dealt with, at the end of the batch.
                let _ = cgroups.leave();
                cgroups.release(slot);
                Err(error)
            }
        }
    }

    /// Sends SIGKILL to everything of a run whose first process has not been reaped.
    pub(super) fn kill(&self, leader: u32, slot: Option<&Slot>) {
        let group = slot.and_then(Slot::group);
        if group.is_none_or(|group| group.kill().is_err()) {
            // Those that left the process group are found as descendants as long as their parents live.
            let tree = self.processes.tree(leader);
            for identity in tree.into_iter().rev() {
                self.processes.kill_verified(identity);
            }
        }
        let _ = signal_group(leader, Signal::SIGKILL);
    }

    /// Processes that lost their parents and have come to the guard, or without a namespace to us.
    pub(super) fn orphans(&self, is_leader: impl Fn(u32) -> bool) -> Vec<u32> {
        let us = std::process::id();
        let parent = if self.guard.has_namespace { self.guard.identity.pid } else { us };
        let mut orphans = self.processes.children(parent);
        orphans.retain(|pid| *pid != self.guard.identity.pid && !is_leader(*pid));
        orphans
    }

    /// Kills what is left of a run whose first process is gone; whether there was anything. Without a cgroup it is
    /// looked for among `orphans`, by process group and by mark.
    pub(super) fn kill_leftovers(&self, run: RunRef, leader: u32, slot: Option<&Slot>, orphans: &[u32]) -> bool {
        if let Some(group) = slot.and_then(Slot::group) {
            let has_some = !group.is_empty();
            if has_some && let Err(error) = group.kill() {
                tracing::warn!(%run, %error, "cgroup not killed");
            }
            return has_some;
        }
        let (name, mark) = (format!("OHM_RUN={run}"), folder::mark(&self.folder));
        let mut has_some = false;
        for orphan in orphans {
            let Some(stat) = self.processes.stat(*orphan).filter(|stat| !stat.is_ending()) else {
                // Whose it was cannot be seen any more, and its children are about to come here: look again.
                has_some = true;
                continue;
            };
            let is_ours = stat.group == leader || {
                let seen = self.processes.has_environment(*orphan, &[&name, &mark]);
                has_some |= seen.is_none();
                seen == Some(true)
            };
            if is_ours {
                has_some = true;
                for identity in self.processes.tree(*orphan) {
                    self.processes.kill_verified(identity);
                }
            }
        }
        has_some
    }
}
