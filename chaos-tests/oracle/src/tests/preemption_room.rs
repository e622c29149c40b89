//! P11 where room is lacking: who may be stopped for it, and that nobody is stopped for nothing.

use super::preemption::{of, queue};
use super::*;
use ohm_model::PreemptionReason::{InClusterQueue, LowerPriority};
use ohm_model::{
    GroupIndex, HostPort, Nomination, PreemptionNeed, PreemptionPolicy, PreemptionReason, Purpose, QueuePreemption,
    TaskIndex, Victim,
};

const TAKER: u32 = 0;

/// `low1` and `low2` have two of the four processors of a node each; a more important job waits for as many as said.
fn full(count: u32, change: impl Fn(&str, &mut JobSpec)) -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[]));
    let job = |name: &str, count, priority| {
        job(name, count, |spec| {
            spec.priority = priority;
            change(name, spec);
        })
    };
    history.stands(1, job("low1", 2, 0)).stands(2, job("low2", 2, 0));
    history.job(TAKER, job("taker", count, 1));
    history
}

fn whole(job: u32, reason: PreemptionReason) -> Victim {
    Victim::whole(JobId::new(job, 0), PreemptionNeed::Room, reason)
}

fn part(job: u32, tasks: &[u32]) -> Victim {
    let runs = tasks.iter().map(|task| RunRef::new(JobId::new(job, 0), 0, *task, 1)).collect();
    Victim { runs, ..whole(job, LowerPriority) }
}

fn room(count: u32) -> Vec<Nomination> {
    room_of(TAKER, count)
}

fn room_of(job: u32, count: u32) -> Vec<Nomination> {
    let (job, group, first) = (JobId::new(job, 0), GroupIndex(0), TaskIndex(0));
    let purpose = Purpose::Preemptor { expires_ms: 1_000_000 };
    if count == 0 { Vec::new() } else { vec![Nomination { job, group, node: NodeId(0), first, count, purpose }] }
}

/// What is said of these victims, for which so many tasks have room.
fn judged(history: &mut History, victims: Vec<Victim>, tasks: u32) -> Vec<&'static str> {
    history.preempts(TAKER, victims, room(tasks)).broken()
}

#[test]
fn p11_nobody_is_stopped_for_room_that_is_not_needed_or_not_there() {
    let one = || vec![whole(1, LowerPriority)];
    let both = || vec![whole(1, LowerPriority), whole(2, LowerPriority)];
    assert!(judged(&mut full(2, |_, _| {}), one(), 2).is_empty());
    assert!(judged(&mut full(4, |_, _| {}), both(), 4).is_empty());
    assert_eq!(judged(&mut full(2, |_, _| {}), both(), 2), ["P11"], "one of them is enough");
    assert_eq!(judged(&mut full(3, |_, _| {}), one(), 3), ["P11"], "there is room for two then");
    assert_eq!(judged(&mut full(2, |_, _| {}), one(), 0), ["P11"], "it gets nothing of it");
    let ports = |name: &str, spec: &mut JobSpec| {
        if name != "low1" {
            (spec.groups[0].count, spec.groups[0].ports) = (1, vec![HostPort::tcp(80)]);
        }
    };
    assert_eq!(judged(&mut full(1, ports), one(), 1), ["P11"], "the other one has its port");
}

#[test]
fn p11_nobody_is_stopped_for_room_without_a_right() {
    let of_low1 = |change: fn(&mut JobSpec)| {
        full(2, move |name, spec| {
            if name == "low1" {
                change(spec)
            }
        })
    };
    let judge = |history: &mut History| judged(history, vec![whole(1, LowerPriority)], 2);
    assert_eq!(judge(&mut of_low1(|spec| spec.priority = 1)), ["P11"], "it is no less important");
    assert_eq!(judge(&mut of_low1(|spec| spec.preemptible = false)), ["P11"]);
    assert_eq!(judge(&mut full(2, |_, spec| spec.preempts = false)), ["P11"]);
    let mut by_policy = full(2, |_, _| {});
    assert_eq!(judged(&mut by_policy, vec![whole(1, InClusterQueue)], 2), ["P11"], "none has a queue");
}

#[test]
fn p11_of_a_gang_no_part_below_its_minimum_is_stopped() {
    assert!(judged(&mut full(1, |_, _| {}), vec![part(1, &[1])], 1).is_empty());
    assert_eq!(judged(&mut full(2, |_, _| {}), vec![part(1, &[0, 1])], 2), ["P11"], "one has to stay");
    let rigid = |_: &str, spec: &mut JobSpec| {
        (spec.groups[0].elastic, spec.groups[0].min_count) = (false, spec.groups[0].count);
    };
    assert_eq!(judged(&mut full(1, rigid), vec![part(1, &[1])], 1), ["P11"]);
    let mut twice = full(1, |_, _| {});
    twice.preempts(TAKER, vec![part(1, &[1])], room(1)).over(TAKER);
    let twice = judged(&mut twice, vec![part(1, &[1])], 1);
    assert_eq!(twice, ["P11", "P11"], "it stops already, and so it is not needed");
}

#[test]
fn p11_who_is_within_its_own_is_stopped_from_outside_its_root_only_if_its_queue_says_so() {
    let judge = |cpu, outside_root, min_runtime_seconds| {
        let mut history = History::default();
        history.node(0, node("n0", &[]));
        let preemption = QueuePreemption { outside_root, ..QueuePreemption::default() };
        history.put_queue(QueueSpec { min_runtime_seconds, ..queue("own", "", cpu, preemption) });
        history.stands(1, of("low", "own", 4, 0)).job(TAKER, job("taker", 4, |spec| spec.priority = 1));
        judged(&mut history, vec![whole(1, LowerPriority)], 4)
    };
    use PreemptionPolicy::{LowerPriority as Lower, Never};
    assert_eq!(judge(4_000, Never, 0), ["P11"]);
    assert!(judge(4_000, Lower, 0).is_empty());
    assert_eq!(judge(4_000, Lower, 60), ["P11"], "it has just started");
}

#[test]
fn p11_of_a_part_each_task_has_to_be_beyond_what_its_queue_has_itself() {
    let judge = |tasks: &[u32]| {
        let mut history = History::default();
        let policy = QueuePreemption::default();
        history.node(0, node("n0", &[])).put_queue(queue("own", "all", 3_000, policy));
        history.put_queue(QueueSpec { is_cohort: true, ..queue("all", "", 1_000, policy) });
        let low = of("low", "own", 4, 0);
        history.stands(1, low).job(TAKER, job("taker", tasks.len() as u32, |spec| spec.priority = 1));
        judged(&mut history, vec![part(1, tasks)], tasks.len() as u32)
    };
    assert_eq!(judge(&[3]), [""; 0], "the queue uses four processors of its three");
    assert_eq!(judge(&[2, 3]), ["P11"]);
}

#[test]
fn p11_what_still_stops_after_its_preemption_is_over_is_used_until_it_ends() {
    let mut history = History::default();
    let policy = QueuePreemption::default();
    history.node(0, node("n0", &[])).put_queue(queue("own", "all", 2_000, policy));
    history.put_queue(QueueSpec { is_cohort: true, ..queue("all", "", 2_000, policy) });
    history.stands(1, of("low", "own", 4, 0));
    let high = |name: &str, count| job(name, count, |spec| spec.priority = 1);
    history.job(5, high("one", 1)).job(6, high("two", 2)).job(TAKER, high("taker", 1));
    history.preempts(5, vec![part(1, &[3])], room_of(5, 1)).over(5);
    history.preempts(6, vec![part(1, &[2])], room_of(6, 2));
    assert_eq!(judged(&mut history, vec![part(1, &[1])], 1), [""; 0], "the queue uses three processors of its two");
}

#[test]
fn p11_nobody_is_stopped_again_and_again_for_one_that_never_stands() {
    let mut history = full(2, |_, _| {});
    for _ in 0..5 {
        history.preempts(TAKER, vec![whole(1, LowerPriority)], room(2)).ends(1);
        history.over_because(TAKER, "it changed, or waits no more").happened(vec![placed(1, 0, 2, 0)]);
    }
    assert!(history.broken().is_empty());
    assert_eq!(judged(&mut history, vec![whole(1, LowerPriority)], 2), ["P11"]);
}

#[test]
fn p11_whoever_others_stopped_for_in_vain_waits_twice_as_long_each_time() {
    let in_vain = |waits_s: &[u64]| {
        let mut history = full(2, |_, _| {});
        for wait_s in waits_s {
            history.preempts(TAKER, vec![whole(1, LowerPriority)], room(2)).ends(1).over(TAKER);
            history.happened(vec![placed(1, 0, 2, 0)]);
            (2..*wait_s).for_each(|_| _ = history.happened(Vec::new()));
        }
        judged(&mut history, vec![whole(1, LowerPriority)], 2)
    };
    assert_eq!(in_vain(&[2, 2, 4, 8, 16, 32, 60]), [""; 0]);
    assert_eq!(in_vain(&[2, 2, 3]), ["P11"]);
}
