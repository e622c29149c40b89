//! The shell kit: what every process of Ohm needs around its core. Clocks, signals, traces, the data folder, the way to
//! a server.
//!
//! Invariant: nothing here decides anything about jobs, nodes or leases.

pub mod background;
pub mod clock;
pub mod connect;
pub mod data_dir;
pub mod descriptors;
pub mod dice;
pub mod machine;
pub mod ports;
pub mod recorder;
pub mod servers;
pub mod shutdown;
#[cfg(feature = "test_server")]
pub mod test_server;
pub mod tls;
pub mod trace;
