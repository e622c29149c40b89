//! Programs beside runs, for their probes: few at a time, each with its time-out, and none that outlives its run.

use super::super::beside::{Program, Wanted};
use super::super::launch::LaunchError;
use super::super::protocol::{Event, ProbeEnd};
use super::{Phase, Runs};
use crate::processes::signal_group;
use nix::sys::signal::Signal;
use ohm_model::RunRef;

/// Most programs at a time; the others wait.
const PROBES_AT_ONCE: usize = 32;
/// Most that wait; of more it is said that they can't be run.
const WAITING_MAX: usize = 4_096;

impl Runs {
    pub(super) fn want_probe(&mut self, wanted: Wanted) -> Vec<Event> {
        let is_known = self.book.live.get(&wanted.run).is_some_and(|state| state.spec.is_some());
        let unknown = |why: &str| {
            vec![Event::Probed { run: wanted.run, number: wanted.number, end: ProbeEnd::NotRun(why.to_string()) }]
        };
        if !is_known {
            return unknown("nothing of the run lives here");
        }
        if self.programs.waiting.len() >= WAITING_MAX {
            return unknown("too many probes wait on this node");
        }
        self.programs.waiting.push_back(wanted);
        Vec::new()
    }

    /// Ends what takes too long, reads what is written, and starts what waits.
    pub(super) fn probe(&mut self, now_ms: u64) {
        for (pid, beside) in &mut self.programs.by_pid {
            beside.output.read();
            if beside.ends_ms <= now_ms && !beside.is_late {
                beside.is_late = true;
                let _ = signal_group(*pid, Signal::SIGKILL);
            }
        }
        while self.programs.by_pid.len() < PROBES_AT_ONCE
            && let Some(wanted) = self.programs.waiting.pop_front()
        {
            self.start_probe(wanted, now_ms);
        }
    }

    fn start_probe(&mut self, wanted: Wanted, now_ms: u64) {
        let Wanted { run, number, command, timeout_ms } = wanted;
        // What has ended meanwhile, or is to end, is probed no more.
        let live = self.book.live.get(&run).filter(|state| matches!(state.phase, Phase::Running));
        let Some((state, spec)) = live.and_then(|state| Some((state, state.spec.as_deref()?))) else { return };
        let started = self.ground.launch_beside(&self.launcher, (run, spec), state.slot.as_ref(), &command);
        match started {
            Ok((pid, output)) => {
                let ends_ms = now_ms.saturating_add(timeout_ms);
                self.programs.by_pid.insert(pid, Program { run, number, ends_ms, timeout_ms, is_late: false, output });
            }
            Err(LaunchError::Task(why)) => self.tell_probed(run, number, ProbeEnd::Failure(why)),
            Err(LaunchError::Machine(why)) => self.tell_probed(run, number, ProbeEnd::NotRun(why)),
        }
    }

    fn tell_probed(&mut self, run: RunRef, number: u64, end: ProbeEnd) {
        self.events.push(Event::Probed { run, number, end });
    }

    /// The process of this number has ended and is not reaped yet; it may be one of these. With its exit
    /// code, if it has one.
    pub(super) fn probe_ended(&mut self, pid: u32, code: Option<i32>) {
        let Some(mut beside) = self.programs.by_pid.remove(&pid) else { return };
        // The rest of its group goes with it.
        let _ = signal_group(pid, Signal::SIGKILL);
        beside.output.read();
        let words = beside.output.last_line().map_or_else(String::new, |line| format!(": {line}"));
        let end = match code {
            _ if beside.is_late => ProbeEnd::Failure(format!("did not end within {} ms{words}", beside.timeout_ms)),
            Some(0) => ProbeEnd::Success,
            Some(code) => ProbeEnd::Failure(format!("exit {code}{words}")),
            None => ProbeEnd::Failure(format!("killed{words}")),
        };
        self.tell_probed(beside.run, beside.number, end);
    }

    /// Kills what runs beside a run whose first process is gone; whether there was anything.
    pub(super) fn kill_probes_of(&self, run: RunRef) -> bool {
        let own = self.programs.by_pid.iter().filter(|(_, beside)| beside.run == run);
        own.for_each(|(pid, _)| {
            let _ = signal_group(*pid, Signal::SIGKILL);
        });
        self.programs.has_some_of(run)
    }
}
