//! What nodes let stand on them.

use super::*;

#[test]
fn p8_judges_labels_taints_limits_and_doors() {
    use ohm_model::selector::{Operator, Requirement, SelectorTerm, Toleration, TolerationOperator};
    use ohm_model::{Taint, TaintEffect};
    let place = |spec: NodeSpec, change: &dyn Fn(&mut GroupSpec), before: Vec<EventKind>| {
        let mut history = History::default();
        history.node(0, spec).job(0, job("j", 2, |job| change(&mut job.groups[0])));
        history.happened(before).happened(vec![placed(0, 0, 2, 0)]).broken().len()
    };
    let gold = || node("a", &[("tier", "gold"), ("size", "7")]);
    let none = |_: &mut GroupSpec| {};
    let selects = |value: &'static str| {
        move |group: &mut GroupSpec| drop(group.node_selector.insert("tier".into(), value.into()))
    };
    assert_eq!(place(gold(), &selects("gold"), Vec::new()), 0);
    assert_eq!(place(gold(), &selects("tin"), Vec::new()), 1);
    let wants = |operator: Operator, key: &'static str, values: &'static [&'static str]| {
        move |group: &mut GroupSpec| {
            let values = values.iter().map(|value| value.to_string()).collect();
            group.affinity = vec![SelectorTerm::of_labels(vec![Requirement { key: key.into(), operator, values }])];
        }
    };
    for (operator, key, values, expected) in [
        (Operator::In, "tier", &["tin", "gold"][..], 0),
        (Operator::In, "tier", &["tin"], 1),
        (Operator::NotIn, "tier", &["gold"], 1),
        (Operator::NotIn, "colour", &["red"], 0),
        (Operator::Exists, "colour", &[], 1),
        (Operator::DoesNotExist, "tier", &[], 1),
        (Operator::Gt, "size", &["6"], 0),
        (Operator::Lt, "size", &["6"], 1),
        (Operator::In, "kubernetes.io/hostname", &["a"], 0),
    ] {
        assert_eq!(place(gold(), &wants(operator, key, values), Vec::new()), expected, "{operator:?} {key} {values:?}");
    }
    let tainted = |effect: TaintEffect| NodeSpec {
        taints: vec![Taint { key: "gpu".into(), value: "x".into(), effect }],
        ..gold()
    };
    assert_eq!(place(tainted(TaintEffect::NoSchedule), &none, Vec::new()), 1);
    assert_eq!(place(tainted(TaintEffect::PreferNoSchedule), &none, Vec::new()), 0);
    let tolerates = |group: &mut GroupSpec| {
        let (key, operator) = ("gpu".into(), TolerationOperator::Exists);
        group.tolerations =
            vec![Toleration { key, operator, value: String::new(), effect: None, toleration_seconds: None }];
    };
    assert_eq!(place(tainted(TaintEffect::NoSchedule), &tolerates, Vec::new()), 0);
    assert_eq!(place(gold(), &|group| group.max_per_node = 1, Vec::new()), 1);
    let cordoned = |cordoned| EventKind::NodeCordoned { node: NodeId(0), name: "a".into(), cordoned };
    assert_eq!(place(gold(), &none, vec![cordoned(true)]), 1);
    assert_eq!(place(gold(), &none, vec![cordoned(true), cordoned(false)]), 0);
    let health = |health| EventKind::NodeHealth { node: NodeId(0), name: "a".into(), health };
    assert_eq!(place(gold(), &none, vec![health(NodeHealth::Suspect)]), 1);
    assert_eq!(place(gold(), &none, vec![EventKind::NodeRemoved { name: "a".into() }]), 1);
    let condition = |action| {
        let (condition, name, message) = (ohm_model::ConditionKind::DiskPressure, "a".into(), String::new());
        EventKind::NodeCondition { node: NodeId(0), name, condition, action, message }
    };
    use ohm_model::ConditionAction::{Drain, NoNewWork, Note};
    assert_eq!(place(gold(), &none, vec![condition(Some(Note))]), 0);
    assert_eq!(place(gold(), &none, vec![condition(Some(NoNewWork))]), 1);
    assert_eq!(place(gold(), &none, vec![condition(Some(Drain)), condition(None)]), 0);
}

#[test]
fn p8_judges_hold_downs() {
    let place = |losses: usize, health: NodeHealth, more: Vec<EventKind>| {
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 2, |_| {}));
        for _ in 0..losses {
            history.happened(vec![EventKind::NodeHealth { node: NodeId(0), name: "a".into(), health }]);
            history.node(0, node("a", &[]));
        }
        history.happened(more).happened(vec![placed(0, 0, 2, 0)]).broken().len()
    };
    assert_eq!(place(2, NodeHealth::Lost, Vec::new()), 0);
    assert_eq!(place(3, NodeHealth::Lost, Vec::new()), 1);
    assert_eq!(place(3, NodeHealth::Suspect, Vec::new()), 0, "nothing moved because of it");
    let released = EventKind::NodeReleased { node: NodeId(0), name: "a".into(), by_hand: true };
    assert_eq!(place(3, NodeHealth::Lost, vec![released]), 0);
}

#[test]
fn p7_sees_who_leaves_a_node_that_lets_it_stay() {
    use ohm_model::ConditionAction::{Drain, NoNewWork};
    use ohm_model::selector::{Toleration, TolerationOperator};
    use ohm_model::{ConditionKind, Grain, GroupIndex, Nomination, Shard, TaskIndex, TaskRef, Transaction, Verdict};
    let (id, group) = (JobId::new(0, 0), GroupIndex(0));
    let leaves = |before: Vec<EventKind>, tolerated: Option<&str>, rooms: u32| {
        let mut history = History::default();
        let tolerations = tolerated.iter().map(|key| Toleration {
            toleration_seconds: None,
            key: key.to_string(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
        });
        let spec = job("j", 1, |job| job.groups[0].tolerations = tolerations.collect());
        history.node(0, node("a", &[])).node(1, node("b", &[])).job(0, spec);
        history.happened(vec![placed(0, 0, 1, 0)]).happened(before);
        let task = TaskRef { job: id, group, task: TaskIndex(0) };
        let transaction = Transaction {
            evict: vec![(RunRef { task, incarnation: Incarnation(1) }, StopCause::Drained)],
            nominate: vec![Nomination {
                job: id,
                group,
                node: NodeId(1),
                first: TaskIndex(0),
                count: rooms,
                purpose: ohm_model::Purpose::Move,
            }],
            ..Transaction::empty(
                Shard { class: Class::BATCH, number: 0 },
                Default::default(),
                Index(0),
                Grain::AllOrNothing,
            )
        };
        let verdict = Verdict { accepted: Vec::new(), conflicts: Vec::new(), refresh: Index(0) };
        let told = vec![stopping(0, 0, 0, StopCause::Drained)];
        history.entry(Command::Commit(transaction), Outcome::Verdict(verdict), told).broken().len()
    };
    let condition = |condition, action| {
        let (name, message) = ("a".into(), String::new());
        EventKind::NodeCondition { node: NodeId(0), name, condition, action, message }
    };
    let ill = |action| condition(ConditionKind::HealthCheckFailed, action);
    let drain = || EventKind::NodeDraining { node: NodeId(0), name: "a".into(), runs: 1, deadline_ms: 0 };
    let own = Some("node.ohm/health-check-failed");
    assert_eq!(leaves(vec![ill(Some(Drain))], None, 1), 0);
    assert_eq!(leaves(vec![ill(Some(Drain))], None, 0), 1, "without room");
    assert_eq!(leaves(vec![], None, 1), 1);
    assert_eq!(leaves(vec![ill(Some(NoNewWork))], None, 1), 1, "only new work is kept away");
    assert_eq!(leaves(vec![ill(Some(Drain)), ill(None)], None, 1), 1, "it is well again");
    assert_eq!(leaves(vec![ill(Some(Drain))], own, 1), 1, "it is tolerated");
    assert_eq!(leaves(vec![ill(Some(Drain)), condition(ConditionKind::DeviceError, Some(Drain))], own, 1), 0);
    assert_eq!(leaves(vec![ill(Some(Drain)), drain()], own, 1), 0, "nobody tolerates a drain");
}

/// A queue with these checks that limits nothing.
fn queue(name: &str, checks: &[&str]) -> QueueSpec {
    QueueSpec {
        name: name.into(),
        nominal: Default::default(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        admission_checks: checks.iter().map(|check| ohm_model::AdmissionCheck::of(*check)).collect(),
        ..QueueSpec::default()
    }
}

/// A job of queue q, which becomes job 0, whose check is ready and asks for nodes with `labels`; node 0 has none.
pub(super) fn admitted(spec: JobSpec, labels: &[(&str, &str)]) -> History {
    let mut history = History::default();
    history.entry(Command::PutQueue(queue("q", &["spot"])), Outcome::Done, Vec::new());
    history.entry(Command::PutQueue(queue("other", &[])), Outcome::Done, Vec::new());
    history.node(0, node("a", &[])).job(0, spec);
    let (job, name, checks) = (JobId::new(0, 0), "j".to_string(), vec!["spot".to_string()]);
    history.happened(vec![EventKind::QuotaReserved { job, name, round: 1, checks }]);
    let report = ohm_model::CheckReport::Ready {
        node_selector: labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        tolerations: Vec::new(),
        message: String::new(),
    };
    let (epoch, class) = (ohm_model::Epoch(1), "spot".to_string());
    let ready = Command::ReportCheck { epoch, job, round: 1, class, repair: 0, report };
    history.entry(ready, Outcome::Done, Vec::new());
    history
}

fn checked() -> History {
    admitted(of_queue("q", 1), &[("pool", "spot")])
}

fn of_queue(queue: &str, count: u32) -> JobSpec {
    job("j", count, |job| job.queue = queue.into())
}

#[test]
fn p8_judges_what_checks_brought_as_long_as_they_are_those_of_the_queue() {
    assert_eq!(checked().happened(vec![placed(0, 0, 1, 0)]).broken(), ["P8"]);
    let mut changed = checked();
    changed.entry(Command::PutQueue(queue("q", &[])), Outcome::Done, Vec::new());
    assert!(changed.happened(vec![placed(0, 0, 1, 0)]).broken().is_empty());
}

#[test]
fn p8_sees_who_takes_a_node_that_was_brought_for_another() {
    // The job was submitted with the fourth entry.
    let labels = [("provisioning.ohm/request", "j.fa0.1.spot"), ("pool", "spot")];
    let brought = |more: Vec<EventKind>, returns: bool| {
        let mut history = checked();
        history.node(1, node("b", &labels)).job(1, job("other", 2, |_| {})).happened(more);
        if returns {
            history.node(1, node("b", &labels));
        }
        history.happened(vec![placed(1, 0, 1, 1)]).broken()
    };
    assert_eq!(brought(Vec::new(), false), ["P8"]);
    assert!(brought(vec![placed(0, 0, 1, 1)], false).is_empty(), "the other has its place");
    assert!(brought(vec![state(0, "cancelled")], false).is_empty(), "the request is over");
    let goes = || {
        let (node, name, class) = (NodeId(1), "b".to_string(), "spot".to_string());
        vec![state(0, "cancelled"), EventKind::NodeReleasing { node, name, class, idle_ms: 1 }]
    };
    assert_eq!(brought(goes(), false), ["P8"], "the node goes back");
    assert!(brought(goes(), true).is_empty(), "whether it still does is not known");
}

#[test]
fn p8_forgets_what_checks_brought_when_an_update_ends_the_reservation() {
    let updated = |spec: JobSpec| {
        let mut history = checked();
        history.update(0, spec, Vec::new()).happened(vec![placed(0, 0, 1, 0)]);
        history.broken()
    };
    assert!(updated(of_queue("other", 1)).is_empty(), "a queue without checks asks for no pool");
    assert_eq!(updated(of_queue("q", 2)), ["P6"], "other groups ask the checks anew");
    let other_retries = JobSpec { retries: 9, ..of_queue("q", 1) };
    assert_eq!(updated(other_retries), ["P8"], "the reservation stands");
}
