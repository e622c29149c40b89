//! What is tried for a job: one small file for each strategy of the model, and one line of [`Entry::of`].
//!
//! A strategy changes the draft of a plan or leaves it. What it took is rolled back by the pipeline when it fails.

mod ask_for_spares;
mod hardest_first;
mod joint_packing;
mod keep_seated;
mod lend_own_spares;
mod minimums_first;
mod other_orders;
mod place;
mod seat_in_spares;
mod seat_reserved;
mod without_spare_seats;
mod without_spares;

use crate::draft::{Draft, Step};
use ohm_model::Strategy;

/// One strategy of a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) strategy: Strategy,
    /// Its budget: how often it may run in a row while it fails.
    pub(crate) tries: u32,
    /// What it does.
    pub(crate) run: fn(&mut Draft<'_, '_>) -> Step,
}

impl Entry {
    /// What is run for `strategy`.
    pub(crate) fn of(strategy: Strategy) -> Self {
        let once = |run| Entry { strategy, tries: 1, run };
        match strategy {
            Strategy::SeatReserved => once(seat_reserved::run),
            Strategy::SeatInSpares => once(seat_in_spares::run),
            Strategy::AskForSpares => once(ask_for_spares::run),
            Strategy::Place => once(place::run),
            Strategy::MinimumsFirst => once(minimums_first::run),
            Strategy::HardestFirst => once(hardest_first::run),
            Strategy::JointPacking => once(joint_packing::run),
            Strategy::OtherOrders => Entry { strategy, tries: 4, run: other_orders::run },
            Strategy::WithoutSpares => once(without_spares::run),
            Strategy::KeepSeated => once(keep_seated::run),
            Strategy::LendOwnSpares => once(lend_own_spares::run),
            Strategy::WithoutSpareSeats => once(without_spare_seats::run),
        }
    }
}
