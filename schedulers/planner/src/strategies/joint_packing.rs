//! All groups at once, node by node, for groups that took each other's room: that finds places if there are any.

use crate::draft::{Draft, Step};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    if !draft.lacks_room_beside_others() {
        return Step::Skip;
    }
    draft.search_jointly()
}
