//! What every engine promises, as a suite that each of them runs in its tests. A broken promise panics and names the
//! case and the seed.

mod cases;
mod copy;
mod engine;

pub use engine::Engine;

use cases::Context;
use std::ops::Range;

/// Runs every case on a fresh engine for each seed.
///
/// # Panics
/// When a promise is broken.
pub fn check<E: Engine>(seeds: Range<u64>, mut make: impl FnMut(u64) -> E) {
    for seed in seeds {
        for (name, case) in cases::all::<E>() {
            let mut context = Context::new(name, seed);
            case(&mut make(seed), &mut context);
        }
    }
}
