//! In which time queues have their jobs be ready. The dice are their own: what else is drawn does not depend on it, and
//! a run without any of it is what it would be without this file.

use ohm_model::{QueueSpec, ReadyTimeout};
use ohm_stdx::{Prng, hash};

/// Of 1000 seeds whose jobs name queues, so many draw some of it.
const DRAWN_PERMILLE: u64 = 300;

/// How many of 1000 queues that are put have a ready timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadyTimes {
    permille: u64,
}

impl ReadyTimes {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64, queues: bool) -> Self {
        let mut dice = Prng::new(hash::chain(hash::mix(seed), 0x4ead1));
        let drawn = queues && dice.chance(DRAWN_PERMILLE);
        ReadyTimes { permille: if drawn { [400, 700, 1000][dice.below(3) as usize] } else { 0 } }
    }

    /// In which time the jobs of a queue that is put are to be ready.
    pub(crate) fn settle(self, dice: &Prng, spec: &mut QueueSpec) {
        let name = hash::bytes(spec.name.as_bytes());
        let mut own = Prng::new(hash::chain(hash::chain(dice.clone().below(u64::MAX), 0x4ead2), name));
        if spec.is_cohort || !own.chance(self.permille) {
            return;
        }
        let mut one_of = |values: [u64; 4]| values[own.below(4) as usize];
        spec.ready_timeout = Some(Box::new(ReadyTimeout {
            timeout_seconds: one_of([1, 2, 4, 10]),
            recovery_timeout_seconds: one_of([1, 2, 5, 12]),
            backoff_base_seconds: one_of([1, 2, 4, 8]),
            backoff_max_seconds: one_of([1, 4, 10, 20]),
            backoff_limit: Some(one_of([0, 1, 3, 9]) as u32).filter(|limit| *limit < 9),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_seeds_draw_none_of_it() {
        let some = |queues| (0..1000).filter(|seed| ReadyTimes::drawn(*seed, queues).permille > 0).count();
        assert!((250..350).contains(&some(true)), "{}", some(true));
        assert_eq!(some(false), 0);
    }
}
