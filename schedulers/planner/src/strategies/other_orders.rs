//! Equally good places in another order, for groups that took each other's room. Packing is not solved by this, only
//! most of it.

use crate::draft::{Draft, Step};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    if !draft.lacks_room_beside_others() {
        return Step::Skip;
    }
    let Some(bundles) = draft.bundles() else { return Step::Skip };
    let salt = draft.dice() | 1;
    draft.search(&bundles, Some(salt)).unwrap_or(Step::Failed)
}
