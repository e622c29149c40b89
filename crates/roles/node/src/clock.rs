//! The clock of leases and deadlines, and the name of the boot it counts from.

use nix::time::{ClockId, clock_gettime};

/// Milliseconds since this machine booted, suspended time included (`CLOCK_BOOTTIME`). No time step moves it.
///
/// # Panics
/// Only on kernels older than 2.6.39, which lack the clock.
pub fn boottime_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every kernel since 2.6.39 has CLOCK_BOOTTIME");
    // Both parts are never negative on this clock.
    now.tv_sec() as u64 * 1000 + now.tv_nsec() as u64 / 1_000_000
}

pub use ohm_runtime::clock::boot_id;

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_rises_and_the_boot_has_a_name() {
        let before = super::boottime_ms();
        assert!(super::boottime_ms() >= before && before > 0);
        assert_eq!(super::boot_id().unwrap().len(), 36);
    }
}
