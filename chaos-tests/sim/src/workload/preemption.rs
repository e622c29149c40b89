//! Whom queues let their jobs stop. The dice are their own: what else is drawn does not depend on it.

use ohm_model::{
    BorrowWithinCohort, Command, FairSharing, FlavorFungibility, FlavorPreference, PreemptionPolicy, QueuePreemption,
    Scheduling, ShareRule, WhenCan,
};
use ohm_stdx::{Prng, hash};

/// The policies of the queue called `name`; the cohort has none.
pub(super) fn preemption(dice: &Prng, name: &str) -> QueuePreemption {
    use PreemptionPolicy::{Any, LowerOrNewerEqualPriority, LowerPriority, Never};
    let mut own = apart(dice, name);
    if name == "all" || own.chance(300) {
        return QueuePreemption::default();
    }
    let within = [Never, LowerPriority, LowerOrNewerEqualPriority, LowerPriority];
    let reclaim = [Never, LowerPriority, Any, Any];
    let reclaim = reclaim[own.below(4) as usize];
    let lower_priority = reclaim != Never && own.chance(300);
    let threshold = own.below(3) as i32;
    QueuePreemption {
        within_cluster_queue: within[own.below(4) as usize],
        reclaim_within_cohort: reclaim,
        borrow_within_cohort: BorrowWithinCohort {
            lower_priority,
            max_priority_threshold: (lower_priority && own.chance(500)).then_some(threshold),
        },
        outside_root: [Never, LowerPriority][usize::from(own.chance(400))],
    }
}

/// For how long a queue protects what has just started from other queues.
pub(super) fn min_runtime_seconds(dice: &Prng, name: &str) -> u64 {
    let mut own = apart(dice, &format!("protection of {name}"));
    if name != "all" && own.chance(200) { own.between(2, 20) } else { 0 }
}

/// Whether others may be stopped for the job called `name`, and it for others.
pub(super) fn of_job(dice: &Prng, name: &str) -> (bool, bool) {
    let mut own = apart(dice, name);
    (!own.chance(150), !own.chance(100))
}

/// Whether flavors for which others are stopped are taken before others.
pub(super) fn fungibility(dice: &Prng, name: &str) -> FlavorFungibility {
    let mut own = apart(dice, name);
    let when_can_preempt = [WhenCan::MayStopSearch, WhenCan::TryNextFlavor][own.below(2) as usize];
    let preferences = [FlavorPreference::BorrowingOverPreemption, FlavorPreference::PreemptionOverBorrowing];
    let preference = preferences[usize::from(own.chance(300))];
    FlavorFungibility { when_can_preempt, preference, ..FlavorFungibility::default() }
}

/// Fair sharing, in some cells.
pub(super) fn scheduling(dice: &Prng) -> Option<Command> {
    let mut own = apart(dice, "scheduling");
    let mut fair_sharing = FairSharing::default();
    match own.below(4) {
        0 => fair_sharing.preemption_strategies = vec![ShareRule::LessThanInitialShare],
        1 => {}
        _ => return None,
    }
    Some(Command::PutScheduling(Scheduling { fair_sharing: Some(fair_sharing) }))
}

fn apart(dice: &Prng, name: &str) -> Prng {
    Prng::new(hash::chain(dice.clone().below(u64::MAX), hash::bytes(name.as_bytes())))
}
