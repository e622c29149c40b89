//! Upper bounds for one run.

use super::layout::Controller;
use serde::{Deserialize, Serialize};

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

impl Limits {
    pub(super) fn wants(&self, controller: Controller) -> bool {
        match controller {
            Controller::Cpu => self.cpu_millicores > 0,
            Controller::Memory => self.memory_bytes > 0,
            Controller::Pids => self.pids > 0,
            Controller::Freezer => false,
        }
    }
}
