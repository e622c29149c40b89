//! The server process: a replica of the cell with a disk and a network around it.
//!
//! ```text
//!  people ──HTTP──▶ http ──┐
//!  roles  ──RPC───▶ rpc  ──┼──▶ replica thread (ServerCore, disk) ──▶ outlets ──▶ roles
//! ```
//! Everything that is decided is decided in `ServerCore`; this crate moves bytes and time.

mod between;
mod connections;
mod engine;
mod error;
mod found;
mod handle;
pub mod heard;
pub mod http;
mod inbox;
mod links;
mod log_readers;
mod log_relay;
mod metrics;
mod options;
mod outlets;
mod replica_thread;
mod rpc;
mod run;
#[cfg(feature = "stand-in")]
pub mod stand_in;
mod time_file;
mod tls;
mod token;

pub use error::ServerError;
pub use handle::{ReplicaHandle, Servers, Unanswered};
pub use log_readers::{LogPiece, LogQuery};
pub use log_relay::LogStream;
pub use options::ServerOptions;
pub use run::run;
