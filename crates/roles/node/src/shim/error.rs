//! What can go wrong between an agent and its shim.

use ohm_stdx::codec::DecodeError;
use std::io;
use std::path::PathBuf;

/// Longest path of a Unix socket that the kernel takes, in bytes.
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

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
    pub(super) fn file(path: PathBuf, source: io::Error) -> Self {
        ShimError::File { path, source }
    }
}
