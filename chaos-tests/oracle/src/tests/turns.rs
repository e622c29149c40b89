//! P8 for the order of a queue across schedulers, and what others that stop leave of it.

use super::owed_room::{nothing, one_task};
use super::preemption::{of, queue};
use super::*;
use ohm_model::PreemptionPolicy::Any;
use ohm_model::{
    Epoch, Lease, Placement, PreemptionNeed, PreemptionReason, QueuePreemption, Shard, Transaction, Victim,
};

const FIRST: u32 = 0;
const LATER: u32 = 1;
const BORROWER: u32 = 2;
const PREEMPTOR: u32 = 3;

/// A name of a job that one of two schedulers plans.
fn name(scheduler: u64, what: &str) -> String {
    let of_scheduler = |name: &String| u64::from(Shard::of(Class::BATCH, name).number) % 2 == scheduler;
    (0..).map(|number| format!("{what}-{number}")).find(of_scheduler).expect("half of all names")
}

/// Two schedulers, and queues `a` and `b` of 4 cpus each under one cohort. A job of 3 tasks has borrowed one cpu of
/// `a`, whose first job asks for 2; another job comes later and is planned by the other scheduler.
fn line() -> History {
    let mut history = History::default();
    for number in 0..ohm_model::lease::SHARDS_PER_CLASS {
        let lease = Lease::Shard(Shard { class: Class::BATCH, number });
        let command = Command::TakeLease { lease, epoch: Epoch(0), renewed: Index(0) };
        history.sender = SessionId(1 + u64::from(number) % 2);
        history.entry(command, Outcome::Lease(Epoch(1)), Vec::new());
    }
    history.sender = SessionId::default();
    let capacity = [("cpu".to_string(), 100_000), ("pods".to_string(), 100)].into();
    history.node(0, NodeSpec { capacity, ..node("n", &[]) });
    history.put_queue(QueueSpec { is_cohort: true, ..queue("all", "", 0, QueuePreemption::default()) });
    let reclaims = QueuePreemption { reclaim_within_cohort: Any, ..QueuePreemption::default() };
    history.put_queue(queue("a", "all", 4000, reclaims));
    history.put_queue(queue("b", "all", 4000, QueuePreemption::default()));
    history.stands(BORROWER, of(&name(0, "borrower"), "b", 5, 0));
    let first = |job: &mut JobSpec| (job.queue, job.groups[0].min_count) = ("a".into(), 2);
    history.job(FIRST, job(&name(0, "first"), 2, first));
    history.job(LATER, of(&name(1, "later"), "a", 6, 0));
    history
}

impl History {
    /// The log takes a plan for so many tasks of a job.
    fn starts(&mut self, job: u32, count: u32) -> &mut Self {
        let place = vec![Placement { count, ..one_task(job, 0, 0) }];
        self.committed(Transaction { place, ..nothing() }, vec![placed(job, 0, count, 0)])
    }
}

#[test]
fn p8_whoever_comes_later_and_is_planned_elsewhere_leaves_the_first_what_it_needs() {
    assert_eq!(line().starts(LATER, 2).broken(), ["P8"]);
    assert!(line().starts(LATER, 1).broken().is_empty(), "enough is left");
    assert!(line().starts(FIRST, 2).broken().is_empty());
}

/// Others stop for a job of the same queue, in the same tree: what the first one would need is promised to that one.
#[test]
fn p8_nothing_is_owed_to_the_first_of_what_is_promised_to_a_preemptor() {
    let promised = |stops: bool| {
        let mut history = line();
        let whole = |job: &mut JobSpec| {
            (job.queue, job.priority, job.groups[0].min_count) = ("a".into(), 5, 4);
        };
        history.job(PREEMPTOR, job(&name(0, "preemptor"), 4, whole));
        if stops {
            let reason = PreemptionReason::InCohortReclamation;
            let victim = Victim::whole(JobId::new(BORROWER, 0), PreemptionNeed::Quota, reason);
            history.preempts(PREEMPTOR, vec![victim], Vec::new());
        }
        history
    };
    assert!(!promised(true).starts(LATER, 2).broken().contains(&"P8"), "it is not there for the first one");
    // While they stop the preemptor itself is the first, and waits for more than there is.
    assert!(!promised(false).starts(LATER, 2).broken().contains(&"P8"), "the preemptor comes first, and lacks quota");
    let mut over = promised(true);
    over.ends(BORROWER).over(PREEMPTOR);
    assert_eq!(over.starts(LATER, 5).broken(), ["P8"], "quota is there, and the preemptor is first");
}
