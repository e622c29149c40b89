//! Whose memory the kernel takes first when that of the node ends, and whether it did where no group says so.
//!
//! The kernel kills the process of the most points: what it has in memory and, for each point of `oom_score_adj`, a
//! thousandth of the node's memory. A run that asks for M of N bytes gets `1000 - 1000 * M / N`, as in Kubernetes: with
//! exactly what it asks for it comes to N, whatever that is. So runs that may have more than they ask for go in order
//! of what they have beyond it, and before all else on the node. N counts swap, as the kernel does.
//!
//! A run that can't have more than it asks for is never over it, and keeps the points of this shim. Kubernetes gives it
//! -997, with which daemons of the node would go before it: the agent and the servers among them, where a node offers
//! all the memory that it has. No points are below 0, so that this needs no root.

use crate::cgroup::{MemoryKill, Resources, Slot};
use crate::processes::Processes;
use nix::sys::signal::Signal;

/// So long after the kernel killed for memory the end of a process is taken for that: a large one needs time to end.
const KILLED_WITHIN_MS: u64 = 10_000;
/// Points of a run that asks for no memory, the most there are.
const POINTS_MAX: u64 = 1_000;
/// The least of one that asks for some: beside nothing else that is Ohm's.
const POINTS_MIN: u64 = 2;

/// The `oom_score_adj` of a run on a node of so many bytes; none where it is left as it is. `is_held` says whether its
/// limit of memory is enforced.
pub(super) fn points(resources: &Resources, node_bytes: u64, is_held: bool) -> Option<u64> {
    let request_bytes = resources.requests.memory_bytes;
    if is_held && resources.has_exact_memory() {
        return None;
    }
    if request_bytes == 0 {
        return Some(POINTS_MAX);
    }
    let share = u128::from(request_bytes) * u128::from(POINTS_MAX) / u128::from(node_bytes.max(1));
    let share = u64::try_from(share).unwrap_or(POINTS_MAX);
    Some(POINTS_MAX.saturating_sub(share).clamp(POINTS_MIN, POINTS_MAX - 1))
}

/// When the kernel last killed anything for memory, by `/proc/vmstat`: for runs whose group does not count it.
#[derive(Debug, Default)]
pub(super) struct KernelKills {
    count: Option<u64>,
    killed_ms: Option<u64>,
}

impl KernelKills {
    /// Takes a look; to be taken often, so that it is known when it was.
    pub(super) fn look(&mut self, processes: &Processes, now_ms: u64) {
        self.seen(&processes.vm_statistics(), now_ms);
    }

    fn seen(&mut self, text: &str, now_ms: u64) {
        let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        let Some(count) = text.lines().find_map(count) else { return };
        if self.count.is_some_and(|before| before < count) {
            self.killed_ms = Some(now_ms);
        }
        self.count = Some(count);
    }

    fn is_recent(&self, now_ms: u64) -> bool {
        self.killed_ms.is_some_and(|killed_ms| now_ms.saturating_sub(killed_ms) <= KILLED_WITHIN_MS)
    }

    /// Whether a run was killed for memory that ended by `signal` now, without anybody's order; `slot` is its own.
    /// Without a group that counts, a limit is not enforced, so that only the node's memory can have ended; and what
    /// had no more than it asked for comes last.
    pub(super) fn of_run(
        &mut self,
        processes: &Processes,
        slot: Option<&Slot>,
        signal: Option<i32>,
        now_ms: u64,
    ) -> MemoryKill {
        if let Some(slot) = slot.filter(|slot| slot.counts_memory()) {
            return slot.memory_kill();
        }
        if signal != Some(Signal::SIGKILL as i32) {
            return MemoryKill::None;
        }
        self.look(processes, now_ms);
        if self.is_recent(now_ms) { MemoryKill::OverRequest } else { MemoryKill::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_its_request_has_more_points_than_what_is_not() {
        let node_bytes = 1_000_000;
        // As the kernel counts them, in bytes.
        let badness = |request, used: u64| {
            let points = points(&Resources::of_memory(request, 0), node_bytes, true).unwrap();
            used + points * node_bytes / 1000
        };
        for request in [0, 5_000, 100_000, 500_000, 990_000] {
            for other in [5_000, 100_000, 500_000, 990_000] {
                // A thousandth of the node is as fine as the kernel takes it.
                let (over, within) = (badness(request, request + 2_001), badness(other, other));
                assert!(over > within, "{request} and more, beside {other}: {over} {within}");
            }
        }
    }

    #[test]
    fn what_can_not_be_over_its_request_is_left_alone_if_it_is_held_to_it() {
        assert_eq!(points(&Resources::of_memory(500, 500), 1000, true), None);
        assert_eq!(points(&Resources::of_memory(500, 500), 1000, false), Some(500));
        assert_eq!(points(&Resources::of_memory(500, 600), 1000, true), Some(500));
        assert_eq!(
            [0, 1, 5_000].map(|request| points(&Resources::of_memory(request, 0), 1000, true).unwrap()),
            [1000, 999, 2]
        );
        assert_eq!(points(&Resources::of_memory(5, 0), 0, true), Some(2), "a node that says nothing");
    }

    #[test]
    fn only_a_kill_that_was_just_counted_is_one_for_memory() {
        let mut kills = KernelKills::default();
        let text = |count: u64| format!("nr_free_pages 7\noom_kill {count}\n");
        kills.seen(&text(3), 1_000);
        assert!(!kills.is_recent(1_000), "before our time");
        kills.seen(&text(4), 2_000);
        kills.seen(&text(4), 3_000);
        kills.seen("", 4_000);
        assert!(kills.is_recent(12_000) && !kills.is_recent(12_001));
    }

    #[test]
    fn a_run_without_a_group_is_over_its_request_only_if_it_was_killed_when_the_kernel_did() {
        let processes = Processes::open().unwrap();
        let mut kills = KernelKills::default();
        kills.look(&processes, 0);
        assert!(kills.count.is_some(), "this kernel counts");
        assert_eq!(kills.of_run(&processes, None, Some(9), 20_000), MemoryKill::None);
        kills.killed_ms = Some(20_000);
        assert_eq!(kills.of_run(&processes, None, Some(9), 20_500), MemoryKill::OverRequest);
        assert_eq!(kills.of_run(&processes, None, Some(15), 20_500), MemoryKill::None);
        assert_eq!(kills.of_run(&processes, None, None, 20_500), MemoryKill::None);
    }
}
