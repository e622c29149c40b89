//! Whether what has a time is looked at by then.

use crate::cell::Cell;
use crate::state::timers::{FAR_GRID_MS, Timer};

/// Whether `timer` goes off at `due_ms`, or soon after: the grid of times may be coarse.
pub(crate) fn is_armed(cell: &Cell, due_ms: u64, timer: Timer) -> bool {
    let mut due = cell.timers.range(due_ms..=due_ms.saturating_add(FAR_GRID_MS));
    due.any(|(_, timers)| timers.contains(&timer))
}
