//! Walking the quota tree.

use super::{QueueId, Quota};
use ohm_model::FlavorResource;

impl Quota {
    /// The cohort above.
    pub fn above(&self, node: QueueId) -> Option<QueueId> {
        self.at(node).above.map(QueueId)
    }

    /// What a queue or cohort has of a column by itself and from below.
    pub(crate) fn own(&self, node: QueueId, column: FlavorResource) -> i64 {
        self.at(node).level(column).subtree
    }

    /// The queues and cohorts right below `cohort`, by name.
    pub fn children(&self, cohort: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        let below = self.nodes.iter().enumerate().filter(move |(_, node)| node.above == Some(cohort.0));
        below.map(|(at, _)| QueueId(at as u32))
    }

    /// Whether this is a cohort.
    pub fn is_cohort(&self, node: QueueId) -> bool {
        self.at(node).spec.is_cohort
    }

    /// Whether `node` is `above`, or below it.
    pub fn is_below(&self, node: QueueId, above: QueueId) -> bool {
        let mut at = Some(node);
        while let Some(here) = at.filter(|here| *here != above) {
            at = self.above(here);
        }
        at.is_some()
    }
}
