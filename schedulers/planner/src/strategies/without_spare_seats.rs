//! Again without seating lost tasks in spares first: seated there, they may keep the rest of the job from finding room.

use crate::draft::{Draft, Step, Terms};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    if !draft.terms.lends_spares || !draft.terms.seats_spares {
        return Step::Skip;
    }
    Step::Again(Terms { asks_spares: true, seats_spares: false, ..draft.terms })
}
