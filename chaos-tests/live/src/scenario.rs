//! A scenario: what the cell is made of, what goes through it, what goes wrong, and what must be true in the end.
//!
//! One sentence in a line, readable aloud; `#` begins a comment.
//!
//! ```text
//! about: every process is killed without a word while jobs go through
//! cell: 4 real nodes, 20 simulated nodes, 2 batch schedulers, 2 health candidates, node lease 10s, disk of 64MiB
//! cell: 4 real nodes, node lease 8s, duty lease 2s
//! cell: 4 real nodes, etcd of 3 members
//! cell: 200 simulated nodes in racks of 10
//! load: 250 batch jobs on simulated nodes, 8 per second, 1 to 3 tasks of 300ms
//! load: 40 tas jobs on simulated nodes, 8 per second, 4 to 8 tasks until the end, in one rack, repair waits 1min
//! load: 9 tas jobs on simulated nodes, 8 per second, 8 tasks until the end, in slices of 4 per rack
//! fault: from 4s every 6s kill server, batch-1, node-1, shim-1, fleet in turn
//! fault: at 60s kill everything
//! fault: from 4s every 3s kill the leader for 2min      (cell: 3 servers, …)
//! fault: at 10s pause server for 5s
//! fault: at 10s cut node-1 towards the server for 20s
//! fault: at 10s delay batch-1 by 300ms for 10s
//! fault: at 10s reset node-2 for 3s
//! fault: at 10s fill the disk for 6s
//! fault: from 4s every 3s strike at random 20 times
//! fault: from 4s every 5s take a node (two nodes, a rack) down for 8s to 30s 20 times
//! fault: at 10s take a rack down for 20s
//! expect: quiet within 120s
//! expect: node-1 lost
//! expect: no node lost
//! expect: no task started again
//! expect: P2 broken
//! ```

mod fault;
mod file;
mod load;
mod parse;
mod shape;

pub use fault::{Extent, Fault, Kind, Way};
pub use file::{Expectation, JUDGED, Scenario};
pub use load::{Load, Pool, Repair, Stands};
pub use parse::{ScenarioError, duration_ms};
pub use shape::{RACKS_PER_BLOCK, Shape};

#[cfg(test)]
mod tests;
