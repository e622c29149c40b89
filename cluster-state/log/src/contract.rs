//! What every engine promises, as a suite that each of them runs in its tests. A broken promise panics and names the
//! case and the seed.

mod cases;
mod copy;

use crate::Log;
use ohm_stdx::Prng;
use std::ops::Range;

/// An engine under test: how its processes start and stop. What it stores lives as long as the engine.
pub trait Engine {
    /// The log that a process holds.
    type Log: Log;

    /// Starts a process with what is durable.
    fn start(&mut self) -> Self::Log;

    /// Ends a process without warning, as `kill -9` or a power cut would.
    fn stop(&mut self, log: Self::Log);

    /// Starts a second process beside the first, for engines that can do so in one test.
    fn start_another(&mut self) -> Option<Self::Log> {
        None
    }
}

/// Runs every case on a fresh engine for each seed.
///
/// # Panics
/// When a promise is broken.
pub fn check<E: Engine>(seeds: Range<u64>, mut make: impl FnMut(u64) -> E) {
    for seed in seeds {
        for (name, case) in cases::all::<E>() {
            let mut context = Context { label: format!("{name}, seed {seed}"), dice: Prng::new(seed), ids: 0 };
            case(&mut make(seed), &mut context);
        }
    }
}

/// What a case needs besides its engine.
pub(crate) struct Context {
    label: String,
    dice: Prng,
    ids: u64,
}

impl Context {
    /// Bytes that no other append has.
    fn payload(&mut self) -> crate::Bytes {
        self.ids += 1;
        let filler = self.dice.below(200) as usize;
        let mut bytes = self.ids.to_le_bytes().to_vec();
        bytes.resize(8 + filler, self.ids as u8);
        bytes.into()
    }
}
