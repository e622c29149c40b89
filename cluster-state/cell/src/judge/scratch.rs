//! The working memory of a judgement.

use crate::rooms::overlay::Overlay;
use ohm_model::JobId;

/// Working memory of [`Cell::judge`](crate::Cell::judge). Keep one and hand it in again: after warming up, judging a
/// claim allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What the accepted rows take.
    pub(super) over: Overlay,
    pub(super) groups: Vec<GroupTally>,
    /// The jobs of the transaction and where their guards are listed, by job.
    pub(super) guards: Vec<(JobId, u32)>,
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        Scratch::default()
    }
}

impl PartialEq for Scratch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Scratch {}

/// What this transaction has accepted of one group of the job at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupTally {
    pub(super) accepted: u32,
    pub(super) next_task: u32,
    pub(super) touched: bool,
}
