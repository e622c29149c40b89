//! Every judge is shown a history that keeps its promise and one that breaks it.

mod budgets;
mod flavor_checks;
mod flavors;
mod heads;
mod held_queues;
mod jobs;
mod kept;
mod leases;
mod namespaces;
mod neighbours;
mod node_requests;
mod nodes;
mod owed_room;
mod p10;
mod preemption;
mod preemption_room;
mod probes;
mod ready;
mod real_time;
mod restarts;
mod rollouts;
mod slices;
mod spares;
mod start_deadlines;
mod stop_delays;
mod strict_order;
mod taints;
mod turns;
mod waiting_bounds;

use super::*;
use ohm_model::{
    Class, Envelope, Event, EventKind, Exit, GroupSpec, HostPort, Incarnation, JobId, JobOutcome, JobSpec, NodeHealth,
    NodeId, NodeSpec, QueueSpec, RepairPolicy, RepairSpec, RunRef, SessionId, StopCause, TopologyMode, TopologyRequest,
    TopologySlice, TopologySpec,
};
use std::sync::Arc;

/// A history under construction: one entry per call.
#[derive(Default)]
struct History {
    oracle: Oracle,
    index: u64,
    registrations: u32,
    sender: SessionId,
}

impl History {
    fn entry(&mut self, command: Command, outcome: Outcome, kinds: Vec<EventKind>) -> &mut Self {
        self.index += 1;
        let at_ms = self.index * 1000;
        let events = kinds.into_iter().map(|kind| Event { index: Index(self.index), at_ms, kind }).collect();
        let envelope = Envelope { session: self.sender, ..Envelope::without_session(command) };
        let entry = Entry { stamp_ms: at_ms, commands: vec![envelope] };
        let applied = Caused { outcomes: vec![outcome], events };
        self.oracle.watch(&Record::Applied {
            at_ms,
            copy: "server".into(),
            index: Index(self.index),
            entry: Arc::new(entry),
            applied: Arc::new(applied),
            chain: self.index,
        });
        self
    }

    fn happened(&mut self, kinds: Vec<EventKind>) -> &mut Self {
        self.entry(Command::Tick, Outcome::Done, kinds)
    }

    fn node(&mut self, number: u32, spec: NodeSpec) -> &mut Self {
        self.node_and(number, spec, Vec::new())
    }

    fn node_and(&mut self, number: u32, spec: NodeSpec, more: Vec<EventKind>) -> &mut Self {
        self.registrations += 1;
        let (node, incarnation) = (NodeId(number), Incarnation(self.registrations));
        let registered = EventKind::NodeRegistered { node, name: spec.name.clone(), incarnation };
        let command = Command::RegisterNode { spec, key: 1, instance: 1, boot: 1, alive: Vec::new() };
        let kinds = std::iter::once(registered).chain(more).collect();
        self.entry(command, Outcome::Node { node, incarnation }, kinds)
    }

    fn job(&mut self, number: u32, spec: JobSpec) -> &mut Self {
        let (job, name) = (JobId::new(number, 0), spec.name.clone());
        let command = Command::SubmitJobs { jobs: vec![spec] };
        let outcome = Outcome::Jobs(vec![JobOutcome::Accepted(job)]);
        self.entry(command, outcome, vec![EventKind::JobSubmitted { job, name }])
    }

    fn update(&mut self, number: u32, spec: JobSpec, more: Vec<EventKind>) -> &mut Self {
        let (job, name) = (JobId::new(number, 0), spec.name.clone());
        let command = Command::UpdateJob { spec: Box::new(spec), version: None };
        let updated = EventKind::JobUpdated { job, name, owner: "a person".into(), fields: Vec::new() };
        let kinds = std::iter::once(updated).chain(more).collect();
        self.entry(command, Outcome::Jobs(vec![JobOutcome::Updated(job)]), kinds)
    }

    fn broken(&mut self) -> Vec<&'static str> {
        self.oracle.finish();
        self.oracle.broken().iter().map(|broken| broken.promise).collect()
    }
}

fn node(name: &str, labels: &[(&str, &str)]) -> NodeSpec {
    NodeSpec {
        name: name.into(),
        labels: labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        taints: Vec::new(),
        capacity: [("cpu".to_string(), 4000), ("pods".to_string(), 10)].into(),
        address: String::new(),
    }
}

fn job(name: &str, count: u32, change: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let group = GroupSpec {
        min_count: 1,
        elastic: true,
        requests: [("cpu".to_string(), 1000)].into(),
        ..GroupSpec::gang("main", count)
    };
    let mut spec =
        JobSpec { retries: 1, ttl_seconds_after_finished: 60, ..JobSpec::of(name, Class::BATCH, vec![group]) };
    change(&mut spec);
    spec
}

fn placed(job: u32, first: u32, count: u32, node: u32) -> EventKind {
    EventKind::Placed { job: JobId::new(job, 0), group: 0, first, count, node: NodeId(node) }
}

fn ended(job: u32, task: u32, node: u32, exit: Exit) -> EventKind {
    let incarnation = Incarnation(1);
    EventKind::Ended { job: JobId::new(job, 0), group: 0, task, incarnation, node: NodeId(node), exit, cause: None }
}

fn stopping(job: u32, task: u32, node: u32, cause: StopCause) -> EventKind {
    let incarnation = Incarnation(1);
    EventKind::Stopping { job: JobId::new(job, 0), group: 0, task, incarnation, node: NodeId(node), cause }
}

fn state(job: u32, state: &str) -> EventKind {
    EventKind::JobState { job: JobId::new(job, 0), name: "j".into(), state: state.into(), reason: String::new() }
}

#[test]
fn p1_sees_a_node_over_its_capacity() {
    let mut history = History::default();
    history.node(0, node("a", &[])).job(0, job("j", 5, |_| {})).happened(vec![placed(0, 0, 4, 0)]);
    assert!(history.broken().is_empty());
    history.happened(vec![placed(0, 4, 1, 0)]);
    assert_eq!(history.broken(), ["P1"]);
}

#[test]
fn p1_sees_a_port_given_twice() {
    let mut history = History::default();
    history.node(0, node("a", &[])).job(0, job("j", 2, |job| job.groups[0].ports = vec![HostPort::tcp(80)]));
    assert_eq!(history.happened(vec![placed(0, 0, 2, 0)]).broken(), ["P1"]);
}

#[test]
fn p1_tells_ports_by_protocol_and_address() {
    let broken = |one: &str, other: &str| {
        let mut history = History::default();
        history.node(0, node("a", &[]));
        for (at, port) in [(0, one), (1, other)] {
            let ports = vec![port.parse().unwrap()];
            history.job(at, job(&format!("j{at}"), 1, |job| job.groups[0].ports = ports));
        }
        history.happened(vec![placed(0, 0, 1, 0), placed(1, 0, 1, 0)]).broken()
    };
    assert_eq!(broken("80", "10.0.0.1:80"), ["P1"]);
    assert_eq!(broken("10.0.0.1:80", "10.0.0.1:80"), ["P1"]);
    assert!(broken("80", "80/UDP").is_empty());
    assert!(broken("10.0.0.2:80", "10.0.0.1:80").is_empty());
}

#[test]
fn p2_sees_two_live_runs_of_one_task() {
    let began = |node: &str, incarnation: u32, keeps: bool| Record::Began {
        at_ms: 5,
        node: node.into(),
        run: RunRef::new(JobId::new(0, 0), 0, 0, incarnation),
        keeps,
        fence_in_ms: 1,
    };
    let over = Record::Over { at_ms: 6, node: "a".into(), run: RunRef::new(JobId::new(0, 0), 0, 0, 1) };
    for (records, expected) in [
        (vec![began("a", 1, false), over, began("b", 2, false)], 0),
        (vec![began("a", 1, true), began("b", 2, true)], 0),
        (vec![began("a", 1, false), began("b", 2, false)], 1),
    ] {
        let mut oracle = Oracle::default();
        records.iter().for_each(|record| oracle.watch(record));
        assert_eq!(oracle.broken().len(), expected, "{records:?}");
    }
}

#[test]
fn p3_sees_a_lost_and_a_doubled_job() {
    let mut history = History::default();
    history.job(0, job("j", 1, |_| {}));
    history.oracle.watch(&Record::Acknowledged { at_ms: 1, job: "j".into() });
    assert!(history.broken().is_empty());
    history.oracle.watch(&Record::Acknowledged { at_ms: 1, job: "lost".into() });
    assert_eq!(history.job(1, job("j", 1, |_| {})).broken(), ["P3", "P3"]);
}

#[test]
fn p4_sees_a_gang_that_starts_short() {
    let mut history = History::default();
    history.node(0, node("a", &[])).job(0, job("j", 3, |job| job.groups[0].min_count = 3));
    assert!(history.happened(vec![placed(0, 0, 2, 0), placed(0, 2, 1, 0)]).broken().is_empty());
    let mut history = History::default();
    history.node(0, node("a", &[])).job(0, job("j", 3, |job| job.groups[0].min_count = 3));
    assert_eq!(history.happened(vec![placed(0, 0, 2, 0)]).broken(), ["P4"]);
}

fn in_racks() -> History {
    let mut history = History::default();
    let topology = TopologySpec { name: "default".into(), levels: vec!["block".into(), "rack".into()] };
    history.entry(Command::PutTopology(topology), Outcome::Done, Vec::new());
    for (number, name, rack) in [(0, "a", "r0"), (1, "b", "r0"), (2, "c", "r1")] {
        history.node(number, node(name, &[("block", "b0"), ("rack", rack)]));
    }
    history.node(3, node("outside", &[("rack", "r0")]));
    let wish = TopologyRequest { mode: TopologyMode::Required, level: "rack".into(), ..TopologyRequest::default() };
    history.job(0, job("j", 4, |job| job.groups[0].topology = wish));
    history
}

#[test]
fn p5_follows_a_domain_from_the_start_through_repairs() {
    let mut history = in_racks();
    history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]).happened(vec![ended(0, 0, 0, Exit::NodeLost)]);
    assert!(history.happened(vec![placed(0, 0, 1, 1)]).broken().is_empty());
    assert_eq!(history.happened(vec![placed(0, 2, 1, 2)]).broken(), ["P5"]);
    let mut history = in_racks();
    history.happened(vec![placed(0, 0, 1, 0)]).happened(vec![ended(0, 0, 0, Exit::NodeLost)]);
    assert!(history.happened(vec![placed(0, 0, 1, 2)]).broken().is_empty(), "nothing of it stood any more");
    assert_eq!(in_racks().happened(vec![placed(0, 0, 1, 3)]).broken(), ["P5"], "a node without a block");
}

#[test]
fn p5_lets_a_repair_go_as_far_as_its_job_says() {
    let stands = |policy: RepairPolicy| {
        let mut history = in_racks();
        history.node(4, node("far", &[("block", "b1"), ("rack", "r9")]));
        let wish = TopologyRequest { mode: TopologyMode::Required, level: "rack".into(), ..TopologyRequest::default() };
        let repair = RepairSpec { policy, widen_to: "block".into(), ..RepairSpec::default() };
        history.job(1, job("wide", 3, |job| (job.groups[0].topology, job.repair) = (wish, repair)));
        history.happened(vec![placed(1, 0, 1, 0), placed(1, 1, 1, 1)]);
        history
    };
    let hurt = |policy: RepairPolicy| {
        let mut history = stands(policy);
        history.happened(vec![ended(1, 1, 1, Exit::NodeLost)]);
        history
    };
    assert!(hurt(RepairPolicy::Widen).happened(vec![placed(1, 1, 1, 2)]).broken().is_empty());
    assert_eq!(hurt(RepairPolicy::Wait).happened(vec![placed(1, 1, 1, 2)]).broken(), ["P5"]);
    assert_eq!(stands(RepairPolicy::Widen).happened(vec![placed(1, 2, 1, 2)]).broken(), ["P5"], "no repair");
    assert_eq!(hurt(RepairPolicy::Widen).happened(vec![placed(1, 1, 1, 4)]).broken(), ["P5"], "another block");
    let mut widened = hurt(RepairPolicy::Widen);
    widened.happened(vec![placed(1, 1, 1, 2)]);
    assert!(widened.happened(vec![placed(1, 2, 1, 1)]).broken().is_empty(), "anywhere in the block");
}

#[test]
fn p5_lets_a_repair_widen_what_left_its_domain_with_its_node() {
    let comes_back_on = |node_of_first: u32| {
        let mut history = in_racks();
        history.node(4, node("far", &[("block", "b1"), ("rack", "r9")]));
        let wish = TopologyRequest { mode: TopologyMode::Required, level: "rack".into(), ..TopologyRequest::default() };
        let repair = RepairSpec { policy: RepairPolicy::Widen, widen_to: "block".into(), ..RepairSpec::default() };
        history.job(1, job("wide", 3, |job| (job.groups[0].topology, job.repair) = (wish, repair)));
        history.happened(vec![placed(1, 0, 2, 0)]);
        let both = [0, 1].map(|task| stopping(1, task, 0, StopCause::Moved)).to_vec();
        history.node_and(0, node("a", &[("block", "b0"), ("rack", "r1")]), both);
        history.happened(vec![ended(1, 0, 0, Exit::NodeLost)]).happened(vec![placed(1, 0, 1, node_of_first)]).broken()
    };
    assert_eq!(comes_back_on(0), [""; 0], "the other task still stops there");
    assert_eq!(comes_back_on(2), [""; 0]);
    assert_eq!(comes_back_on(4), ["P5"], "another block");
}

#[test]
fn p5_wants_tasks_off_a_node_that_left_their_domain() {
    let moved = || node("b", &[("block", "b0"), ("rack", "r1")]);
    let mut history = in_racks();
    history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]);
    assert!(history.node_and(1, moved(), vec![stopping(0, 1, 1, StopCause::Moved)]).broken().is_empty());
    let mut history = in_racks();
    history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]);
    assert_eq!(history.node(1, moved()).broken(), ["P5"]);
}

#[test]
fn p6_sees_a_closed_job_placed() {
    for (word, expected) in [("cancelled", 1), ("suspended", 1), ("pending", 0)] {
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 1, |_| {}));
        let broken = history.happened(vec![state(0, word)]).happened(vec![placed(0, 0, 1, 0)]).broken().len();
        assert_eq!(broken, expected, "{word}");
    }
}

#[test]
fn p7_counts_only_what_a_task_did_itself() {
    for (exit, expected) in [(Exit::Code(1), 0), (Exit::NodeLost, 1), (Exit::Vanished, 1), (Exit::LeaseExpired, 1)] {
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 1, |_| {}));
        let attempt = || vec![placed(0, 0, 1, 0), ended(0, 0, 0, exit)];
        history.happened(attempt()).happened(attempt());
        assert_eq!(history.happened(vec![state(0, "failed")]).broken().len(), expected, "{exit}");
    }
}

#[test]
fn p7_lets_a_deadline_fail_a_job_but_only_when_it_is_over() {
    for (seconds, expected) in [(1, 0), (60, 1)] {
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 1, |job| job.active_deadline_seconds = seconds));
        history.happened(vec![placed(0, 0, 1, 0)]);
        assert_eq!(history.happened(vec![state(0, "failed")]).broken().len(), expected);
    }
}

#[test]
fn p7_keeps_healthy_tasks_where_they_are() {
    let standing = |minimum: u32| {
        let mut history = History::default();
        history.node(0, node("a", &[])).node(1, node("b", &[]));
        history.job(0, job("j", 3, |job| job.groups[0].min_count = minimum));
        history.happened(vec![placed(0, 0, 2, 0), placed(0, 2, 1, 1)]).happened(vec![ended(0, 2, 1, Exit::NodeLost)]);
        history
    };
    assert_eq!(standing(1).happened(vec![stopping(0, 0, 0, StopCause::Moved)]).broken(), ["P7"]);
    assert_eq!(standing(1).happened(vec![stopping(0, 0, 0, StopCause::GangRestart)]).broken(), ["P7"]);
    assert!(standing(3).happened(vec![stopping(0, 0, 0, StopCause::GangRestart)]).broken().is_empty());
    let mut driven = standing(1);
    let relabelled = node("a", &[("tier", "gold")]);
    assert!(driven.node_and(0, relabelled, vec![stopping(0, 0, 0, StopCause::Moved)]).broken().is_empty());
}

#[test]
fn p7_sees_half_a_repair_and_a_gang_given_up_too_early() {
    let hurt = |minimum: u32| {
        let mut history = History::default();
        history.node(0, node("a", &[])).node(1, node("b", &[]));
        history.job(0, job("j", 3, |job| job.groups[0].min_count = minimum));
        history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 2, 1)]);
        history.happened(vec![ended(0, 1, 1, Exit::NodeLost), ended(0, 2, 1, Exit::NodeShutdown)]);
        history
    };
    let committed = || EventKind::RepairCommitted { job: JobId::new(0, 0), name: "j".into(), moves: Vec::new() };
    assert_eq!(hurt(3).happened(vec![placed(0, 1, 1, 0), committed()]).broken(), ["P7"]);
    assert!(hurt(3).happened(vec![placed(0, 1, 2, 0), committed()]).broken().is_empty());
    assert!(hurt(2).happened(vec![placed(0, 1, 1, 0), committed()]).broken().is_empty(), "its minimum stands again");
    let given_up = || {
        let reason = "no room".into();
        EventKind::RepairFailed { job: JobId::new(0, 0), name: "j".into(), reason }
    };
    let evicted = || stopping(0, 0, 0, StopCause::RepairFailed);
    assert!(hurt(2).happened(vec![given_up(), evicted()]).broken().is_empty());
    assert_eq!(hurt(1).happened(vec![given_up(), evicted()]).broken(), ["P7"], "its minimum stands");
    assert_eq!(hurt(2).happened(vec![evicted()]).broken(), ["P7"], "nobody says why");
    let mut mended = hurt(3);
    mended.happened(vec![placed(0, 1, 2, 0), committed()]);
    assert_eq!(mended.happened(vec![given_up()]).broken(), ["P7"], "nothing is lost any more");
}

#[test]
fn p8_judges_quota_with_borrowing_and_lending() {
    let queue = |name: &str, parent: &str, nominal: i64, borrowing: Option<i64>, lending: Option<i64>| QueueSpec {
        name: name.into(),
        is_cohort: parent.is_empty(),
        parent: parent.into(),
        nominal: [("cpu".to_string(), nominal)].into(),
        borrowing_limit: borrowing.map(|limit| ("cpu".to_string(), limit)).into_iter().collect(),
        lending_limit: lending.map(|limit| ("cpu".to_string(), limit)).into_iter().collect(),
        ..QueueSpec::default()
    };
    // Two queues of 2 under one cohort; the first asks for `count` cores.
    for (count, borrowing, lending, expected) in
        [(2, None, None, 0), (4, None, None, 0), (5, None, None, 1), (4, Some(1), None, 1), (4, None, Some(1), 1)]
    {
        let mut history = History::default();
        history.node(
            0,
            NodeSpec { capacity: [("cpu".to_string(), 9000), ("pods".to_string(), 10)].into(), ..node("a", &[]) },
        );
        for spec in [
            queue("all", "", 0, None, None),
            queue("first", "all", 2000, borrowing, None),
            queue("second", "all", 2000, None, lending.map(|limit| limit * 1000)),
        ] {
            let spec = QueueSpec {
                borrowing_limit: spec.borrowing_limit.into_iter().map(|(name, limit)| (name, limit * 1000)).collect(),
                ..spec
            };
            history.entry(Command::PutQueue(spec), Outcome::Done, Vec::new());
        }
        history.job(0, job("j", 5, |job| job.queue = "first".into())).happened(vec![placed(0, 0, count, 0)]);
        assert_eq!(history.broken().len(), expected, "{count} {borrowing:?} {lending:?}");
    }
}

#[test]
fn p9_sees_a_copy_that_went_another_way() {
    let copied = |copy: &str, chain| Record::Copied { copy: copy.into(), index: Index(7), chain };
    let mut oracle = Oracle::default();
    oracle.watch(&copied("a", 1));
    oracle.watch(&copied("b", 1));
    assert!(oracle.broken().is_empty());
    oracle.watch(&copied("c", 2));
    assert_eq!(oracle.broken()[0].promise, "P9");
}
