//! What holds for all queues is put.

use crate::apply::Tx;
use ohm_model::{Outcome, Refusal, Scheduling};

/// Changes what holds for all queues. What was preempted before stays so.
pub(crate) fn put_scheduling(tx: &mut Tx<'_>, scheduling: &Scheduling) -> Result<Outcome, Refusal> {
    if scheduling.fair_sharing.as_ref().is_some_and(|sharing| !sharing.is_sound()) {
        let problem = "one or both rules are possible, each once".to_string();
        return Err(Refusal::Invalid { field: "spec.fairSharing.preemptionStrategies".into(), problem });
    }
    tx.quota.scheduling = scheduling.clone();
    tx.preemptions.forget_turns();
    Ok(Outcome::Done)
}
