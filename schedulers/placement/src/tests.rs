//! Cases as text, and properties against brute force.

mod cases;
mod exact;
mod fixed;
mod properties;
mod scores;
mod slices;
mod spares;
mod topologies;

use crate::fixture::{self, Bare};

fn check(text: &str, expected: &str) {
    fixture::check(&mut Bare::default(), text, expected);
}
