//! The provisioning duty: asks the outside for nodes on behalf of jobs whose queue has checks, and to take back those
//! that nobody uses any more, and says in the log what came of it.
//!
//! ```text
//!   log ─▶ own copy ─▶ open checks ──Ask──▶ program, server, simulated nodes
//!    ▲                    ▲                          │
//!    └──── ReportCheck, ──┴──────────Answered────────┘
//!          ReportReleased
//! ```
//! Every candidate runs this core; only the holder of the provisioning lease asks. A request has one name for as long
//! as its round lasts, whoever asks: a new holder asks again under the same name, and the outside answers as it did.
//! Within one duty a request is asked once, and again only after an answer that said "pending", or to watch what was
//! ready.
//!
//! Invariants: no clock is read here; without a running lease nothing is asked and nothing is said; what the log has
//! not acknowledged is said again.

mod contract;
mod core;
mod open;
mod releases;

pub use contract::{Answer, AnswerState, Question, Release, Request, RequestGroup, TolerationWords};
pub use core::{Answered, Ask, ProvisionerConfig, ProvisionerCore, ProvisionerEffect, ProvisionerInput};
