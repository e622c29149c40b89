//! The shim: the small process under which the tasks of one agent run, apart from the agent.
//!
//! The agent may be killed, restarted or upgraded at any time: the shim is a session of its own, keeps the tasks, and
//! tells the next agent that connects what lives and what has ended. One shim serves all runs of its agent, so a start
//! costs one exec and no process of ours besides. State lies in one folder per agent:
//!
//! ```text
//! DIR/shim.lock    held by the shim that is in charge       DIR/shim.pid   its pid, start time and boot id
//! DIR/shim.sock    where the agent talks to it              DIR/shim.log   what it prints
//! DIR/lease        until when tasks may run (by the agent)  DIR/journal    starts and ends, not yet forgotten
//! DIR/logs/RUN/{stdout,stderr}[.1,.2]                       DIR/runs/RUN   working folder of the run
//! ```
//!
//! What is promised, and by what:
//! - a run is started at most once, ever: `journal` (intent before exec), across crashes of every kind;
//! - tasks with `onDisconnect: stop` are gone when the lease ends: `fence`, a thread that waits for nothing, and behind
//!   it `last_resort`, a timer of the kernel that also goes off when no process of ours runs;
//! - if the shim dies its tasks die: `guard`, by the kernel where it can;
//! - a run has ended when *all* of its processes have: process group, cgroup, and the orphans that come to the guard;
//! - what runs beside a task for its probes has its environment, folder and groups, and ends before the run does;
//! - no process is signalled that is not ours: a child is signalled only before it is reaped, anything else only after
//!   its start time was compared.
//!
//! For the unit file of the agent: the shim must not be killed with it (`KillMode=process` in systemd).

mod beside;
mod client;
mod error;
mod fence;
mod folder;
mod ground;
mod guard;
mod journal;
mod last_resort;
mod launch;
mod lease;
mod leftovers;
mod oom;
mod options;
mod protocol;
mod runs;
mod serve;
mod start;
mod wire;

pub use client::{ShimClient, ShimCommand, ShimEvents, ShimSender};
pub use error::ShimError;
pub use folder::cgroup_name;
pub use journal::{Record as JournalRecord, Replayed as ReplayedJournal};
pub use launch::log_folder;
pub use lease::{LeaseFile, LeaseReader, NodeLease};
pub use options::ShimOptions;
pub use protocol::{Cause, End, EndedRun, Event, LiveRun, PROTOCOL_VERSION, ProbeEnd, Request, RunSpec, ShimInfo};
pub use start::{run_shim, shim_command};
