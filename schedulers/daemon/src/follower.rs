//! What the shell asks of a process that follows the log: its core, and what is of its own kind.

use ohm_client::{FollowerCore, FollowerEffect, FollowerInput};
use ohm_health::RelayedBeats;
use ohm_wire::BeatAnswers;

/// What only this core is told.
pub(crate) type OwnInput<F> = <<F as Follower>::Core as FollowerCore>::Input;
/// What only this core wants.
pub(crate) type OwnEffect<F> = <<F as Follower>::Core as FollowerCore>::Effect;
/// What this core is told.
pub(crate) type Input<F> = FollowerInput<OwnInput<F>>;
/// What this core wants done.
pub(crate) type Effect<F> = FollowerEffect<OwnEffect<F>>;

/// What the shell does for one kind of core only.
pub(crate) enum Wish {
    /// Hand in what has arrived, then [`Follower::proceed`].
    Again,
    /// Give the connection up and make another one.
    Reconnect,
    /// Answers to beats that came over this relay.
    Answer { relay: u64, answers: BeatAnswers },
}

/// A core that keeps a copy of the cell, and what stands around it.
pub(crate) trait Follower {
    type Core: FollowerCore;

    /// Whether it takes part in the health duty.
    const HAS_DUTY: bool = false;

    fn core(&self) -> &Self::Core;

    fn core_mut(&mut self) -> &mut Self::Core;

    /// Milliseconds between two ticks, at most.
    fn tick_ms(&self) -> u64;

    /// Does what is of its own kind, and says in the traces what a person wants to know.
    fn perform(&mut self, effect: OwnEffect<Self>) -> Option<Wish>;

    /// Beats were relayed; only with [`Follower::HAS_DUTY`].
    fn beats(_beats: RelayedBeats) -> Option<OwnInput<Self>> {
        None
    }

    /// Everything that had arrived was handed in.
    fn proceed() -> Option<OwnInput<Self>> {
        None
    }

    /// What came from elsewhere than from the servers; asked for before every tick until there is nothing.
    fn arrived(&mut self) -> Option<OwnInput<Self>> {
        None
    }

    /// Writes its counters into the traces; called every now and then.
    fn report(&mut self);
}
