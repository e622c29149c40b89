//! Many simulated nodes in one process: tasks are timers, everything else is as on a real node.
//!
//! ```text
//!  server ══ one agent stream ══▶ link ──Order──▶ fleet: one AgentCore and one SimDriver per node, one agenda for all
//!     ▲                                             │
//!     └──── beats and reports of one turn ◀─────────┘
//! ```
//! There is no task per node and no work per turn for nodes that nothing happens to: a turn costs what arrived and what
//! is due. So ten thousand nodes cost one process about what their messages cost.
//!
//! Single nodes can be taken down and up again, as if their machine was gone: see `outage.rs`.
//!
//! Invariant: simulated tasks live and die with this process; a new process is a later boot to the cell, and never
//! brings back what the cell saw running.

mod fleet;
mod outage;
mod run;
mod witness;

pub use run::{SimAgentOptions, run_sim_agent};
