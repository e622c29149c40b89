//! Room held for tasks that a group may lose.

use super::*;
use ohm_model::{Grain, HostPort, JobGuard, Shard, Transaction, Verdict};

fn held(job: u32, node: u32, count: u32) -> EventKind {
    EventKind::SpareHeld { job: JobId::new(job, 0), name: "j".into(), group: 0, node: NodeId(node), count }
}

fn gone(job: u32, node: u32, count: u32, reason: &str) -> EventKind {
    let (job, name, reason) = (JobId::new(job, 0), "j".into(), reason.into());
    EventKind::SpareGone { job, name, group: 0, node: NodeId(node), count, reason }
}

/// A gang of `count` with spares.
fn spared(name: &str, count: u32, spares: u32) -> JobSpec {
    job(name, count, |spec| (spec.groups[0].min_count, spec.groups[0].spares) = (count, spares))
}

fn on_nodes() -> History {
    let mut history = History::default();
    history.node(0, node("a", &[])).node(1, node("b", &[])).node(2, node("c", &[]));
    history
}

/// A gang of two on node a, with up to two spares; b and c are empty.
fn stands() -> History {
    let mut history = on_nodes();
    history.job(0, spared("j", 2, 2)).happened(vec![placed(0, 0, 2, 0)]);
    history
}

#[test]
fn p1_counts_spares_beside_what_stands() {
    assert!(stands().happened(vec![held(0, 0, 2)]).broken().is_empty());
    let mut full = stands();
    full.job(1, job("other", 1, |_| {})).happened(vec![held(0, 0, 2)]);
    assert!(full.happened(vec![placed(1, 0, 1, 0), gone(0, 0, 1, "its room is taken")]).broken().is_empty());
    let mut over = stands();
    over.job(1, job("other", 1, |_| {})).happened(vec![held(0, 0, 2)]);
    assert_eq!(over.happened(vec![placed(1, 0, 1, 0)]).broken(), ["P1"]);
    let shrunk =
        || NodeSpec { capacity: [("cpu".to_string(), 3000), ("pods".to_string(), 10)].into(), ..node("a", &[]) };
    assert_eq!(stands().happened(vec![held(0, 0, 2)]).node(0, shrunk()).broken(), ["P1"]);
    let dropped = || vec![gone(0, 0, 1, "its room is taken")];
    assert!(stands().happened(vec![held(0, 0, 2)]).node_and(0, shrunk(), dropped()).broken().is_empty());
    assert_eq!(stands().happened(vec![gone(0, 0, 1, "used")]).broken(), ["P1"], "it was never held");
}

#[test]
fn p1_sees_a_port_kept_for_two() {
    let with_port = |name: &str| {
        let mut spec = spared(name, 1, 1);
        spec.groups[0].ports = vec![HostPort::tcp(80)];
        spec
    };
    for (node, expected) in [(1, vec![]), (0, vec!["P1"])] {
        let mut history = stands();
        history.job(1, with_port("port")).happened(vec![placed(1, 0, 1, 0), held(1, node, 1)]);
        assert_eq!(history.broken(), expected);
    }
}

#[test]
fn p5_wants_spares_in_the_domain_of_their_group() {
    let in_rack = |spare: u32, policy: RepairPolicy| {
        let mut history = in_racks();
        let wish = TopologyRequest { mode: TopologyMode::Required, level: "rack".into(), ..TopologyRequest::default() };
        let mut spec = spared("s", 1, 1);
        spec.groups[0].topology = wish;
        spec.repair = RepairSpec { policy, widen_to: "block".into(), ..RepairSpec::default() };
        history.job(1, spec).happened(vec![placed(1, 0, 1, 0), held(1, spare, 1)]).broken()
    };
    assert!(in_rack(1, RepairPolicy::Wait).is_empty());
    assert_eq!(in_rack(2, RepairPolicy::Wait), ["P5"]);
    assert!(in_rack(2, RepairPolicy::Widen).is_empty(), "how far it has gone is not known here");
}

#[test]
fn p6_sees_spares_that_nobody_needs() {
    assert_eq!(stands().happened(vec![held(0, 1, 3)]).broken(), ["P6"], "it asks for two");
    let after = |kinds: Vec<EventKind>| stands().happened(vec![held(0, 1, 1)]).happened(kinds).broken();
    let stops = || vec![stopping(0, 0, 0, StopCause::Cancelled), stopping(0, 1, 0, StopCause::Cancelled)];
    let with = |more: Vec<EventKind>| stops().into_iter().chain(more).collect::<Vec<_>>();
    assert!(after(with(vec![state(0, "suspended"), gone(0, 1, 1, "its job is over or suspended")])).is_empty());
    assert_eq!(after(with(vec![state(0, "suspended")])), ["P6"]);
    assert_eq!(after(with(Vec::new())), ["P6"], "nothing of it stays");
    assert_eq!(after(vec![state(0, "succeeded")]), ["P6"]);
    let mut fewer = stands();
    fewer.happened(vec![held(0, 1, 2)]).update(0, spared("j", 2, 1), vec![gone(0, 1, 1, "its group needs it no more")]);
    assert!(fewer.broken().is_empty());
    let mut fewer = stands();
    fewer.happened(vec![held(0, 1, 2)]).update(0, spared("j", 2, 1), Vec::new());
    assert_eq!(fewer.broken(), ["P6"]);
}

#[test]
fn p8_sees_spares_where_no_task_may_stand() {
    let on = |before: Vec<EventKind>| stands().happened(before).happened(vec![held(0, 1, 1)]).broken();
    let after = |kinds: Vec<EventKind>| stands().happened(vec![held(0, 1, 1)]).happened(kinds).broken();
    let cordoned = || EventKind::NodeCordoned { node: NodeId(1), name: "b".into(), cordoned: true };
    let health = |health| EventKind::NodeHealth { node: NodeId(1), name: "b".into(), health };
    let released = || gone(0, 1, 1, "its node takes no work");
    assert_eq!(on(vec![cordoned()]), ["P8", "P8"], "at once, and when the entry is over");
    assert_eq!(on(vec![health(NodeHealth::Suspect)]), ["P8"]);
    assert!(after(vec![health(NodeHealth::Suspect)]).is_empty(), "it may be back in a moment");
    assert_eq!(after(vec![health(NodeHealth::Lost)]), ["P8"]);
    assert_eq!(after(vec![cordoned()]), ["P8"]);
    assert!(after(vec![cordoned(), released()]).is_empty());
    let mut limited = stands();
    let mut spec = spared("few", 1, 1);
    spec.groups[0].max_per_node = 1;
    assert_eq!(limited.job(1, spec).happened(vec![placed(1, 0, 1, 1), held(1, 1, 1)]).broken(), ["P8"]);
}

/// One task of the gang of two is lost with node a while there is a spare on b; what `kinds` of a commit say of it.
fn repaired(kinds: Vec<EventKind>, change: &dyn Fn(&mut JobSpec), between: &dyn Fn(&mut History)) -> Vec<&'static str> {
    let mut history = on_nodes();
    let mut spec = spared("j", 2, 1);
    change(&mut spec);
    history.job(0, spec).happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1), held(0, 1, 1)]);
    history.happened(vec![ended(0, 0, 0, Exit::NodeLost)]);
    between(&mut history);
    let seen = Index(history.index);
    let transaction = Transaction {
        jobs: vec![JobGuard { job: JobId::new(0, 0), version: seen, reserved: false }],
        ..Transaction::empty(Shard { class: Class::BATCH, number: 0 }, ohm_model::Epoch(1), seen, Grain::Minimum)
    };
    let verdict = Verdict { accepted: Vec::new(), conflicts: Vec::new(), refresh: Index(0) };
    history.entry(Command::Commit(transaction), Outcome::Verdict(verdict), kinds).broken()
}

#[test]
fn p7_wants_spares_used_first() {
    let elsewhere = || vec![placed(0, 0, 1, 2)];
    let none: [&str; 0] = [];
    assert_eq!(repaired(vec![gone(0, 1, 1, "used"), placed(0, 0, 1, 1)], &|_| {}, &|_| {}), none);
    assert_eq!(repaired(elsewhere(), &|_| {}, &|_| {}), ["P7"]);
    let widen = |spec: &mut JobSpec| spec.repair.policy = RepairPolicy::Widen;
    assert_eq!(repaired(elsewhere(), &widen, &|_| {}), none, "the domain of its spares binds it no more");
    let suspect = |history: &mut History| {
        let health = NodeHealth::Suspect;
        history.happened(vec![EventKind::NodeHealth { node: NodeId(1), name: "b".into(), health }]);
    };
    assert_eq!(repaired(elsewhere(), &|_| {}, &suspect), none, "its node may not be used now");
    let back = EventKind::Reconciled {
        job: JobId::new(0, 0),
        name: "j".into(),
        group: 0,
        task: 0,
        incarnation: Incarnation(1),
        node: NodeId(2),
        lives: true,
        reason: String::new(),
    };
    assert_eq!(repaired(vec![back, placed(0, 0, 1, 2)], &|_| {}, &|_| {}), none, "it came back with its node");
}

#[test]
fn p8_charges_spares_to_the_queue() {
    let queue = QueueSpec {
        name: "q".into(),
        nominal: [("cpu".to_string(), 3_000)].into(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        ..QueueSpec::default()
    };
    let in_queue = |spares: u32| {
        let mut history = History::default();
        history.entry(Command::PutQueue(queue.clone()), Outcome::Done, Vec::new());
        history.node(0, node("a", &[])).node(1, node("b", &[]));
        let mut spec = spared("j", 2, 2);
        (spec.queue, spec.groups[0].elastic, spec.groups[0].min_count) = ("q".into(), true, 2);
        spec.groups[0].count = 3;
        history.job(0, spec).happened(vec![placed(0, 0, 2, 0), held(0, 1, spares)]);
        history.job(1, job("other", 1, |job| job.queue = "q".into()));
        history
    };
    assert!(in_queue(1).broken().is_empty());
    assert_eq!(in_queue(2).broken(), ["P8", "P8"], "at once, and when the entry is over");
    assert_eq!(in_queue(1).happened(vec![placed(1, 0, 1, 1)]).broken(), ["P8"], "the quota is used up");
    let given_back = vec![placed(0, 2, 1, 1), gone(0, 1, 1, "its queue is over its quota")];
    assert!(in_queue(1).happened(given_back).broken().is_empty(), "lent to its own job");
    assert_eq!(in_queue(1).happened(vec![placed(0, 2, 1, 1)]).broken(), ["P8"], "and not given back");
    let freed = vec![gone(0, 1, 1, "its room is taken"), placed(1, 0, 1, 1)];
    assert!(in_queue(1).happened(freed).broken().is_empty());
}
