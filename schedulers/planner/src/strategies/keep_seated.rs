//! What was seated, though nothing else of the job finds room; not where a gang needs the rest as well.

use crate::draft::{Draft, Step};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let (job, has_seated) = (draft.job(), draft.has_seated());
    let Some(asks) = draft.asks().filter(|asks| has_seated && !asks.is_empty()) else { return Step::Skip };
    if job.starts_whole() && asks.iter().any(|ask| ask.starts || ask.is_short) {
        return Step::Skip;
    }
    draft.keep_seated();
    Step::Complete
}
