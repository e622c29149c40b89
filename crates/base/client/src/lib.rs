//! How a process speaks to the cell through the log: a session that makes every command happen exactly once, and the
//! leases that the session holds.
//!
//! ```text
//!  owner ──Submit──▶ SessionCore ──Send──▶ server ──▶ log ──▶ every copy
//!    ▲                 │     ▲                                   │
//!    │   Answered/Lost │     └───────── Answer ──────────────────┤
//!    │                 ▼                                         │
//!    └──Gained── LeaseKeeper ◀────── LeaseSeen, Peers ───────────┘
//! ```
//! [`Member`] is the two of them wired together. [`Follower`] adds the own copy of the cell, from which the member
//! learns; it is what a scheduler, a candidate for the health duty and a provisioner own, and [`FollowerInput`] is what
//! they are told. A process without leases (a server) uses [`SessionCore`] alone.
//!
//! Invariants: no clock is read here, time comes in as milliseconds of the owner's monotonic clock; a command that was
//! sent once keeps its number for ever and is never sent under another session; a lease is acted on only while the
//! owner's own clock, counted from the sending of the last committed renewal, says so.

mod balance;
mod flight;
mod follower;
mod lease;
mod member;
mod session;

pub use balance::owners_of;
pub use follower::{Follower, FollowerCore, FollowerEffect, FollowerInput};
pub use lease::{Held, LeaseConfig, LeaseEffect, LeaseInput, LeaseKeeper, LeaseSeen};
pub use member::{Member, MemberConfig, MemberEffect};
pub use session::{COMMANDS_MAX, SessionConfig, SessionCore, SessionEffect, SessionInput, WINDOW_MAX};
