//! The groups in their order, each with as many tasks as fit, each seeing what the former took.

use crate::draft::{Draft, Step};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let Some(bundles) = draft.bundles() else { return Step::Failed };
    if bundles.is_empty() {
        return Step::Complete;
    }
    draft.search(&bundles, None).unwrap_or_else(|why| draft.fails_for(why))
}
