//! What Ohm's own roles say to each other: the messages of `proto/ohm.proto`, and how they carry the types of the
//! model.
//!
//! Invariants: a message that does not decode is an error for its sender and harms nobody else; every list is bounded
//! by [`MESSAGE_BYTES_MAX`]. What people and programs read over HTTP is in [`api`].

#![allow(missing_docs, clippy::all, unreachable_pub)]

pub mod api;
mod convert;
mod messages;

pub use convert::{Malformed, read, window_bytes, write};
pub use messages::*;

/// No message is longer.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Readers of output at a time on one node.
pub const NODE_READERS_MAX: usize = 64;
