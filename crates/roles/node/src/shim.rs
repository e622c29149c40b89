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
//! - no process is signalled that is not ours: a child is signalled only before it is reaped, anything else only after
//!   its start time was compared.
//!
//! For the unit file of the agent: the shim must not be killed with it (`KillMode=process` in systemd).

mod client;
mod fence;
mod ground;
mod guard;
mod journal;
mod last_resort;
mod launch;
mod lease;
mod leftovers;
mod protocol;
mod runs;
mod serve;
mod start;
mod wire;

pub use client::{ShimClient, ShimCommand, ShimEvents, ShimSender};
pub use launch::log_folder;
pub use lease::{LeaseFile, LeaseReader, NodeLease};
pub use protocol::{Cause, End, EndedRun, Event, LiveRun, PROTOCOL_VERSION, Request, RunSpec, ShimInfo};
pub use start::{ShimOptions, run_shim, shim_command};

use ohm_stdx::codec::DecodeError;
use std::io;
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket that the kernel takes, in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What can go wrong between an agent and its shim.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// The command line was wrong.
    #[error("ohm shim: {0}")]
    Arguments(String),
    /// Another shim is in charge of the folder.
    #[error("another shim is in charge of {}; there must be one", folder.display())]
    AlreadyRunning {
        /// The folder.
        folder: PathBuf,
    },
    /// The kernel takes only short paths for sockets.
    #[error("socket path {} has {} bytes; at most {SOCKET_PATH_BYTES_MAX} work, so choose a shorter data folder",
            path.display(), path.as_os_str().len())]
    PathTooLong {
        /// The path of the socket.
        path: PathBuf,
    },
    /// A file of the shim could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A system call failed that must not fail.
    #[error("shim: {0}")]
    System(#[from] io::Error),
    /// The guard of an earlier shim does not end.
    #[error("an earlier guard still holds {}; it ends once the tasks of its shim are gone", path.display())]
    GuardStays {
        /// Its lock.
        path: PathBuf,
    },
    /// A process of an earlier shim does not end although it was killed.
    #[error("process {pid} of an earlier shim was killed but does not end; perhaps it waits for a disk")]
    ProcessStays {
        /// The process.
        pid: u32,
    },
    /// The connection failed.
    #[error("connection to the shim: {0}")]
    Connection(#[source] io::Error),
    /// The connection ended inside a frame.
    #[error("the other side went away in the middle of a message")]
    Cut,
    /// The other side closed the connection where an answer was due.
    #[error("the shim closed the connection")]
    Closed,
    /// A frame could not be read.
    #[error("bad message: {0}")]
    Frame(#[source] DecodeError),
    /// A frame is longer than allowed.
    #[error("a message of {bytes} bytes is too long; at most {bytes_max} are taken")]
    FrameTooLong {
        /// Its length.
        bytes: usize,
        /// What would be right.
        bytes_max: usize,
    },
    /// The shim refused us.
    #[error("the shim refused: {0}")]
    Refused(String),
    /// The shim answers something else than was asked.
    #[error("the shim answered {found} where {expected} was due")]
    Unexpected {
        /// What came.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A shim holds the lock but does not answer.
    #[error("the shim of {} does not answer within {patience_ms} ms{hint}", folder.display())]
    Unresponsive {
        /// Its folder.
        folder: PathBuf,
        /// How long was waited, in milliseconds.
        patience_ms: u64,
        /// The last lines of its log, if any.
        hint: String,
    },
}

impl ShimError {
    fn file(path: PathBuf, source: io::Error) -> Self {
        ShimError::File { path, source }
    }
}

/// The pair that every task of this shim has in its environment.
fn mark(folder: &Path) -> String {
    format!("OHM_SHIM={}", folder.display())
}

/// The name of the folder, in each cgroup hierarchy, that holds the groups of the shim with state in `folder`.
pub fn cgroup_name(folder: &Path) -> String {
    format!("ohm-{:016x}", ohm_stdx::hash::bytes(folder.as_os_str().as_encoded_bytes()))
}

fn socket_path(folder: &Path) -> Result<PathBuf, ShimError> {
    let path = folder.join("shim.sock");
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX { Err(ShimError::PathTooLong { path }) } else { Ok(path) }
}
