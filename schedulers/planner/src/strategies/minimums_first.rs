//! When a group takes so much that a later one falls short: the minimums of the groups that start, and then whatever
//! else fits.

use crate::draft::{Draft, Step};
use ohm_placement::GroupAsk;

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let Some(asks) = draft.asks() else { return Step::Skip };
    if asks.len() < 2 || !asks.iter().any(|ask| ask.starts && ask.most > ask.least) {
        return Step::Skip;
    }
    let starting = asks.iter().filter(|ask| ask.starts);
    let minimums = starting.map(|ask| GroupAsk { most: ask.least, ..*ask }).collect();
    draft.ask_minimums(minimums);
    let Some(bundles) = draft.bundles() else { return Step::Skip };
    draft.search(&bundles, None).unwrap_or_else(|why| draft.fails_for(why))
}
