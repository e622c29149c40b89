//! Groups that start ask for their spares as well, so that their domain has room for both. Where rules about other
//! tasks bear on them they ask later: a spare is no task that others may stand beside.

use crate::draft::{Draft, Step};
use ohm_cell::{Job, spares_at_most};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let job = draft.job();
    let wants_none = job.spec.groups.iter().all(|group| group.spares == 0);
    if wants_none || draft.seeks_spares() || !draft.terms.asks_spares || draft.is_surrounded() {
        return Step::Skip;
    }
    let Some(asks) = draft.asks() else { return Step::Skip };
    let starting: Vec<usize> = asks.iter().filter(|ask| ask.starts).map(|ask| usize::from(ask.group.0)).collect();
    let spares = |job: &Job, at: usize| if starting.contains(&at) { spares_at_most(job, at) } else { 0 };
    if (0..job.groups.len()).all(|at| spares(job, at) == 0) {
        return Step::Skip;
    }
    if draft.ask_spares(spares) { Step::Next } else { Step::Skip }
}
