//! Again with the spares that the job holds as room for its own tasks: rather without spares than waiting.

use crate::draft::{Draft, Step, Terms};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let holds_none = draft.job().groups.iter().all(|group| group.spares == 0);
    if holds_none || draft.seeks_spares() || draft.terms.lends_spares {
        return Step::Skip;
    }
    Step::Again(Terms { asks_spares: true, lends_spares: true, ..draft.terms })
}
