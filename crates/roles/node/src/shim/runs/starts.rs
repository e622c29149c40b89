//! How runs start: intent on disk, then the process.

use super::super::journal::Record;
use super::super::launch::LaunchError;
use super::super::protocol::{Cause, End, Event, RunSpec};
use super::{NO_LEASE, Phase, Run, Runs, STARTS_PER_TURN_MAX};
use crate::cgroup::{Cgroups, MemoryKill, Slot};
use crate::processes::Identity;
use ohm_model::{OnDisconnect, RunRef};
use ohm_runtime::recorder::Happened;

impl Runs {
    /// One commit for the ends of this turn and the intents of the next processes, then both take effect.
    pub(super) fn start_and_commit(&mut self, now_ms: u64) {
        let starts = self.next_starts(now_ms);
        let committed = self.journal.commit(&self.book);
        // An end that cannot be written is still true, and its run can never be started again: the intent is on disk.
        self.events.extend(self.fresh.drain(..).map(Event::Exited));
        self.book.intents.clear();
        if starts.is_empty() {
            return;
        }
        if let Err(error) = committed {
            let reason = format!("the journal cannot be written: {error}");
            let refused = |(run, _)| Event::StartRefused { run, reason: reason.clone() };
            return self.events.extend(starts.into_iter().map(refused));
        }
        if starts.iter().any(|(_, spec)| spec.on_disconnect == OnDisconnect::Stop) {
            self.ground.fence.expect_starts();
        }
        let mut started = Vec::with_capacity(starts.len());
        for (run, spec) in starts {
            // The sync may have taken any time.
            let Some(fence_in_ms) = self.ground.fence_in_ms(spec.registration) else {
                self.withdraw(run, NO_LEASE.into());
                continue;
            };
            let keeps = spec.on_disconnect == OnDisconnect::Keep;
            let node = self.recorder.name().to_string();
            self.recorder.write(|| Happened::Began { node, run, keeps, fence_in_ms });
            match self.ground.launch(&mut self.launcher, run, &spec) {
                Ok((pid, slot)) => started.push((run, spec, pid, slot)),
                Err(LaunchError::Task(reason)) => {
                    self.ended(run, End::StartFailed(reason), MemoryKill::None, Cause::Own, now_ms);
                }
                Err(LaunchError::Machine(reason)) => self.withdraw(run, reason),
            }
        }
        // No slot may be killed while we stand in it: the fence learns of the runs only now.
        if let Some(Err(error)) = self.ground.cgroups.as_mut().map(Cgroups::leave) {
            // Tasks die with us, which is better than being limited, or killed, in the place of one of them.
            tracing::error!(%error, "cannot leave a task's cgroup");
            std::process::exit(1);
        }
        for (run, spec, pid, slot) in started {
            self.admit(run, &spec, pid, slot, now_ms);
        }
        if self.journal.commit(&self.book).is_ok() {
            self.events.extend(self.fresh.drain(..).map(Event::Exited));
        }
    }

    /// Takes an intent back: no process came of it.
    fn withdraw(&mut self, run: RunRef, reason: String) {
        self.record_over(run);
        self.journal.push(&Record::Withdrawn(run));
        self.events.push(Event::StartRefused { run, reason });
    }

    /// The starts of this turn, their intents in the journal's buffer.
    fn next_starts(&mut self, now_ms: u64) -> Vec<(RunRef, RunSpec)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let count = self.waiting.len().min(STARTS_PER_TURN_MAX);
        let mut starts = Vec::with_capacity(count);
        for (run, spec) in self.waiting.drain(..count).collect::<Vec<_>>() {
            self.waits.remove(&run);
            if self.ground.fence_in_ms(spec.registration).is_none() {
                self.events.push(Event::StartRefused { run, reason: NO_LEASE.into() });
            } else if let Err(reason) = spec.check() {
                self.ended(run, End::StartFailed(reason), MemoryKill::None, Cause::Own, now_ms);
            } else {
                self.journal.push(&Record::Intent(run));
                self.book.intents.insert(run);
                starts.push((run, spec));
            }
        }
        starts
    }

    fn admit(&mut self, run: RunRef, spec: &RunSpec, pid: u32, slot: Option<Slot>, now_ms: u64) {
        // Nobody else reaps, so the process is there at least as a zombie.
        let identity = self.ground.processes.identity(pid).unwrap_or(Identity { pid, start_time_ticks: 0 });
        if spec.on_disconnect == OnDisconnect::Stop {
            let group = slot.as_ref().and_then(Slot::group).cloned();
            self.ground.fence.add(pid, now_ms, spec.grace_ms, group);
        }
        let mut state = Run {
            identity,
            at_boottime_ms: now_ms,
            grace_ms: spec.grace_ms,
            logs: spec.logs,
            slot,
            spec: spec.is_probed.then(|| Box::new(spec.clone())),
            phase: Phase::Running,
            due_ms: None,
        };
        self.set_due(run, &mut state, spec.active_deadline_ms.map(|after_ms| now_ms.saturating_add(after_ms)));
        self.journal.push(&Record::Started(run, identity));
        self.by_pid.insert(pid, run);
        self.events.push(Event::Started(state.shown(run)));
        self.book.live.insert(run, state);
    }
}
