//! All groups at once, node by node, for groups that took each other's room: that finds places if there are any.

use crate::draft::{Draft, Step};
use ohm_framework::Obstacle;

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    // No packing makes a quota larger.
    let is_room = |obstacle: &Obstacle| !matches!(obstacle, Obstacle::Quota { .. });
    if !draft.why().is_some_and(|why| !why.beside.is_empty() && is_room(&why.obstacle)) {
        return Step::Skip;
    }
    draft.search_jointly()
}
