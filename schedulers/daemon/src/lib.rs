//! The process that follows the log: around one scheduler core, the health core, or the provisioner core.
//!
//! ```text
//!           ┌─ Follow: snapshot, entries ─▶┐
//!  server ──┼─ Append: answers ───────────▶├─ link ──Arrival──▶ shell ──Input──▶ core
//!           └─ Duty: beats ───────────────▶┘   ▲                  │ ▲              │
//!                                              └──── Outlets ◀────┘ └───Effect─────┘
//! ```
//! The link is one task that connects, reads and decodes; the shell is one task that owns the core and steps it;
//! between them are bounded queues. Nothing is decided here: what is sent again, planned again or given up is the
//! core's business.
//!
//! Invariants: everything that has arrived reaches the core before it plans; the core is stepped by one task only, with
//! the boot-time clock read after the input arrived; what does not decode ends the process, because a copy with a hole
//! would plan on something that is not true.

mod error;
mod follower;
mod health;
mod link;
mod provisioner;
mod scheduler;
mod shell;
mod snapshot;
mod tickets;

pub use error::DaemonError;
pub use health::{HealthOptions, run_health};
pub use provisioner::{ProvisionerOptions, SimOptions, run_provisioner};
pub use scheduler::{SchedulerOptions, run_scheduler};
