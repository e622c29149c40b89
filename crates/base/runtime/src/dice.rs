//! Real randomness for processes: nonces, keys, seeds.

use ohm_stdx::Prng;
use rand::Rng;

/// 64 bits from the operating system's generator.
pub fn random_u64() -> u64 {
    rand::rng().next_u64()
}

/// A generator that no other process has.
pub fn dice() -> Prng {
    Prng::new(random_u64())
}
