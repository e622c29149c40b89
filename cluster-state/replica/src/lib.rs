//! One copy of the truth: a log, the cell it feeds, and everybody who follows along.
//!
//! ```text
//!  Propose ─▶ batch ─▶ log ─▶ Committed ─▶ cell.apply ─▶ Answered, Applied
//!                       │                     │
//!                       └──── snapshots ◀─────┴─▶ followers: snapshot, then entries as the bytes of the log
//! ```
//! [`ServerCore`] puts a hub (agents, beats, wanted sets) and the server's own session around it: all that a server
//! process decides is in here; the process only moves bytes and time.
//! Where several servers keep the truth, any of them takes commands and sends them to the one that leads; answers count
//! once the own copy has come as far. Beats go straight to the server that the health duty is connected to. Every 256
//! indices the copies compare their hashes, and the odd one out stops. To the shell all of it is `ToServer` and
//! `FromServer`, opaque bytes that may be lost.
//!
//! Invariants: commands are answered only after their entry is committed and applied here; commands
//! are forwarded once at most; a follower sees every entry
//! exactly once and in order, starting from its own index or from a snapshot; no queue grows without a limit; a beat is
//! answered by the health duty or not at all; time and bytes come from outside (`now_ms` for patience, `wall_ms` as
//! one of the clocks that time is made from).

mod batch;
mod between;
mod clock;
mod digests;
mod events;
mod followers;
mod hub;
mod proposal;
mod replica;
mod server;
mod stamp;
mod time;
mod wanted;
mod witnesses;

pub use clock::Clock;
pub use events::{EventPage, EventRing};
pub use followers::{FollowFrame, FollowerId};
pub use hub::{AgentOrder, Beat, Peer};
pub use proposal::{ProposeError, Ticket};
pub use replica::{CopyEffect, Effect, Input, Purpose, Replica, ReplicaConfig, ReplicaFailure};
pub use server::{AppendResult, ChangeFailure, RequestId, ServerConfig, ServerCore, ServerEffect, ServerInput};
pub use stamp::{NEAR_MS, Noted, TimeNote};
pub use time::{TimeView, TimeWord};
pub use wanted::Launches;
