//! How runs end: reaped, drained, timed out.

use super::super::fence::Step;
use super::super::journal::Record;
use super::super::protocol::{Cause, End, EndedRun};
use super::{AGAIN_MS, Phase, Runs};
use crate::cgroup::MemoryKill;
use crate::processes::{Stat, signal_group};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use ohm_model::RunRef;

impl Runs {
    /// Looks at ended processes before reaping them: until then their numbers are theirs.
    pub(super) fn reap(&mut self, now_ms: u64) {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            match waitid(Id::All, look) {
                Ok(status) => match (status, status.pid()) {
                    (_, None) => break,
                    (WaitStatus::Exited(_, code), Some(pid)) => self.reap_one(pid, End::Code(code), now_ms),
                    (WaitStatus::Signaled(_, signal, _), Some(pid)) => {
                        self.reap_one(pid, End::Signal(signal as i32), now_ms);
                    }
                    (_, Some(pid)) => self.reap_one(pid, End::Unseen, now_ms),
                },
                // Someone died of a signal above 31, for which the library has no name: look for who it was.
                Err(Errno::EINVAL) if self.reap_zombies(now_ms) => {}
                Err(_) => break,
            }
        }
    }

    fn reap_one(&mut self, pid: Pid, end: End, now_ms: u64) {
        let number = pid.as_raw().unsigned_abs();
        let code = if let End::Code(code) = &end { Some(*code) } else { None };
        match self.by_pid.remove(&number) {
            Some(run) => self.reap_run(run, number, end),
            // A program beside a run, an orphan that came to us, or the guard.
            None => {
                self.probe_ended(number, code);
                reap(pid);
            }
        }
        if number == self.ground.guard.identity.pid {
            self.replace_guard(now_ms);
        }
    }

    /// Reaps all children that have ended, found in `/proc`; whether there were any.
    fn reap_zombies(&mut self, now_ms: u64) -> bool {
        let children = self.ground.processes.children(std::process::id());
        let stat = |pid| self.ground.processes.stat(pid).map(|stat| (pid, stat));
        let zombies: Vec<(u32, Stat)> =
            children.into_iter().filter_map(stat).filter(|(_, stat)| stat.state == b'Z').collect();
        for (pid, stat) in &zombies {
            let end = match (stat.exit_status & 0x7f, stat.exit_status >> 8) {
                (0, code) => End::Code(code),
                (signal, _) => End::Signal(signal),
            };
            self.reap_one(Pid::from_raw(pid.cast_signed()), end, now_ms);
        }
        !zombies.is_empty()
    }

    fn reap_run(&mut self, run: RunRef, number: u32, end: End) {
        // The rest of the group goes with its first process.
        let _ = signal_group(number, Signal::SIGKILL);
        let step = self.ground.fence.remove(number);
        reap(Pid::from_raw(number.cast_signed()));
        let Some(state) = self.book.live.get_mut(&run) else { return };
        let cause = match state.phase {
            Phase::Stopping { cause, .. } => cause,
            _ if step > Step::None => Cause::LeaseExpired,
            _ if end == End::Signal(Signal::SIGKILL as i32) && self.ground.guard_is_ending() => Cause::ShimDied,
            _ => Cause::Own,
        };
        state.phase = Phase::Draining { end, cause };
        self.draining.insert(run);
    }

    /// With a namespace the end of the guard is the end of all tasks: this shim is of no more use.
    fn replace_guard(&mut self, now_ms: u64) {
        let replaced = if self.ground.guard.has_namespace {
            None
        } else {
            self.ground.guard_starter.spawn(&self.ground.processes, false).ok()
        };
        match replaced {
            Some(guard) => self.ground.guard = guard,
            None => self.close(Cause::ShimDied, now_ms),
        }
    }

    /// Looks at all runs whose first process is gone.
    pub(super) fn drain(&mut self, now_ms: u64) {
        let runs: Vec<RunRef> = self.draining.iter().copied().collect();
        let has_group = |run| self.book.live.get(run).and_then(|state| state.slot.as_ref()?.group()).is_some();
        // One look after all of them were reaped: what they left behind has found its new parent.
        let orphans = if runs.iter().all(has_group) {
            Vec::new()
        } else {
            self.ground.orphans(|pid| self.by_pid.contains_key(&pid))
        };
        runs.into_iter().for_each(|run| self.drain_one(run, &orphans, now_ms));
    }

    /// Ends a run if nothing is left of it; kills what is.
    fn drain_one(&mut self, run: RunRef, orphans: &[u32], now_ms: u64) {
        let Some(state) = self.book.live.get(&run) else { return };
        if self.kill_probes_of(run) {
            return;
        }
        if self.ground.kill_leftovers(run, state.identity.pid, state.slot.as_ref(), orphans) {
            return;
        }
        self.draining.remove(&run);
        let Some(mut state) = self.book.live.remove(&run) else { return };
        self.set_due(run, &mut state, None);
        let signal = match &state.phase {
            Phase::Draining { end: End::Signal(signal), cause: Cause::Own } => Some(*signal),
            _ => None,
        };
        let ground = &mut self.ground;
        let memory_kill = ground.kernel_kills.of_run(&ground.processes, state.slot.as_ref(), signal, now_ms);
        if let (Some(cgroups), Some(slot)) = (&mut self.ground.cgroups, state.slot) {
            cgroups.release(slot);
        }
        if let Phase::Draining { end, cause } = state.phase {
            self.ended(run, end, memory_kill, cause, now_ms);
        }
    }

    pub(super) fn ended(&mut self, run: RunRef, end: End, memory_kill: MemoryKill, cause: Cause, at_boottime_ms: u64) {
        self.record_over(run);
        let ended = EndedRun { run, end, memory_kill, at_boottime_ms, cause };
        self.journal.push(&Record::Ended(ended.clone()));
        self.book.ended.insert(run, ended.clone());
        self.fresh.push(ended);
    }

    /// Deadlines and kills whose time has come.
    pub(super) fn fire(&mut self, now_ms: u64) {
        while let Some((due_ms, run)) = self.agenda.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.agenda.remove(&(due_ms, run));
            let Some(mut state) = self.book.live.remove(&run) else { continue };
            state.due_ms = None;
            match state.phase {
                Phase::Stopping { .. } => {
                    self.ground.kill(state.identity.pid, state.slot.as_ref());
                    self.set_due(run, &mut state, Some(now_ms + AGAIN_MS.max(50)));
                    self.book.live.insert(run, state);
                }
                Phase::Running => {
                    let grace_ms = state.grace_ms;
                    self.book.live.insert(run, state);
                    self.stop(run, grace_ms, Cause::DeadlineExceeded, now_ms);
                }
                Phase::Draining { .. } => drop(self.book.live.insert(run, state)),
            }
        }
    }
}

fn reap(pid: Pid) {
    // The status is known from the look before, and a signal without a name makes an error here.
    let _ = waitpid(pid, None);
}
