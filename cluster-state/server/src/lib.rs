//! The server process: a replica of the cell with a disk and a network around it.
//!
//! ```text
//!  people ──HTTP──▶ http ──┐
//!  roles  ──RPC───▶ rpc  ──┼──▶ replica thread (ServerCore, disk) ──▶ outlets ──▶ roles
//! ```
//! Everything that is decided is decided in `ServerCore`; this crate moves bytes and time.

mod engine;
mod found;
mod handle;
pub mod http;
mod links;
mod log_readers;
mod metrics;
mod outlets;
mod replica_thread;
mod rpc;
mod run;
mod tls;

pub use handle::{LogPiece, LogQuery, ReplicaHandle, Servers, Unanswered};
pub use log_readers::LogStream;
pub use run::{ServerError, ServerOptions, run};
