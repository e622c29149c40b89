//! The working memory of a judgement.

use crate::rooms::ceded::Ceded;
use crate::rooms::overlay::Overlay;
use crate::state::quota::QueueId;
use ohm_model::{GroupIndex, JobId, ShapeId};

/// Working memory of [`Cell::judge`](crate::Cell::judge). Keep one and hand it in again: after warming up, judging a
/// claim allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What the accepted rows take.
    pub(super) over: Overlay,
    pub(super) groups: Vec<GroupTally>,
    pub(super) charge: Charge,
    /// What the job at hand leaves to those that come before it.
    pub(super) ceded: Ceded,
    /// The same of the last job of another queue: most transactions are of one or two.
    pub(super) ceded_before: Ceded,
    /// The jobs of the transaction and where their guards are listed, by job.
    pub(super) guards: Vec<(JobId, u32)>,
}

/// What a queue is to be charged for rows of one shape that come one after another: the tree is asked before the first
/// of them and charged once for each job. What is left falls by what is taken, as in the tree; whatever else changes
/// the tree makes it be asked again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charge {
    pub(super) of: Option<(QueueId, GroupIndex, ShapeId)>,
    /// How many tasks more.
    pub(super) left: u32,
    /// How many are not charged yet.
    pub(super) tasks: u32,
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
