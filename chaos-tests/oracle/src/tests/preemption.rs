//! P11: who may be stopped for whom, and what becomes of what is given back.

use super::owed_room::nothing;
use super::*;
use ohm_model::PreemptionPolicy::{Any, LowerOrNewerEqualPriority, LowerPriority, Never};
use ohm_model::PreemptionReason::{
    InClusterQueue, InCohortFairSharing, InCohortReclaimWhileBorrowing, InCohortReclamation,
};
use ohm_model::{
    FairSharing, Grain, JobGuard, Nomination, PreemptionChange, PreemptionEvent, PreemptionNeed, PreemptionPolicy,
    PreemptionReason, QueuePreemption, Scheduling, Transaction, Verdict, Victim,
};

const TAKER: u32 = 0;

pub(super) fn queue(name: &str, parent: &str, cpu: i64, preemption: QueuePreemption) -> QueueSpec {
    let nominal = [("cpu".to_string(), cpu)].into();
    QueueSpec { name: name.into(), parent: parent.into(), nominal, preemption, ..QueueSpec::default() }
}

fn policy(within_cluster_queue: PreemptionPolicy, reclaim_within_cohort: PreemptionPolicy) -> QueuePreemption {
    QueuePreemption { within_cluster_queue, reclaim_within_cohort, ..QueuePreemption::default() }
}

pub(super) fn of(name: &str, queue: &str, count: u32, priority: i32) -> JobSpec {
    job(name, count, |job| (job.queue, job.priority) = (queue.into(), priority))
}

fn preemption(job: u32, name: &str, change: PreemptionChange) -> EventKind {
    EventKind::Preemption(PreemptionEvent { job: JobId::new(job, 0), name: name.into(), change })
}

impl History {
    pub(super) fn put_queue(&mut self, queue: QueueSpec) -> &mut Self {
        self.entry(Command::PutQueue(queue), Outcome::Done, Vec::new())
    }

    /// Submits a job of which all tasks stand.
    pub(super) fn stands(&mut self, number: u32, spec: JobSpec) -> &mut Self {
        let count = spec.groups[0].count;
        self.job(number, spec).happened(vec![placed(number, 0, count, 0)])
    }

    /// The log lets these be stopped whole for the quota that a job lacks.
    fn stops(&mut self, by: u32, victims: &[(u32, PreemptionReason)]) -> &mut Self {
        let victim = |&(job, reason)| Victim::whole(JobId::new(job, 0), PreemptionNeed::Quota, reason);
        self.preempts(by, victims.iter().map(victim).collect(), Vec::new())
    }

    /// The log lets these be stopped for a job, for which these rooms are kept.
    pub(super) fn preempts(&mut self, by: u32, preempt: Vec<Victim>, nominate: Vec<Nomination>) -> &mut Self {
        let need = ohm_model::need_of(&preempt);
        let named = preempt.iter().map(|victim| (victim.job.to_string(), victim.reason)).collect();
        let mut kinds = vec![preemption(
            by,
            "taker",
            PreemptionChange::Waits { need, victims: named, budgets: Vec::new(), until_ms: 1_000_000 },
        )];
        for Victim { job, need, reason, runs } in &preempt {
            let (by, part) = ("taker".into(), (!runs.is_empty()).then_some(runs.len() as u32));
            let change = PreemptionChange::Stopped { by, need: *need, runs: part, reason: *reason };
            kinds.push(EventKind::Preemption(PreemptionEvent { job: *job, name: "victim".into(), change }));
            let live = self.oracle.books.live(*job, 0).filter(|(_, standing)| !standing.stopping);
            let named = |task: &u32| runs.is_empty() || runs.iter().any(|run| run.task.task.0 == *task);
            let tasks: Vec<(u32, NodeId)> =
                live.map(|(task, standing)| (task, standing.node)).filter(|(task, _)| named(task)).collect();
            let stop = |(task, node): (u32, NodeId)| {
                let (incarnation, cause) = (Incarnation(1), StopCause::Preempted);
                EventKind::Stopping { job: *job, group: 0, task, incarnation, node, cause }
            };
            kinds.extend(tasks.into_iter().map(stop));
        }
        let jobs = vec![JobGuard { job: JobId::new(by, 0), version: Index(0), reserved: false }];
        let transaction = Transaction { jobs, preempt, nominate, grain: Grain::AllOrNothing, ..nothing() };
        self.entry(Command::Commit(transaction), Outcome::Verdict(Verdict::default()), kinds)
    }

    /// All of it that stops ends.
    pub(super) fn ends(&mut self, number: u32) -> &mut Self {
        let job = JobId::new(number, 0);
        let live: Vec<u32> = self.oracle.books.live(job, 0).map(|(task, _)| task).collect();
        let (group, incarnation, node) = (0, Incarnation(1), NodeId(0));
        let (exit, cause) = (Exit::Signal(15), Some(StopCause::Preempted));
        let end = |task: u32| EventKind::Ended { job, group, task, incarnation, node, exit, cause };
        self.happened(live.into_iter().map(end).collect())
    }

    pub(super) fn over(&mut self, number: u32) -> &mut Self {
        self.over_because(number, "its time is over")
    }

    pub(super) fn over_because(&mut self, number: u32, reason: &str) -> &mut Self {
        let reason = reason.into();
        self.happened(vec![preemption(number, "taker", PreemptionChange::Over { reason })])
    }

    fn shares(&mut self) -> &mut Self {
        let scheduling = Scheduling { fair_sharing: Some(FairSharing::default()) };
        self.entry(Command::PutScheduling(scheduling), Outcome::Done, Vec::new())
    }
}

/// Queues of 4 cpu each; the jobs of the second one, of 3, 3 and 1 tasks, borrow 3 of what the first one owns, of which
/// a job waits for `count`.
fn cohort(preemption: QueuePreemption, count: u32) -> History {
    let mut history = History::default();
    let capacity = [("cpu".to_string(), 100_000), ("pods".to_string(), 100)].into();
    history.node(0, NodeSpec { capacity, ..node("n", &[]) });
    history.put_queue(QueueSpec { is_cohort: true, ..queue("all", "", 0, QueuePreemption::default()) });
    history.put_queue(queue("a", "all", 4000, preemption));
    history.put_queue(queue("b", "all", 4000, QueuePreemption::default()));
    for (number, count) in [(1, 3), (2, 3), (3, 1)] {
        history.stands(number, of(&format!("b{number}"), "b", count, 0));
    }
    history.job(TAKER, of("taker", "a", count, 1));
    history
}

const RECLAIMS: &[(u32, PreemptionReason)] = &[(1, InCohortReclamation)];

#[test]
fn p11_nobody_is_stopped_without_a_right() {
    for (preemption, reason, expected) in [
        (policy(Never, Any), InCohortReclamation, 0),
        (policy(Never, LowerPriority), InCohortReclamation, 0),
        (policy(LowerPriority, Never), InCohortReclamation, 1),
        (policy(Never, Any), InClusterQueue, 1),
        (policy(Never, Any), InCohortFairSharing, 1),
        (policy(Never, Any), InCohortReclaimWhileBorrowing, 1),
    ] {
        let mut history = cohort(preemption, 3);
        assert_eq!(history.stops(TAKER, &[(1, reason)]).broken().len(), expected, "{preemption:?} {reason:?}");
    }
    let mut fair = cohort(policy(Never, Any), 3);
    assert!(fair.shares().stops(TAKER, &[(1, InCohortFairSharing)]).broken().is_empty(), "shares are not counted here");
    let mut apart = cohort(policy(Never, Any), 3);
    apart.put_queue(queue("c", "", 4000, QueuePreemption::default())).stands(4, of("c1", "c", 4, 0));
    assert_eq!(apart.stops(TAKER, &[(4, InCohortReclamation)]).broken(), ["P11"], "it is of another root");
    let mut modest = cohort(policy(Never, Any), 3);
    modest.put_queue(queue("c", "all", 4000, QueuePreemption::default())).stands(4, of("c1", "c", 4, 0));
    modest.put_queue(queue("all", "", -3000, QueuePreemption::default()));
    assert_eq!(modest.stops(TAKER, &[(4, InCohortReclamation)]).broken(), ["P11"], "its queue borrows nothing");
}

#[test]
fn p11_within_a_queue_priority_and_age_decide() {
    let with = |within: PreemptionPolicy, priority: i32, is_older: bool| {
        let mut history = cohort(policy(within, Never), 2);
        history.put_queue(queue("d", "", 2000, policy(within, Never)));
        let victim = |history: &mut History| drop(history.stands(4, of("victim", "d", 2, 0)).broken());
        if is_older {
            victim(&mut history);
        }
        history.job(5, of("urgent", "d", 2, priority));
        if !is_older {
            victim(&mut history);
        }
        history.stops(5, &[(4, InClusterQueue)]).broken().len()
    };
    assert_eq!(with(LowerPriority, 1, true), 0);
    assert_eq!(with(LowerPriority, 0, false), 1, "as important");
    assert_eq!(with(LowerOrNewerEqualPriority, 0, false), 0);
    assert_eq!(with(LowerOrNewerEqualPriority, 0, true), 1, "it is older");
    assert_eq!(with(Never, 1, true), 1);
}

#[test]
fn p11_a_queue_that_borrows_itself_takes_nothing_back() {
    let with = |borrow: bool, priority: i32, reason: PreemptionReason| {
        let mut preemption = policy(Never, Any);
        preemption.borrow_within_cohort.lower_priority = borrow;
        preemption.borrow_within_cohort.max_priority_threshold = Some(3);
        let mut history = cohort(preemption, 5);
        history.put_queue(QueueSpec { is_cohort: true, ..queue("all", "", 1000, QueuePreemption::default()) });
        let victim = of("b1", "b", 3, priority);
        history.update(1, victim, Vec::new()).update(TAKER, of("taker", "a", 5, 9), Vec::new());
        history.stops(TAKER, &[(1, reason)]).broken().len()
    };
    assert_eq!(with(false, 0, InCohortReclamation), 1);
    assert_eq!(with(true, 0, InCohortReclaimWhileBorrowing), 0);
    assert_eq!(with(false, 0, InCohortReclaimWhileBorrowing), 1);
    assert_eq!(with(true, 4, InCohortReclaimWhileBorrowing), 1, "above the threshold");
}

#[test]
fn p11_nobody_is_stopped_without_need() {
    let any = || policy(LowerPriority, Any);
    assert_eq!(cohort(any(), 1).stops(TAKER, RECLAIMS).broken(), ["P11"], "one is left");
    assert_eq!(cohort(any(), 3).stops(TAKER, &[(3, InCohortReclamation)]).broken(), ["P11"], "that is not enough");
    let both = [(1, InCohortReclamation), (3, InCohortReclamation)];
    assert_eq!(cohort(any(), 3).stops(TAKER, &both).broken(), ["P11"], "one of them would do");
    assert!(cohort(any(), 4).stops(TAKER, RECLAIMS).broken().is_empty());
    let mut standing = cohort(any(), 3);
    assert_eq!(standing.happened(vec![placed(TAKER, 0, 1, 0)]).stops(TAKER, RECLAIMS).broken(), ["P11"]);
    let mut suspended = cohort(any(), 3);
    assert_eq!(suspended.happened(vec![state(TAKER, "suspended")]).stops(TAKER, RECLAIMS).broken(), ["P11"]);
    let mut closing = cohort(any(), 3);
    closing.happened(vec![state(1, "cancelled"), stopping(1, 0, 0, StopCause::Cancelled)]);
    assert_eq!(closing.stops(TAKER, RECLAIMS).broken(), ["P11"], "what is cancelled gives back anyway");
}

#[test]
fn p11_nobody_is_stopped_twice_for_one_need() {
    let mut again = cohort(policy(Never, Any), 4);
    let found = again.stops(TAKER, RECLAIMS).stops(TAKER, &[(2, InCohortReclamation)]).broken();
    assert!(found.iter().all(|promise| *promise == "P11") && !found.is_empty(), "others stop for it already");
    let mut over = cohort(policy(Never, Any), 4);
    over.stops(TAKER, RECLAIMS).ends(1).over(TAKER).happened(vec![placed(1, 0, 3, 0)]);
    assert!(over.stops(TAKER, RECLAIMS).broken().is_empty(), "its time was over, and it still waits");
    let mut other = cohort(policy(Never, Any), 4);
    other.job(5, of("other", "a", 3, 0)).stops(TAKER, RECLAIMS);
    assert!(!other.stops(5, RECLAIMS).broken().is_empty(), "it stops for others");
    let mut unasked = cohort(policy(Never, Any), 4);
    let told = preemption(
        TAKER,
        "taker",
        PreemptionChange::Waits { need: PreemptionNeed::Quota, victims: Vec::new(), budgets: Vec::new(), until_ms: 0 },
    );
    assert!(!unasked.happened(vec![told]).broken().is_empty(), "nobody has asked for it");
}

#[test]
fn p11_what_is_given_back_is_left_to_whom_it_is_for() {
    let given_back = || {
        let mut history = cohort(policy(Never, Any), 4);
        history.stops(TAKER, RECLAIMS).ends(1);
        history
    };
    assert!(given_back().happened(vec![placed(TAKER, 0, 4, 0)]).broken().is_empty());
    assert_eq!(given_back().happened(vec![placed(1, 0, 1, 0)]).broken(), ["P11"]);
    assert!(given_back().over(TAKER).happened(vec![placed(1, 0, 1, 0)]).broken().is_empty(), "its time is over");
    let mut urgent = given_back();
    urgent.job(5, of("urgent", "a", 4, 2));
    assert!(urgent.happened(vec![placed(5, 0, 4, 0)]).broken().is_empty(), "it is more important");
    let mut older = given_back();
    older.job(5, of("older", "a", 4, 1));
    assert_eq!(older.happened(vec![placed(5, 0, 4, 0)]).broken(), ["P11"], "it is not");
    let mut repair = given_back();
    repair.happened(vec![ended(2, 2, 0, Exit::NodeLost)]).happened(vec![placed(2, 2, 1, 0)]);
    assert!(repair.broken().is_empty(), "a repair goes before new work");
    let mut whole = given_back();
    whole.happened(vec![ended(2, 2, 0, Exit::NodeLost)]).happened(vec![placed(2, 2, 1, 0)]);
    whole.update(2, of("b2", "b", 4, 0), Vec::new()).happened(vec![placed(2, 3, 1, 0)]);
    assert_eq!(whole.broken(), ["P11"], "growth after the repair was whole is no part of it");
    let mut moves = given_back();
    let (name, from, to) = (String::from("two"), vec![String::from("n0")], vec![String::from("n1")]);
    moves.happened(vec![EventKind::MoveReserved { job: JobId(2), name, tasks: 1, from, to }]);
    assert!(moves.happened(vec![placed(2, 2, 1, 0)]).broken().is_empty(), "so does what moves");
    assert_eq!(given_back().happened(vec![placed(2, 2, 1, 0)]).broken(), ["P11"], "and nothing else");
    let mut apart = given_back();
    apart.put_queue(queue("c", "", 4000, QueuePreemption::default())).job(5, of("apart", "c", 4, 0));
    assert!(apart.happened(vec![placed(5, 0, 4, 0)]).broken().is_empty(), "it takes nothing of it");
}

#[test]
fn p11_no_two_jobs_stop_each_other_for_ever() {
    let with = |times: usize, change: &dyn Fn(&mut History, u32)| {
        let mut history = cohort(policy(Never, Any), 1);
        history.shares().put_queue(QueueSpec { is_cohort: true, ..queue("both", "", 0, QueuePreemption::default()) });
        for (name, cpu) in [("d", 2000), ("e", 2000), ("f", 0)] {
            history.put_queue(queue(name, "both", cpu, policy(Never, Any)));
        }
        history.job(4, of("one", "d", 3, 0)).job(5, of("other", "e", 3, 0)).happened(vec![placed(4, 0, 3, 0)]);
        let (mut stands, mut waits) = (4, 5);
        for _ in 0..times {
            history.stops(waits, &[(stands, InCohortFairSharing)]).ends(stands);
            history.happened(vec![placed(waits, 0, 3, 0)]).over(waits);
            (stands, waits) = (waits, stands);
            change(&mut history, waits);
        }
        history.broken()
    };
    assert!(with(3, &|_, _| {}).is_empty());
    assert_eq!(with(4, &|_, _| {}), ["P11"]);
    // The one that waits stays the same from here on: what the other one had it lost otherwise.
    let lost = |history: &mut History, waits: u32| {
        let stands = 9 - waits;
        let tasks: Vec<u32> = history.oracle.books.live(JobId::new(stands, 0), 0).map(|(task, _)| task).collect();
        history.happened(tasks.iter().map(|task| ended(stands, *task, 0, Exit::NodeLost)).collect());
        history.happened(vec![placed(stands, 0, 3, 0)]);
    };
    assert!(with(5, &lost).is_empty(), "it was lost, and started anew");
    let third = |history: &mut History, waits: u32| {
        let stands = 9 - waits;
        let number = 10 + history.index as u32;
        history.job(number, of(&format!("third{number}"), "f", 3, 9));
        history.stops(number, &[(stands, InCohortFairSharing)]).ends(stands).over(number);
        history.happened(vec![placed(stands, 0, 3, 0)]);
    };
    let found = with(5, &third);
    assert!(found.is_empty(), "others have stopped it in between: {found:?}");
    assert!(with(6, &|history, _| drop(history.shares().broken())).is_empty(), "the rules change");
    let updated = |history: &mut History, waits: u32| {
        let (name, queue) = if waits == 4 { ("one", "d") } else { ("other", "e") };
        let priority = history.index as i32;
        history.update(waits, of(name, queue, 3, priority), Vec::new());
    };
    assert!(with(6, &updated).is_empty(), "it is another job");
}

#[test]
fn p7_being_stopped_for_others_is_no_failure() {
    let with = |exit: Option<Exit>| {
        let mut history = cohort(policy(Never, Any), 4);
        for _ in 0..3 {
            history.stops(TAKER, RECLAIMS);
            match exit {
                None => drop(history.ends(1).broken()),
                Some(exit) => drop(history.happened((0..3).map(|task| ended(1, task, 0, exit)).collect()).broken()),
            }
            history.over(TAKER).happened(vec![placed(1, 0, 3, 0)]);
        }
        history.happened(vec![state(1, "failed")]).broken()
    };
    assert_eq!(with(None), ["P7"]);
    assert!(with(Some(Exit::Code(1))).is_empty(), "it failed by itself");
}

#[test]
fn p10_quota_that_is_kept_for_others_is_not_there() {
    let with = |is_over: bool, queue: &str| {
        let mut history = cohort(policy(Never, Any), 4);
        history.put_queue(self::queue("c", "", 4000, QueuePreemption::default()));
        history.stops(TAKER, RECLAIMS).ends(1).job(5, of("other", queue, 3, 0));
        if is_over {
            history.over(TAKER);
        }
        history.oracle.stuck_jobs().iter().any(|stuck| stuck.job == JobId::new(5, 0))
    };
    assert!(!with(false, "a"), "it is kept for another one");
    assert!(with(true, "a"));
    assert!(with(false, "c"), "that is another quota");
}
