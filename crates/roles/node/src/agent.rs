//! The agent process of one node.
//!
//! ```text
//!  server ══ agent stream ══▶ link ──Arrival──▶ desk: AgentCore ──Orders──▶ runner ══ socket ══▶ shim ──▶ tasks
//!     ▲                                          │   │  ▲                     │
//!     └──── messages, pieces of output ◀─────────┘   │  └───────Word──────────┘
//!                                                    └─ lease file ─▶ shim
//! ```
//! The desk owns the core and is the only one that decides when something is sent; link and runner are tasks that keep
//! a connection, and queues between them are bounded. The agent may end at any time: the shim keeps the tasks, the
//! lease file says until when, and the next agent of the folder finds all of it.
//!
//! Invariants: the lease is on the file before any order that needs it is sent; orders reach only the shim whose list
//! the core has heard; output of tasks never keeps a beat waiting; the node's key is on disk before the node is
//! registered.

mod capacity;
mod checks;
mod desk;
mod error;
pub(crate) mod key;
pub(crate) mod link;
pub(crate) mod messages;
mod output;
pub(crate) mod peers;
mod prober;
mod readers;
mod retention;
mod run;
mod runner;
mod spec;
mod stop;

pub use capacity::{PODS_DEFAULT, machine_capacity, machine_node};
pub use checks::CheckOptions;
pub use error::AgentError;
pub use retention::LogRetention;
pub use run::{AgentOptions, run_agent};
