//! What every simulated cell has alike, whatever is drawn: its racks, and the names of its queues and of its taint.

/// The queues of a cell that has some.
pub(crate) const QUEUES: [&str; 5] = ["red", "blue", "alone", "green", "lime"];
/// Those of them that give quota by flavor.
pub(crate) const FLAVORED: [&str; 2] = ["green", "lime"];
/// The taint that comes and goes.
pub(crate) const TAINT: &str = "maintenance";
/// The key of taints that people put on nodes.
pub(crate) const PUT_TAINT: &str = "work";

/// The rack of node `number`; in a large cell racks are large too.
pub(crate) fn rack_of(number: usize, large: bool) -> usize {
    if large { number / 40 } else { number / 2 }
}
