//! A whole cell in virtual time: the very cores that the processes run, on a simulated network, disk and clock, in one
//! thread, from one seed.
//!
//! ```text
//!  seed ─▶ knobs, workload, faults ─▶ agenda ─▶ cores ─▶ history ─▶ oracle ─▶ report
//!          (or a scenario in text)      ▲         │
//!                                       └ messages, disk calls, time
//! ```
//! Invariant: a run is a pure function of its [`Scenario`]: same seed, same digest, on every machine.

mod agenda;
mod aim;
mod clocks;
mod faults;
mod knobs;
mod layout;
mod links;
mod mischief;
mod operator;
mod outside;
mod quiet;
mod readers;
mod report;
mod role;
mod roles;
mod scenario;
mod script;
mod stage;
mod sweep;
mod theme;
mod workload;
mod world;

pub use faults::{FAULT_KINDS, GROUP_FAULT_KINDS};
pub use report::{CONFLICT_REASONS, Report, Summary};
pub use scenario::{Scenario, Unsupported};
pub use script::{Script, ScriptError};
pub use sweep::{Shrunk, run_twice, shrink};
pub use world::{World, run};
