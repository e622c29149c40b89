//! Which services are left running for a while when they are told to stop. The dice are their own: what else is drawn
//! does not depend on them.

use super::dice::{dice_of, is_drawn};
use ohm_model::{Class, JobSpec};

/// Of 1000 seeds, so many have such services.
const DRAWN_PERMILLE: u64 = 150;
/// Of 1000 services, so many are such.
const OWN_PERMILLE: u64 = 700;
const DELAY_MS_MAX: u64 = 3_000;

/// Whether a run has delays of stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StopDelays {
    are_there: bool,
}

impl StopDelays {
    /// What a seed draws of it.
    pub(crate) fn drawn(seed: u64) -> Self {
        StopDelays { are_there: is_drawn(seed, 61_208, DRAWN_PERMILLE) }
    }

    /// Gives the groups of a new service delays.
    pub(crate) fn settle(self, job: &mut JobSpec) {
        if !self.are_there || job.class != Class::SERVICE {
            return;
        }
        let mut dice = dice_of(job, 0x57de);
        for group in &mut job.groups {
            if dice.chance(OWN_PERMILLE) {
                group.task.stop_delay_ms = dice.between(1, DELAY_MS_MAX);
            }
        }
    }
}
