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
//! - a run whose first process had ended before its first signal has ended by itself, and only the rest is killed;
//! - nothing is started any more once now + `lead` has reached D: the fence might end it at once;
//! - SIGKILL at once for a run that is older than the lease without a gap: it has outlived an earlier deadline, because
//!   this very shim was stopped then.
//!
//! A *stopped* shim (SIGSTOP, a frozen machine) sends no signal; then `last_resort` ends the tasks at D, by the kernel.
//! What remains is said in ARCHITECTURE.md, "What no fence holds".

use super::last_resort::LastResort;
use super::lease::{LeaseReader, NodeLease};
use crate::cgroup::GroupOfRun;
use crate::clock;
use crate::processes::signal_group;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long before the deadline the kill is sent, in milliseconds.
const KILL_MARGIN_MS: u64 = 250;
/// Between two looks at the lease, in milliseconds.
const LOOK_MS: u64 = 50;
/// How long the last resort stays armed for starts that were announced, in milliseconds.
const STARTS_MS: u64 = 1_000;

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
    /// Its first process was gone before it got a signal.
    ended_by_itself: bool,
}

impl Member {
    fn new(started_ms: u64, grace_ms: u64, group: Option<GroupOfRun>) -> Self {
        Member { started_ms, grace_ms, group, step: Step::None, kill_at_ms: u64::MAX, ended_by_itself: false }
    }
}

type Members = BTreeMap<u32, Member>;

#[derive(Debug, Default)]
struct Watched {
    members: Members,
    /// Until when processes may be started that are not members yet.
    starts_until_ms: u64,
    /// Whether the last resort is armed, or never can be.
    is_armed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    watched: Mutex<Watched>,
    /// Starts were announced, or the last resort was armed for them.
    changed: Condvar,
}

/// The loop's handle on the fence.
#[derive(Debug)]
pub(super) struct Fence {
    shared: Arc<Shared>,
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
    /// Starts the thread. Without a timer from the kernel it works alone, and the log says so.
    pub(super) fn start(lease: LeaseReader, lead_ms: u64) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("fence".into()).stack_size(256 << 10).spawn(move || {
            let _abort = AbortOnPanic;
            watch(&own, lease, lead_ms);
        })?;
        Ok(Fence { shared })
    }

    /// To be called before a look at the lease that processes are started on: should we be stopped after it, they end
    /// with the lease nevertheless.
    pub(super) fn expect_starts(&self) {
        let mut watched = lock(&self.shared.watched);
        watched.starts_until_ms = clock::boottime_ms() + STARTS_MS;
        if !watched.is_armed {
            self.shared.changed.notify_all();
            let patience = Duration::from_millis(LOOK_MS);
            // In vain where there is no lease; then nothing is started either.
            let waited = self.shared.changed.wait_timeout_while(watched, patience, |watched| !watched.is_armed);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Watches over the run whose first process is `pid`, started at `started_ms`. The shim must not stand in `group`
    /// any more.
    pub(super) fn add(&self, pid: u32, started_ms: u64, grace_ms: u64, group: Option<GroupOfRun>) {
        lock(&self.shared.watched).members.insert(pid, Member::new(started_ms, grace_ms, group));
    }

    /// Ends the watch, which must happen before `pid` is reaped: from then on the number means nothing. Says how far
    /// the fence has gone to end it; nowhere, if it had ended before.
    pub(super) fn remove(&self, pid: u32) -> Step {
        let member = lock(&self.shared.watched).members.remove(&pid).filter(|member| !member.ended_by_itself);
        member.map_or(Step::None, |member| member.step)
    }
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(shared: &Shared, mut lease: LeaseReader, lead_ms: u64) {
    let mut last_resort = last_resort();
    let mut since_ms = 0;
    loop {
        let NodeLease { deadline_ms, since_ms: newest_ms, .. } = lease.read();
        let now_ms = clock::boottime_ms();
        let has_gap = std::mem::replace(&mut since_ms, newest_ms) != newest_ms;
        let is_near = has_gap || due(now_ms, deadline_ms, u64::MAX, lead_ms) > Step::None;
        let mut watched = lock(&shared.watched);
        for (pid, member) in &mut watched.members {
            // Most of the time there is nothing to do but the few runs that were terminated and then saved.
            if is_near || member.step > Step::None {
                let due = match member.started_ms < since_ms {
                    true => Step::Killed,
                    false => due(now_ms, deadline_ms, member.grace_ms, lead_ms),
                };
                enforce(*pid, member, now_ms, due, deadline_ms);
            }
        }
        let at_ms = last_resort_at_ms(&watched, now_ms, deadline_ms);
        let is_set = last_resort.as_mut().is_none_or(|timer| timer.arm(at_ms).is_ok());
        let was_armed = std::mem::replace(&mut watched.is_armed, is_set && (at_ms > 0 || last_resort.is_none()));
        if watched.is_armed && !was_armed {
            shared.changed.notify_all();
        }
        let announced_ms = watched.starts_until_ms;
        let waits = |watched: &mut Watched| watched.starts_until_ms == announced_ms;
        let look = Duration::from_millis(LOOK_MS);
        drop(shared.changed.wait_timeout_while(watched, look, waits).unwrap_or_else(PoisonError::into_inner));
    }
}

fn last_resort() -> Option<LastResort> {
    let made = LastResort::new();
    made.inspect_err(|error| tracing::warn!(%error, "no timer: a stopped shim cannot end its tasks")).ok()
}

/// When the kernel is to end everything if nothing more is heard from us; 0 is never.
fn last_resort_at_ms(watched: &Watched, now_ms: u64, deadline_ms: u64) -> u64 {
    let is_needed = watched.starts_until_ms > now_ms || watched.members.values().any(|one| one.step < Step::Killed);
    // Past the deadline everybody has been killed a moment ago, and nobody is started.
    if is_needed && deadline_ms > now_ms { deadline_ms } else { 0 }
}

fn enforce(pid: u32, member: &mut Member, now_ms: u64, due: Step, deadline_ms: u64) {
    if due > Step::None && member.step == Step::None {
        member.ended_by_itself = has_ended(pid);
    }
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

/// Whether this child has ended. It stays as it is, to be reaped by the loop.
fn has_ended(pid: u32) -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(Pid::from_raw(pid.cast_signed())), look);
    // The library has no name for the signals above 31 and makes an error of them.
    matches!(status, Ok(status) if status.pid().is_some()) || status == Err(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// What the fence has done to a task that takes so many seconds, `after_ms` after its start.
    fn step_of(seconds: &str, after_ms: u64) -> (Step, Child) {
        let mut child = Command::new("sleep").arg(seconds).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        let shared = Arc::new(Shared::default());
        let mut member = Member::new(0, 0, None);
        enforce(child.id(), &mut member, 100, Step::Killed, 100);
        // It leads no group of its own here, so nobody was signalled.
        let _ = child.kill();
        lock(&shared.watched).members.insert(child.id(), member);
        (Fence { shared }.remove(child.id()), child)
    }

    #[test]
    fn what_ended_before_its_signal_ended_by_itself() {
        for (seconds, after_ms, expected) in [("0", 500, Step::None), ("9", 100, Step::Killed)] {
            let (step, mut child) = step_of(seconds, after_ms);
            assert_eq!(step, expected);
            assert_eq!(child.wait().unwrap().success(), expected == Step::None, "it is there to be reaped");
        }
    }

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

    #[test]
    fn the_last_resort_is_armed_only_for_who_is_not_killed_yet() {
        let mut watched = Watched::default();
        assert_eq!(last_resort_at_ms(&watched, 100, 500), 0, "nobody");
        watched.starts_until_ms = 101;
        assert_eq!(last_resort_at_ms(&watched, 100, 500), 500, "somebody starts");
        assert_eq!(last_resort_at_ms(&watched, 101, 500), 0, "nobody did");
        let member = |step| Member { step, ..Member::new(0, 0, None) };
        watched.members.insert(7, member(Step::Terminated));
        assert_eq!(last_resort_at_ms(&watched, 200, 500), 500);
        watched.members.insert(7, member(Step::Killed));
        assert_eq!(last_resort_at_ms(&watched, 200, 500), 0, "the first fence did it");
    }
}
