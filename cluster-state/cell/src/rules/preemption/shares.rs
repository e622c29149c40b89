//! Preemption under fair sharing: jobs of other queues may be stopped where their side has more than its share.
//!
//! The job counts as if it stood. Two sides are compared, the children of the lowest cohort that both queues are below:
//!
//! ```text
//! the job's queue is within its own                       InCohortReclamation
//! own share  <=  the other share without the victim       InCohortFairSharing  (LessThanOrEqualToFinalShare)
//! own share  <   the other share with the victim          InCohortFairSharing  (LessThanInitialShare)
//! ```

use super::{Preemptor, Variant};
use crate::rooms::quota_if::QuotaIf;
use crate::state::preemptions::Stopping;
use crate::state::quota::QueueId;
use ohm_model::{PreemptionReason, ShareRule};

impl Preemptor<'_> {
    /// Charges what the job needs, as if it stood.
    pub fn take(&self, tree: &mut QuotaIf<'_>) {
        tree.charge(self.queue, &self.asked, 1);
    }

    /// Takes that back.
    pub fn give_back(&self, tree: &mut QuotaIf<'_>) {
        tree.charge(self.queue, &self.asked, -1);
    }

    /// The rules of shares, the first one first; none without fair sharing.
    pub fn share_rules(&self) -> &[ShareRule] {
        self.share_rules.unwrap_or(&[])
    }

    /// Why so much of a job may be stopped now under one of these rules, where this one is charged as if it stood.
    pub fn share_right(
        &self,
        tree: &mut QuotaIf<'_>,
        part: Stopping<'_>,
        rules: &[ShareRule],
    ) -> Option<PreemptionReason> {
        let victim = part.job;
        if self.variant(victim)? == Variant::InQueue {
            return Some(PreemptionReason::InClusterQueue);
        }
        let queue = self.cell.quota.find(&victim.spec.queue)?;
        if self.lacked_of(part).iter().all(|column| tree.beyond_own(queue, *column) <= 0) {
            return None;
        }
        if self.lacking.iter().all(|column| tree.beyond_own(self.queue, *column) <= 0) {
            return Some(PreemptionReason::InCohortReclamation);
        }
        if self.must_yield(victim) {
            return None;
        }
        let (own, other) = self.sides(queue)?;
        let (share, before) = (tree.share(own), tree.share(other));
        tree.stop_part(part);
        let after = tree.share(other);
        tree.put_back_part(part);
        let passes = |rule: &ShareRule| match rule {
            ShareRule::LessThanOrEqualToFinalShare => share <= after,
            ShareRule::LessThanInitialShare => share < before,
        };
        rules.iter().any(passes).then_some(PreemptionReason::InCohortFairSharing)
    }

    /// Whether a queue uses more than its own of something that the job lacks.
    pub fn borrows_itself(&self, tree: &QuotaIf<'_>, queue: QueueId) -> bool {
        self.lacking.iter().any(|column| tree.beyond_own(queue, *column) > 0)
    }

    /// Whether the job is charged to `node`, or to a queue below it.
    pub fn is_on_path(&self, node: QueueId) -> bool {
        self.path.iter().any(|(known, _)| *known == node)
    }

    /// Whether `queue` is that of the job.
    pub fn is_own(&self, queue: QueueId) -> bool {
        queue == self.queue
    }

    /// The topmost cohort above the job's queue, or the queue.
    pub fn root(&self) -> QueueId {
        self.path.last().map_or(self.queue, |(root, _)| *root)
    }

    /// The children of the lowest cohort above both queues: the one that the job is below, and the one that `queue` is.
    fn sides(&self, queue: QueueId) -> Option<(QueueId, QueueId)> {
        let meets = self.meets(queue)?;
        let (own, cohort) = (self.path.get(meets.checked_sub(1)?)?.0, self.path.get(meets)?.0);
        let mut other = queue;
        while let Some(above) = self.cell.quota.above(other).filter(|above| *above != cohort) {
            other = above;
        }
        Some((own, other))
    }
}
