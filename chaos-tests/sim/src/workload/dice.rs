//! Dice of their own for what was added later, so that all others fall as before.

use ohm_model::JobSpec;
use ohm_stdx::{Prng, hash};

/// Whether a seed has something that so many of 1000 have.
pub(super) fn is_drawn(seed: u64, salt: u64, permille: u64) -> bool {
    hash::chain(hash::mix(seed), salt) % 1000 < permille
}

/// Dice for a new job, other ones for each salt.
pub(super) fn dice_of(job: &JobSpec, salt: u64) -> Prng {
    let salt = job.groups.iter().fold(salt, |salt, group| hash::chain(salt, group.task.sim_duration_ms));
    Prng::new(hash::chain(salt, hash::bytes(job.name.as_bytes())))
}
