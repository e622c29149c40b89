//! Equally good places in another order, for groups that took each other's room. Packing is not solved by this, only
//! most of it.

use crate::draft::{Draft, Step};
use ohm_framework::Obstacle;

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    // No order makes a quota larger.
    let is_room = |obstacle: &Obstacle| !matches!(obstacle, Obstacle::Quota { .. });
    if !draft.why().is_some_and(|why| !why.beside.is_empty() && is_room(&why.obstacle)) {
        return Step::Skip;
    }
    let Some(bundles) = draft.bundles() else { return Step::Skip };
    let salt = draft.dice() | 1;
    draft.search(&bundles, Some(salt)).unwrap_or(Step::Failed)
}
