//! The processes on a node: the shim under which tasks run, and what it stands on: process identity, cgroups, log
//! rotation and the clock that runs through pauses.
//!
//! Invariants: nothing signals a bare process id; a task is signalled only while its process id cannot have been used
//! again. No unsafe code.

#![forbid(unsafe_code)]

pub mod agent;
pub mod cgroup;
pub mod clock;
pub mod processes;
pub mod rotation;
pub mod shim;
pub mod sim_agent;
