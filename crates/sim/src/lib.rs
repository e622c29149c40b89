//! A whole cell in virtual time: the very cores that the processes run, on a simulated network, disk and clock, in one
//! thread, from one seed.
//!
//! Invariant: a run is a pure function of its [`Scenario`]: same seed, same digest, on every machine.

mod agenda;
mod clocks;
mod faults;
mod links;
mod node;
mod planners;
mod report;
mod roles;
mod server;
mod workload;
mod world;

pub use report::Report;
pub use world::{Scenario, World, run};
