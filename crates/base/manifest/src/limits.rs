//! How much a file may hold, and how much is said about it.

use ohm_model::job::TASKS_MAX;
use std::ops::RangeInclusive;

/// Longest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of lists and maps in a document.
pub const DEPTH_MAX: usize = 32;
/// Most values that the anchors and aliases of one YAML document may repeat; their texts may be no longer than a
/// document.
pub const ALIAS_NODES_MAX: usize = 10_000;
/// Most broken documents of one file that are reported one by one; the others are counted.
pub const BROKEN_MAX: usize = 10_000;
/// Most problems that are kept of one document.
pub const PROBLEMS_MAX: usize = 20;
/// Most labels, taints or tolerations of a resource flavor; as in Kueue.
pub const FLAVOR_PARTS_MAX: usize = 8;
/// Largest weight of a queue among its siblings, in thousandths.
pub use ohm_model::subqueue::WEIGHT_MILLI_MAX;
/// How many tasks a group may have.
pub(crate) const COUNT_RANGE: RangeInclusive<i64> = 1..=TASKS_MAX as i64;
