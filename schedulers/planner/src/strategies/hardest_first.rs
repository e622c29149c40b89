//! The group that found no room behind the others, before them.

use crate::draft::{Draft, Step};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let Some(hardest) = draft.why().map(|why| why.group) else { return Step::Skip };
    // Most jobs have one group: there is no other order.
    if draft.asks().is_none_or(|asks| asks.len() < 2) {
        return Step::Skip;
    }
    let Some(mut bundles) = draft.bundles() else { return Step::Skip };
    let holds_hardest = |bundle: &Vec<ohm_placement::GroupAsk>| bundle.iter().any(|ask| ask.group == hardest);
    let Some(at) = bundles.iter().position(holds_hardest).filter(|at| *at > 0) else { return Step::Skip };
    bundles[..=at].rotate_right(1);
    draft.search(&bundles, None).unwrap_or(Step::Failed)
}
