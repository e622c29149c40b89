//! What the shell asks of a core that follows the log: the inputs and effects that the scheduler core and the duty core
//! have in common. Each of them translates; none of them decides.

use ohm_cell::Cell;
use ohm_health::BeatMark;
use ohm_model::{Entry, Envelope, Index, Outcome, Sequence, SessionId};
use ohm_wire::BeatAnswers;

/// What a core is told.
pub(crate) enum Input {
    Snapshot(Box<Cell>),
    Entry {
        index: Index,
        entry: Entry,
    },
    Answer {
        session: SessionId,
        sequence: Sequence,
        outcome: Outcome,
    },
    OpenAnswer {
        nonce: u64,
        outcome: Outcome,
    },
    Connected,
    Disconnected,
    /// Only for a follower with [`Follower::HAS_DUTY`].
    Beats {
        relay: u64,
        beats: Vec<BeatMark>,
    },
    /// Everything that had arrived was handed in.
    Proceed,
    Tick,
    Close,
}

/// What a core wants done.
pub(crate) enum Effect {
    Send(Vec<Envelope>),
    /// Hand in what has arrived, then [`Input::Proceed`].
    Again,
    Opened(SessionId),
    /// Answers to beats that came over this relay.
    Answers {
        relay: u64,
        answers: BeatAnswers,
    },
    Closed,
}

/// A core that keeps a copy of the cell.
pub(crate) trait Follower {
    /// Whether it takes part in the health duty.
    const HAS_DUTY: bool;

    /// The last entry in its copy.
    fn applied(&self) -> Index;

    /// The running hash of its copy after that entry.
    fn chain(&self) -> u64;

    /// Milliseconds between two ticks, at most.
    fn tick_ms(&self) -> u64;

    /// Takes one input at `now_ms` of the boot-time clock, and says in the traces what a person wants to know.
    fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>);

    /// Writes its counters into the traces; called every now and then.
    fn report(&mut self);
}
