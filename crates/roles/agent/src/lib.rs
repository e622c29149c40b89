//! The agent of one node: registers it, keeps its lease alive by beats, and makes the runner's tasks equal to the set
//! of runs that the cell wants here.
//!
//! ```text
//!   server ──WantedSet, BeatAnswer──▶ AgentCore ──StartRun, StopRun, Probe, WriteLease──▶ runner (shim or SimDriver)
//!     ▲                                 │  ▲                                                 │
//!     └──Register, Beat, SendReports────┘  └──────────Started, Exited, Probed, Found─────────┘
//! ```
//! The runner outlives the agent: tasks go on while the agent restarts, and end by themselves when the lease file's
//! deadline passes, agent or no agent.
//!
//! Invariants: all times are milliseconds of the node's own clock that runs through pauses and suspend
//! (CLOCK_BOOTTIME); the lease counts from the *sending* of the last answered beat; nothing is started without a lease
//! that outlives the fence's lead; nothing that ended here is ever started again; nothing is stopped but on the word
//! of a wanted set made for this very registration, or of a probe that found it unhealthy.

mod beats;
mod conditions;
mod core;
mod outbox;
mod probes;
mod runner;
mod runs;
mod sim_driver;
mod step;
mod wanted;

pub use self::core::{AgentConfig, AgentCore};
pub use beats::{BeatAnswer, may_start};
pub use conditions::{CheckPolicy, Finding};
pub use probes::{ProbeOrder, ProbeResult};
pub use runner::{FoundExit, FoundRun, LeaseFile, RunnerEvent};
pub use sim_driver::{DriverConfig, DriverInput, SimDriver};
pub use step::{AgentEffect, AgentInput};
pub use wanted::{Launch, PEERS_BYTES_MAX, PeersNotice, StartOrder, WantedRun, WantedSet};
