//! The one random generator of the project: ChaCha8, whose stream is fixed by its seed for ever (unlike `StdRng`).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Seeded dice. Two generators with one seed give the same numbers on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Prng(ChaCha8Rng);

impl Prng {
    /// Dice that are fully determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Prng(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A new generator whose stream is independent of this one's future.
    pub fn fork(&mut self) -> Self {
        Prng::new(self.u64())
    }

    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`; 0 when `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `permille` of 1000 cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of `items`, or nothing when there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut dice = Prng::new(7);
        let drawn: Vec<u64> = (0..3).map(|_| dice.u64()).collect();
        let mut again = Prng::new(7);
        assert_eq!(drawn, (0..3).map(|_| again.u64()).collect::<Vec<_>>());
        assert_ne!(drawn[0], Prng::new(8).u64());
    }

    #[test]
    fn bounds_hold() {
        let mut dice = Prng::new(1);
        assert_eq!(dice.below(0), 0);
        for _ in 0..1000 {
            assert!(dice.below(3) < 3);
            assert!((5..=9).contains(&dice.between(5, 9)));
        }
        assert_eq!(dice.between(9, 5), 9);
        assert!(dice.pick::<u8>(&[]).is_none());
    }
}
