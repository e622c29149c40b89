//! Whom queues may preempt, and what holds for all queues, in the words of Kueue.

use super::{At, Context, Fields};
use ohm_model::queue::{PREEMPTION_POLICIES, SHARE_RULES};
use ohm_model::{BorrowWithinCohort, FairSharing, PreemptionPolicy, QueuePreemption, Scheduling};

/// Reads the `preemption` of a queue.
pub(super) fn preemption(cx: &mut Context, at: At<'_>) -> Option<QueuePreemption> {
    let known: &[&str] = &["withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort", "outsideRoot"];
    let fields = Fields::open(cx, at, &[known])?;
    let policy = |cx: &mut Context, field, is_possible: fn(PreemptionPolicy) -> bool| {
        let choices = PREEMPTION_POLICIES.into_iter().filter(|(_, policy)| is_possible(*policy));
        let choices: Vec<(&str, PreemptionPolicy)> = choices.collect();
        fields.get(field).and_then(|at| at.choice(cx, &choices)).unwrap_or_default()
    };
    Some(QueuePreemption {
        within_cluster_queue: policy(cx, "withinClusterQueue", PreemptionPolicy::is_within_queue),
        reclaim_within_cohort: policy(cx, "reclaimWithinCohort", PreemptionPolicy::is_within_cohort),
        borrow_within_cohort: fields.get("borrowWithinCohort").and_then(|at| borrow(cx, at)).unwrap_or_default(),
        outside_root: policy(cx, "outsideRoot", PreemptionPolicy::is_outside_root),
    })
}

fn borrow(cx: &mut Context, at: At<'_>) -> Option<BorrowWithinCohort> {
    const POLICIES: [(&str, bool); 2] = [("Never", false), ("LowerPriority", true)];
    let fields = Fields::open(cx, at, &[&["policy", "maxPriorityThreshold"]])?;
    Some(BorrowWithinCohort {
        lower_priority: fields.get("policy").and_then(|at| at.choice(cx, &POLICIES)).unwrap_or(false),
        max_priority_threshold: fields.whole(cx, "maxPriorityThreshold", i64::from(i32::MIN)..=i64::from(i32::MAX)),
    })
}

/// Reads the `spec` of a Scheduling; one without a spec shares nothing out.
pub(crate) fn scheduling(cx: &mut Context, spec: Option<At<'_>>) -> Option<Scheduling> {
    let Some(spec) = spec else { return Some(Scheduling::default()) };
    let fields = Fields::open(cx, spec, &[&["fairSharing"]])?;
    let fair_sharing = fields.get("fairSharing").and_then(|at| fair_sharing(cx, at));
    Some(Scheduling { fair_sharing })
}

/// What is shared out; nothing where it is switched off.
fn fair_sharing(cx: &mut Context, at: At<'_>) -> Option<FairSharing> {
    let fields = Fields::open(cx, at, &[&["enable", "preemptionStrategies"]])?;
    let enable = fields.require(cx, "enable", "true to share borrowed quota out by weight, or false");
    let enable = enable.and_then(|at| at.boolean(cx));
    let rules = fields.get("preemptionStrategies").map(|at| at.list(cx, |cx, at| at.choice(cx, &SHARE_RULES)));
    let sharing =
        rules.map_or_else(FairSharing::default, |preemption_strategies| FairSharing { preemption_strategies });
    (enable == Some(true)).then_some(sharing)
}
