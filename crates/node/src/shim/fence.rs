//! The fence: a thread that ends tasks before the lease of their node does, whatever else hangs.
//!
//! It shares nothing with the loop but a table of process ids behind a lock that is never held across a disk access. So
//! neither a dead or stopped agent nor a disk that takes minutes for a sync keeps tasks alive past the deadline.
//!
//! The rule, with D the deadline read from the lease file:
//! - SIGKILL at D − 250 ms, and again every 50 ms, so that nothing is left at D;
//! - SIGTERM as much earlier as the grace of the run asks for, but never before D − `lead` (default 2,000 ms, two
//!   beats): an outage shorter than the lease less two beats must not touch a task, so a longer grace cannot be had
//!   here;
//! - a run that got its SIGTERM is stopped for good, even if the lease is renewed a moment later;
//! - SIGKILL at once for a run that is older than the lease without a gap: it has outlived an earlier deadline, because
//!   this very shim was stopped then.
//!
//! What no process can do: a *stopped* shim (SIGSTOP, a frozen machine) sends no signal. Its tasks run on if they are
//! not frozen with it; for them `OHM_INCARNATION` is the only fence, to be checked by whoever they write to.

use super::lease::{LeaseReader, NodeLease};
use crate::cgroup::GroupOfRun;
use crate::clock;
use crate::processes::signal_group;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long before the deadline the kill is sent, in milliseconds.
const KILL_MARGIN_MS: u64 = 250;
/// Between two looks at the lease, in milliseconds.
const LOOK_MS: u64 = 50;

/// How far the fence has gone with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Not touched.
    None,
    /// Asked to end.
    Terminated,
    /// Killed.
    Killed,
}

/// What is to be done at `now_ms`.
fn due(now_ms: u64, deadline_ms: u64, grace_ms: u64, lead_ms: u64) -> Step {
    let kill_at_ms = deadline_ms.saturating_sub(KILL_MARGIN_MS);
    let terminate_at_ms = kill_at_ms.saturating_sub(grace_ms.min(lead_ms.saturating_sub(KILL_MARGIN_MS)));
    match now_ms {
        now_ms if now_ms >= kill_at_ms => Step::Killed,
        now_ms if now_ms >= terminate_at_ms => Step::Terminated,
        _ => Step::None,
    }
}

/// A run whose lease ends it.
#[derive(Debug)]
struct Member {
    started_ms: u64,
    grace_ms: u64,
    group: Option<GroupOfRun>,
    step: Step,
    kill_at_ms: u64,
}

type Members = BTreeMap<u32, Member>;

/// The loop's handle on the fence.
#[derive(Debug)]
pub(super) struct Fence {
    members: Arc<Mutex<Members>>,
}

/// The loop and the fence would otherwise live on without each other.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Fence {
    /// Starts the thread.
    pub(super) fn start(lease: LeaseReader, lead_ms: u64) -> std::io::Result<Self> {
        let members = Arc::new(Mutex::new(Members::new()));
        let shared = Arc::clone(&members);
        std::thread::Builder::new().name("fence".into()).stack_size(256 << 10).spawn(move || {
            let _abort = AbortOnPanic;
            watch(&shared, lease, lead_ms);
        })?;
        Ok(Fence { members })
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        lock(&self.members)
    }

    /// Watches over the run whose first process is `pid`, started at `started_ms`. The shim must not stand in `group`
    /// any more.
    pub(super) fn add(&self, pid: u32, started_ms: u64, grace_ms: u64, group: Option<GroupOfRun>) {
        self.lock().insert(pid, Member { started_ms, grace_ms, group, step: Step::None, kill_at_ms: u64::MAX });
    }

    /// Ends the watch, which must happen before `pid` is reaped: from then on the number means nothing.
    pub(super) fn remove(&self, pid: u32) -> Step {
        self.lock().remove(&pid).map_or(Step::None, |member| member.step)
    }
}

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(members: &Mutex<Members>, mut lease: LeaseReader, lead_ms: u64) {
    let mut since_ms = 0;
    loop {
        let NodeLease { deadline_ms, since_ms: newest_ms, .. } = lease.read();
        let now_ms = clock::boottime_ms();
        let has_gap = std::mem::replace(&mut since_ms, newest_ms) != newest_ms;
        let is_near = has_gap || due(now_ms, deadline_ms, u64::MAX, lead_ms) > Step::None;
        let mut members = lock(members);
        for (pid, member) in members.iter_mut() {
            // Most of the time there is nothing to do but the few runs that were terminated and then saved.
            if is_near || member.step > Step::None {
                let due = match member.started_ms < since_ms {
                    true => Step::Killed,
                    false => due(now_ms, deadline_ms, member.grace_ms, lead_ms),
                };
                enforce(*pid, member, now_ms, due, deadline_ms);
            }
        }
        drop(members);
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    }
}

fn enforce(pid: u32, member: &mut Member, now_ms: u64, due: Step, deadline_ms: u64) {
    if due == Step::Killed || now_ms >= member.kill_at_ms {
        member.step = Step::Killed;
        member.kill_at_ms = now_ms;
        // Errors mean that nobody is left.
        let _ = signal_group(pid, Signal::SIGKILL);
        if let Some(group) = &member.group {
            let _ = group.kill();
        }
    } else if due == Step::Terminated && member.step == Step::None {
        member.step = Step::Terminated;
        // Kept even if the lease is renewed: the task has been told to end.
        member.kill_at_ms = deadline_ms.saturating_sub(KILL_MARGIN_MS);
        let _ = signal_group(pid, Signal::SIGTERM);
        let _ = signal_group(pid, Signal::SIGCONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kill_comes_before_the_deadline_and_the_polite_signal_at_most_two_beats_before() {
        let at = |now_ms, grace_ms| due(now_ms, 30_000, grace_ms, 2_000);
        assert_eq!(at(27_999, 30_000), Step::None);
        assert_eq!(at(28_000, 30_000), Step::Terminated);
        assert_eq!(at(29_249, 500), Step::None);
        assert_eq!(at(29_250, 500), Step::Terminated);
        assert_eq!(at(29_749, 500), Step::Terminated);
        assert_eq!(at(29_749, 0), Step::None);
        assert_eq!(at(29_750, 0), Step::Killed);
        assert_eq!(due(5, 0, 100, 2_000), Step::Killed, "no lease at all");
        assert_eq!(due(0, u64::MAX, u64::MAX, u64::MAX), Step::Terminated, "no overflow");
    }
}
