//! Whom a job stops that lacks quota or room. The rules are the cell's ([`Preemptor`]); which of those that it may stop
//! are stopped is decided here, by one of two searches of Kueue.

mod classical;
mod fair;
pub(crate) mod live;
pub(crate) mod nodes;
pub(crate) mod one_node;
mod order;
pub(crate) mod pieces;

use ohm_cell::{Job, Preemptor, QuotaIf, WhatIf};
use ohm_model::Victim;

/// The jobs to stop so that the quota has what so many tasks of each group of `job` need, all that wait where nothing
/// is said, with the flavors that it has, in the order in which each may be; none where nobody may be stopped, or all
/// of them would not be enough, or nothing is lacking.
pub fn victims(what: WhatIf<'_>, job: &Job, wanted: &[u32]) -> Vec<Victim> {
    let mut tree = QuotaIf::promised_over(what.cell, what.over, job);
    Preemptor::of(what.cell, job, &tree, wanted)
        .map(|preemptor| search(what, &preemptor, &mut tree))
        .unwrap_or_default()
}

/// The jobs that one may stop and needs to. The tree is as before afterwards.
pub(crate) fn search<'a>(what: WhatIf<'a>, preemptor: &Preemptor<'a>, tree: &mut QuotaIf<'a>) -> Vec<Victim> {
    match preemptor.is_fair() {
        true => fair::search(what, preemptor, tree),
        false => classical::search(what, preemptor, tree),
    }
}
