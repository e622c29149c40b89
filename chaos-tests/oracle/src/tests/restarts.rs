//! Tasks that start again in place with their job.

use super::*;
use ohm_model::Survivors;

/// A gang of two with one task lost and placed anew: what happens to the other one then.
fn broken(after: impl FnOnce(&mut History)) -> Vec<&'static str> {
    broken_beside(Vec::new(), after)
}

/// A gang of two that starts again with its job and has lost one task.
fn half_lost() -> History {
    let restarts = |spec: &mut JobSpec| {
        (spec.groups[0].min_count, spec.groups[0].elastic) = (2, false);
        spec.repair =
            RepairSpec { policy: RepairPolicy::Wait, survivors: Survivors::RestartAll, ..RepairSpec::default() };
    };
    let mut history = History::default();
    history.node(0, node("a", &[])).node(1, node("b", &[])).job(0, job("j", 2, restarts));
    history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]);
    history.happened(vec![ended(0, 0, 0, Exit::NodeLost)]);
    history
}

/// The same, when more happens in the entry that places the lost task.
fn broken_beside(more: Vec<EventKind>, after: impl FnOnce(&mut History)) -> Vec<&'static str> {
    let mut history = half_lost();
    let repaired = EventKind::RepairCommitted { job: JobId::new(0, 0), name: "j".into(), moves: Vec::new() };
    history.happened([placed(0, 0, 1, 1), repaired].into_iter().chain(more).collect());
    after(&mut history);
    history.broken()
}

fn restarted(task: u32, node: u32) -> EventKind {
    let (job, incarnation) = (JobId::new(0, 0), Incarnation(1));
    let (exit, cause) = (Exit::Signal(15), Some(StopCause::Restarted));
    EventKind::Ended { job, group: 0, task, incarnation, node: NodeId(node), exit, cause }
}

#[test]
fn p1_sees_no_new_work_in_what_starts_again_in_place() {
    let on_shrunk = |end: EventKind| {
        let small =
            NodeSpec { capacity: [("cpu".to_string(), 2000), ("pods".to_string(), 10)].into(), ..node("a", &[]) };
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 5, |_| {})).happened(vec![placed(0, 0, 4, 0)]);
        history.node(0, small).happened(vec![end, placed(0, 1, 1, 0)]);
        history.broken().contains(&"P1")
    };
    assert!(!on_shrunk(restarted(1, 0)));
    assert!(on_shrunk(ended(0, 1, 0, Exit::Signal(15))));
}

#[test]
fn p4_takes_no_start_in_place_for_one_of_the_gang() {
    let mut history = half_lost();
    history.happened(vec![restarted(1, 1), placed(0, 1, 1, 1)]);
    assert!(!history.broken().contains(&"P4"));
    let mut begun = half_lost();
    begun.happened(vec![ended(0, 1, 1, Exit::NodeLost), placed(0, 1, 1, 1)]);
    assert!(begun.broken().contains(&"P4"), "it starts anew with one of two");
}

#[test]
fn p7_sees_who_starts_again_with_its_job() {
    let none: Vec<&str> = Vec::new();
    assert_eq!(
        broken(|history| {
            history.happened(vec![restarted(1, 1), placed(0, 1, 1, 1)]);
        }),
        none
    );
    let cordoned = EventKind::NodeCordoned { node: NodeId(1), name: "b".into(), cordoned: true };
    let barred = |history: &mut History| {
        history.happened(vec![cordoned]).happened(vec![restarted(1, 1), placed(0, 1, 1, 1)]);
    };
    assert_eq!(broken(barred), none, "it is no new work");
    assert_eq!(
        broken(|history| {
            history.happened(vec![stopping(0, 1, 1, StopCause::Cancelled)]);
        }),
        none
    );
    assert_eq!(
        broken(|history| {
            history.happened(vec![ended(0, 1, 1, Exit::NodeLost)]);
        }),
        none
    );
    assert_eq!(
        broken(|history| {
            history.happened(vec![ended(0, 1, 1, Exit::Code(0))]);
        }),
        ["P7"],
        "for good"
    );
    let elsewhere = |history: &mut History| {
        history.happened(vec![restarted(1, 1), placed(0, 1, 1, 0)]);
    };
    assert_eq!(broken(elsewhere), ["P7"]);
    assert_eq!(
        broken(|history| {
            history.happened(vec![restarted(1, 1)]);
        }),
        ["P7"],
        "it loses its place"
    );
    let moved = |history: &mut History| {
        history.happened(vec![restarted(0, 1), placed(0, 0, 1, 1)]);
    };
    assert_eq!(broken(moved), ["P7"], "the one that was placed anew");
    let late = |history: &mut History| {
        (0..30).for_each(|_| {
            history.happened(vec![state(0, "running")]);
        })
    };
    assert_eq!(broken(late), ["P7"], "it runs on");
}

#[test]
fn p8_takes_what_starts_again_in_place_for_no_new_use_of_quota() {
    let queue = |milli: i64| QueueSpec {
        name: "q".into(),
        nominal: [("cpu".to_string(), milli)].into(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        ..QueueSpec::default()
    };
    let over_quota = |ended: EventKind| {
        let mut history = History::default();
        history.entry(Command::PutQueue(queue(2_000)), Outcome::Done, Vec::new());
        history.node(0, node("a", &[])).job(0, job("j", 2, |job| job.queue = "q".into()));
        history.happened(vec![placed(0, 0, 2, 0)]);
        history.entry(Command::PutQueue(queue(1_000)), Outcome::Done, Vec::new());
        history.happened(vec![ended, placed(0, 1, 1, 0)]);
        history.broken().contains(&"P8")
    };
    assert!(!over_quota(restarted(1, 0)));
    assert!(over_quota(ended(0, 1, 1, Exit::NodeLost)));
}

#[test]
fn p7_lets_a_job_restart_when_a_former_run_of_it_is_given_up_in_the_same_entry() {
    let given_up = EventKind::Reconciled {
        job: JobId::new(0, 0),
        name: "j".into(),
        group: 0,
        task: 0,
        incarnation: Incarnation(1),
        node: NodeId(0),
        lives: false,
        reason: "it ended while its node was away".into(),
    };
    let restarts = |history: &mut History| {
        history.happened(vec![restarted(1, 1), placed(0, 1, 1, 1)]);
    };
    assert_eq!(broken_beside(vec![given_up], restarts), [""; 0]);
}

#[test]
fn p7_lets_a_job_restart_or_not_whose_run_comes_back_in_the_entry_that_repairs_it() {
    let (job, name, node, incarnation) = (JobId::new(0, 0), "j".to_string(), NodeId(0), Incarnation(1));
    let back = EventKind::Reconciled {
        job,
        name,
        group: 0,
        task: 0,
        incarnation,
        node,
        lives: true,
        reason: "once its replacement is over".into(),
    };
    let restarts = |history: &mut History| {
        history.happened(vec![restarted(1, 1), placed(0, 1, 1, 1)]);
    };
    let ends = stopping(0, 0, 1, StopCause::Reconciled);
    assert_eq!(broken_beside(vec![back.clone(), ends.clone()], restarts), ["P7"], "nobody planned a repair");
    let planned = |after: fn(&mut History)| {
        let mut history = half_lost();
        let repaired = EventKind::RepairCommitted { job, name: "j".into(), moves: Vec::new() };
        let kinds = vec![placed(0, 0, 1, 1), repaired, back.clone(), ends.clone()];
        history.entry(Command::Commit(placing(0)), Outcome::Verdict(ohm_model::Verdict::default()), kinds);
        after(&mut history);
        history.broken()
    };
    assert_eq!(planned(|history| drop(history.happened(vec![restarted(1, 1), placed(0, 1, 1, 1)]).broken())), [""; 0]);
    assert_eq!(planned(|history| (0..30).for_each(|_| drop(history.happened(Vec::new()).broken()))), [""; 0]);
}

/// A transaction that places a task of the job.
fn placing(task: u32) -> ohm_model::Transaction {
    use ohm_model::{ClassId, Epoch, Grain, GroupIndex, Placement, Shard, TaskIndex, Transaction};
    let (job, group, first, node) = (JobId::new(0, 0), GroupIndex(0), TaskIndex(task), NodeId(1));
    let row = Placement { job, group, first, count: 1, node, class: ClassId::default(), devices: Vec::new() };
    let empty = Transaction::empty(Shard { class: Class::BATCH, number: 0 }, Epoch(1), Index(0), Grain::PerTask);
    Transaction { place: vec![row], ..empty }
}
