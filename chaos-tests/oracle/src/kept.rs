//! All room on nodes that is kept for somebody who does not stand there: claims, spares and what repairs are owed.

use crate::claims::Claims;
use crate::earmarks::Earmarks;
use crate::spares::Spares;
use ohm_model::{JobId, NodeId};

/// The books that tell of it.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) claims: &'a Claims,
    pub(crate) spares: &'a Spares,
    pub(crate) earmarks: &'a Earmarks,
}

impl Kept<'_> {
    /// Room on `node` that is kept from waiting tasks of `job`, as job, group and count. Claims and spares of those who
    /// `yield` to it are not; what repairs are owed is.
    pub(crate) fn against(
        &self,
        job: JobId,
        node: NodeId,
        yields: impl Fn(JobId) -> bool,
    ) -> impl Iterator<Item = (JobId, u16, u32)> {
        let spares = self.spares.on_node(node).filter(|(other, ..)| *other != job && !yields(*other));
        let repairs = self.earmarks.on_node(node).filter(|(other, ..)| *other != job);
        self.claims.against(job, node, &yields).chain(spares).chain(repairs).collect::<Vec<_>>().into_iter()
    }

    /// Whether spares of `job` are held on `node`, or runs that came back with it may live on there.
    pub(crate) fn is_unsure(&self, job: JobId, node: NodeId) -> bool {
        self.claims.is_unsettled(node) || self.spares.on_node(node).any(|(other, ..)| other == job)
    }
}
