//! The second fence, which needs none of our code to run: a timer in the kernel that kills the shim at the deadline.
//!
//! The first fence is a thread, and a stopped process (SIGSTOP, a freezer, a debugger, a suspended machine) runs no
//! thread. A POSIX timer on CLOCK_BOOTTIME goes off all the same, and SIGKILL also ends who is stopped. With the shim
//! dies its guard, and with the guard, in a process namespace, every task: by the kernel alone (see `guard`). So a node
//! of which agent and shim stand still runs no task past its lease, whether its tasks stand still with them or not.
//!
//! The timer is armed while tasks that the lease ends live or are about to start. The first fence moves it on with
//! every renewal, and takes it away once it has killed them itself, so it goes off only where that did not happen.

use nix::errno::Errno;
use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use std::time::Duration;

/// The timer. It belongs to the process; children do not inherit it.
#[derive(Debug)]
pub(super) struct LastResort {
    timer: Timer,
    /// When it goes off; 0 is never.
    armed_ms: u64,
}

impl LastResort {
    /// A timer that is not armed. It can only be used on the thread that made it.
    pub(super) fn new() -> Result<Self, Errno> {
        let kill = SigEvent::new(SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 });
        Ok(LastResort { timer: Timer::new(ClockId::CLOCK_BOOTTIME, kill)?, armed_ms: 0 })
    }

    /// Kills this process at `at_ms` of CLOCK_BOOTTIME, and at no earlier time that was set before; 0 is never.
    pub(super) fn arm(&mut self, at_ms: u64) -> Result<(), Errno> {
        if at_ms != self.armed_ms {
            let at = TimeSpec::from_duration(Duration::from_millis(at_ms));
            self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            self.armed_ms = at_ms;
        }
        Ok(())
    }
}
