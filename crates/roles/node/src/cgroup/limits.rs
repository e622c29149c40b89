//! What one run is to get, and what it may take at most.

use super::layout::Controller;
use serde::{Deserialize, Serialize};

/// What one run is to get, and what it may take at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resources {
    /// What is reserved for it.
    pub requests: Requests,
    /// What it may not exceed.
    pub limits: Limits,
}

/// What is reserved for one run; 0 is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requests {
    /// CPU time in thousandths of a core: where all of it is wanted, runs get it in proportion.
    pub cpu_millicores: u32,
    /// Memory in bytes: what of it is in use is taken from the run last when the node's memory ends.
    pub memory_bytes: u64,
}

/// Upper bounds for one run; 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time in thousandths of a core.
    pub cpu_millicores: u32,
    /// Memory in bytes, at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
}

/// Below this not even an exec works, and the shim, which stands in the group for a moment, could be hit.
pub const MEMORY_BYTES_MIN: u64 = 4 << 20;

impl Resources {
    /// Whether a run needs a group of this controller. Of CPU and memory every run does: one that asks for nothing gets
    /// what others leave, and is told when the memory of the node was at an end.
    pub(super) fn wants(&self, controller: Controller) -> bool {
        match controller {
            Controller::Cpu | Controller::Memory => true,
            Controller::CpuQuota => self.limits.cpu_millicores > 0,
            Controller::Pids => self.limits.pids > 0,
            Controller::Freezer => false,
        }
    }

    /// Whether it can't take more memory than it asks for, where limits are enforced.
    pub fn has_exact_memory(&self) -> bool {
        (1..=self.requests.memory_bytes).contains(&self.limits.memory_bytes)
    }
}

#[cfg(test)]
impl Resources {
    /// A request and a limit of memory, in bytes; 0 is none.
    pub(crate) fn of_memory(request: u64, limit: u64) -> Self {
        let requests = Requests { cpu_millicores: 0, memory_bytes: request };
        Resources { requests, limits: Limits { memory_bytes: limit, ..Limits::default() } }
    }
}

impl Requests {
    /// `cpu.weight` of version 2. A core is the weight that the kernel gives groups of which nobody says anything; it
    /// knows none below a hundredth of a core, nor above 100 cores.
    pub(super) fn cpu_weight(&self) -> u32 {
        (self.cpu_millicores / 10).clamp(1, 10_000)
    }

    /// `cpu.shares` of version 1, of which a core is 1024, too.
    pub(super) fn cpu_shares(&self) -> u64 {
        (u64::from(self.cpu_millicores) * 1024 / 1000).clamp(2, 262_144)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_weighed_in_proportion_between_the_bounds_of_the_kernel() {
        let both = |cpu_millicores| {
            let requests = Requests { cpu_millicores, memory_bytes: 0 };
            (requests.cpu_weight(), requests.cpu_shares())
        };
        assert_eq!([0, 1, 10].map(both), [(1, 2), (1, 2), (1, 10)]);
        assert_eq!([250, 1_000, 64_000].map(both), [(25, 256), (100, 1024), (6_400, 65_536)]);
        assert_eq!(both(u32::MAX), (10_000, 262_144));
    }

    #[test]
    fn memory_is_exact_where_the_limit_is_the_request() {
        let exact = |request, limit| {
            let requests = Requests { cpu_millicores: 0, memory_bytes: request };
            Resources { requests, limits: Limits { memory_bytes: limit, ..Limits::default() } }.has_exact_memory()
        };
        assert!(exact(8, 8) && !exact(8, 9) && !exact(8, 0) && !exact(0, 0) && !exact(0, 8));
    }
}
