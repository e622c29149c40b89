//! What taints drive away, when, and that one cause is one loss.

use super::*;
use ohm_model::selector::{Toleration, TolerationOperator};
use ohm_model::{Move, Taint, TaintEffect};

fn work(effect: TaintEffect) -> Taint {
    Taint { key: "work".into(), value: "disk".into(), effect }
}

fn tainted(node: u32, tainted: bool) -> EventKind {
    EventKind::NodeTainted { node: NodeId(node), name: "n".into(), taint: work(TaintEffect::NoExecute), tainted }
}

/// A gang of four, two tasks on each of two nodes, and a third node.
fn gang(toleration_seconds: Option<Option<u64>>, minimum: u32) -> History {
    let mut history = History::default();
    history.node(0, node("a", &[])).node(1, node("b", &[])).node(2, node("c", &[]));
    let tolerations = toleration_seconds.map(|toleration_seconds| Toleration {
        key: "work".into(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        toleration_seconds,
    });
    history.job(
        0,
        job("j", 4, |job| {
            (job.groups[0].min_count, job.groups[0].elastic) = (minimum, minimum < 4);
            job.groups[0].tolerations = tolerations.into_iter().collect();
        }),
    );
    history.happened(vec![placed(0, 0, 2, 0), placed(0, 2, 2, 1)]);
    history
}

fn drives(tasks: &[u32]) -> Vec<EventKind> {
    let stops = tasks.iter().map(|task| stopping(0, *task, 1, StopCause::Moved));
    std::iter::once(tainted(1, true)).chain(stops).collect()
}

fn gone(task: u32) -> EventKind {
    let (job, incarnation, exit) = (JobId::new(0, 0), Incarnation(1), Exit::Signal(15));
    let cause = Some(StopCause::Moved);
    EventKind::Ended { job, group: 0, task, incarnation, node: NodeId(1), exit, cause }
}

fn repair(first: u32, count: u32) -> Vec<EventKind> {
    let moves = vec![Move { group: 0, first, count, from: "b".into(), to: "c".into() }];
    let committed = EventKind::RepairCommitted { job: JobId::new(0, 0), name: "j".into(), moves };
    vec![placed(0, first, count, 2), committed]
}

fn whole() -> EventKind {
    EventKind::Repaired { job: JobId::new(0, 0), name: "j".into(), tasks: 1, took_ms: 1 }
}

#[test]
fn p7_wants_what_a_taint_drives_away_repaired_at_once() {
    let mut history = gang(None, 4);
    history.happened(drives(&[2, 3])).happened(vec![gone(2)]).happened(vec![gone(3)]).happened(repair(2, 2));
    assert!(history.happened(vec![whole()]).broken().is_empty());
    let mut half = gang(None, 4);
    half.happened(drives(&[2, 3])).happened(vec![gone(2)]);
    assert_eq!(half.happened(repair(2, 1)).broken(), ["P7"], "the other still stops");
    let mut filled = gang(None, 2);
    filled.happened(drives(&[2, 3])).happened(vec![gone(2)]);
    assert!(filled.happened(repair(2, 1)).broken().is_empty(), "its minimum stands");
    assert_eq!(filled.happened(vec![whole()]).broken(), ["P7"], "it is not whole yet");
    let mut given_up = gang(None, 4);
    given_up.happened(drives(&[2, 3])).happened(vec![gone(2)]);
    let failed = EventKind::RepairFailed { job: JobId::new(0, 0), name: "j".into(), reason: String::new() };
    assert_eq!(given_up.happened(vec![failed]).broken(), ["P7"], "not all of its loss is there");
}

#[test]
fn p7_knows_how_long_a_taint_is_tolerated() {
    let after = |history: &mut History, entries: usize| {
        (0..entries).for_each(|_| _ = history.happened(Vec::new()));
    };
    let leaves = |seconds: Option<Option<u64>>, entries: usize| {
        let mut history = gang(seconds, 1);
        history.happened(vec![tainted(1, true)]);
        after(&mut history, entries);
        let both = [2, 3].map(|task| stopping(0, task, 1, StopCause::Moved)).to_vec();
        history.happened(both).broken().len()
    };
    assert_eq!(leaves(None, 0), 0);
    assert_eq!(leaves(Some(Some(3)), 1), 2, "before its time");
    assert_eq!(leaves(Some(Some(3)), 2), 0);
    assert_eq!(leaves(Some(None), 5), 2, "it may stay for ever");
    let mut stays = gang(Some(Some(3)), 1);
    stays.happened(vec![tainted(1, true)]);
    after(&mut stays, 12);
    assert_eq!(stays.broken(), ["P7", "P7"]);
    let mut went = gang(Some(Some(3)), 1);
    went.happened(vec![tainted(1, true)]).happened(vec![tainted(1, false)]);
    after(&mut went, 12);
    assert!(went.broken().is_empty());
}

#[test]
fn p8_counts_what_people_put_on_a_node() {
    let place = |before: Vec<EventKind>| {
        let mut history = gang(None, 1);
        history.happened(before).happened(vec![ended(0, 0, 0, Exit::NodeLost), placed(0, 0, 1, 2)]).broken().len()
    };
    assert_eq!(place(vec![tainted(2, true)]), 1);
    assert_eq!(place(vec![tainted(2, true), tainted(2, false)]), 0);
}
