//! What the raft crate has to say, for whoever wants to hear it.

use slog::{Discard, Drain, Level, Logger, Never, OwnedKVList, Record};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// How much a remark matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The course of things: elections, snapshots.
    Info,
    /// Something is odd.
    Warning,
    /// Something is wrong; most of these precede the end of the process.
    Error,
}

/// Takes the remarks of the raft crate. The shell passes them to its own log.
pub trait Listener: Send + Sync + UnwindSafe + RefUnwindSafe + 'static {
    /// Takes one remark.
    fn remark(&self, weight: Weight, text: &str);
}

struct Forward<L>(L);

impl<L: Listener> Drain for Forward<L> {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, _values: &OwnedKVList) -> Result<(), Never> {
        let weight = match record.level() {
            Level::Critical | Level::Error => Weight::Error,
            Level::Warning => Weight::Warning,
            Level::Info => Weight::Info,
            _ => return Ok(()),
        };
        self.0.remark(weight, &record.msg().to_string());
        Ok(())
    }

    fn is_enabled(&self, level: Level) -> bool {
        level.is_at_least(Level::Info)
    }
}

/// Where the raft crate writes its remarks to.
pub struct Remarks(pub(crate) Logger);

impl Remarks {
    /// Nobody listens.
    pub fn none() -> Self {
        Remarks(Logger::root(Discard, slog::o!()))
    }

    /// This one listens.
    pub fn to(listener: impl Listener) -> Self {
        Remarks(Logger::root(Forward(listener), slog::o!()))
    }
}
