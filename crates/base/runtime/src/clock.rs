//! The two clocks of a process.

use nix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the machine started, suspend included (CLOCK_BOOTTIME): the clock for leases and patience. It
/// never falls and does not follow the wall clock.
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    now.map_or(0, |now| now.tv_sec() as u64 * 1000 + now.tv_nsec() as u64 / 1_000_000)
}

/// The kernel's random name of this boot. Process ids and [`boot_ms`] mean nothing under another one.
///
/// # Errors
/// Where the kernel does not say.
pub fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Milliseconds since 1970 by the wall clock: only ever stamped on entries and shown to people.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
