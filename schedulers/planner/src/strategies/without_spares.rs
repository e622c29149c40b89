//! Again without the spares that were asked for as well: a job neither waits for spares nor goes short for them.

use crate::draft::{Draft, Step, Terms};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    if draft.seeks_spares() || !draft.asks_spares() {
        return Step::Skip;
    }
    Step::Again(Terms { asks_spares: false, ..draft.terms })
}
