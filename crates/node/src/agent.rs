//! The agent process.

mod error;
pub(crate) mod key;
pub(crate) mod link;
pub(crate) mod messages;

pub use error::AgentError;
