//! Why a server ended.

use crate::tls::TlsServeError;
use ohm_runtime::data_dir::DataDirError;
use std::net::SocketAddr;

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data folder can't be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// Its address is taken or not one of this machine.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The address would be open to others.
    #[error(
        "{0} can be reached from other machines, and nothing is encrypted: listen on 127.0.0.1, give it --tls-cert and \
         --tls-key (`ohm tls create` makes them), or say --insecure"
    )]
    Open(SocketAddr),
    /// The options or the data folder do not fit the etcd, or it lets nobody in.
    #[error(transparent)]
    Etcd(#[from] ohm_log_etcd::EtcdError),
    /// Its certificate can't be used.
    #[error(transparent)]
    Tls(#[from] TlsServeError),
    /// The system gives no more threads.
    #[error("can't start threads: {0}")]
    Threads(std::io::Error),
    /// The log or the replica failed. What is on disk is left as it was.
    #[error("{0}")]
    Replica(String),
}
