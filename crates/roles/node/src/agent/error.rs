//! Why an agent ends although nobody asked it to.

use crate::shim::ShimError;
use ohm_runtime::connect::ConnectError;
use ohm_runtime::data_dir::DataDirError;
use std::io;
use std::path::{Path, PathBuf};

/// What ends an agent. A lost connection does not, to a server as to the shim: it is made again for ever.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The server addresses can't be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The data folder can't be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A file of the agent can't be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file with the node's key and its boots is damaged.
    #[error("{} holds no key and count of boots; if the node may be taken for a new one, remove the file", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// The shim can't be used.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// The servers will not have this process, today or later.
    #[error("the server refuses this agent: {0}")]
    Refused(String),
    /// A newer process is the agent of this node.
    #[error("a newer agent process has taken over; its tasks go on under that one")]
    Superseded,
    /// There is nothing to do.
    #[error("an agent needs at least one node")]
    NoNode,
    /// A task of this process is gone, which is an error of ours.
    #[error("the task that talks to {0} ended")]
    TaskEnded(&'static str),
}

impl AgentError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> AgentError + '_ {
        move |source| AgentError::File { path: path.to_path_buf(), source }
    }
}
