//! What is tried for a job, and in which order: one small file each, and one line of [`TABLE`].
//!
//! A strategy changes the draft of a plan or leaves it. What it took is rolled back by the pipeline when it fails.

mod ask_for_spares;
mod hardest_first;
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

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its name in profiles and explanations.
    pub(crate) name: &'static str,
    /// Its budget: how often it may run in a row while it fails.
    pub(crate) tries: u32,
    /// The strategy.
    pub(crate) run: fn(&mut Draft<'_, '_>) -> Step,
}

/// All strategies, in the order in which they are tried unless a profile says otherwise.
pub(crate) const TABLE: &[Entry] = &[
    Entry { name: "SeatReserved", tries: 1, run: seat_reserved::run },
    Entry { name: "SeatInSpares", tries: 1, run: seat_in_spares::run },
    Entry { name: "AskForSpares", tries: 1, run: ask_for_spares::run },
    Entry { name: "Place", tries: 1, run: place::run },
    Entry { name: "MinimumsFirst", tries: 1, run: minimums_first::run },
    Entry { name: "HardestFirst", tries: 1, run: hardest_first::run },
    Entry { name: "OtherOrders", tries: 4, run: other_orders::run },
    Entry { name: "WithoutSpares", tries: 1, run: without_spares::run },
    Entry { name: "KeepSeated", tries: 1, run: keep_seated::run },
    Entry { name: "LendOwnSpares", tries: 1, run: lend_own_spares::run },
    Entry { name: "WithoutSpareSeats", tries: 1, run: without_spare_seats::run },
];

/// The names that a profile may list.
pub fn strategy_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|entry| entry.name)
}
