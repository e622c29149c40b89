//! P10: jobs that wait although they fit, and reasons that are not true.

use super::*;
use crate::ShortQuota;
use ohm_model::{
    Amounts, CheckReport, Epoch, Grain, GroupIndex, Nomination, Purpose, Shard, TaskIndex, Transaction, Verdict,
};

const RACK: &str = "rack";

/// Two nodes in each of two racks.
fn cell() -> History {
    let mut history = History::default();
    let levels = [RACK, ohm_model::node::HOSTNAME_LABEL].map(String::from).to_vec();
    history.entry(Command::PutTopology(TopologySpec { name: "default".into(), levels }), Outcome::Done, Vec::new());
    for (number, rack) in ["r0", "r0", "r1", "r1"].into_iter().enumerate() {
        history.node(number as u32, node(&format!("n{number}"), &[(RACK, rack)]));
    }
    history
}

/// Whether the job, submitted last, is found to wait although it fits.
fn sees_stuck(mut history: History, spec: JobSpec) -> bool {
    history.job(9, spec);
    !history.oracle.stuck_jobs().is_empty()
}

/// A gang of `count` tasks of which `per_node` fit on one node.
fn gang(count: u32, per_node: i64, edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    job("j", count, |job| {
        job.class = Class::TAS;
        job.groups[0].requests = [("cpu".to_string(), 4000 / per_node)].into();
        (job.groups[0].min_count, job.groups[0].elastic) = (count, false);
        job.groups[0].topology =
            TopologyRequest { mode: TopologyMode::Required, level: RACK.into(), ..TopologyRequest::default() };
        edit(job);
    })
}

#[test]
fn a_job_that_waits_although_it_fits_is_seen() {
    assert!(!sees_stuck(cell(), gang(5, 2, |_| {})), "a rack takes four");
    assert!(sees_stuck(cell(), gang(4, 2, |_| {})));
    assert!(!sees_stuck(cell(), gang(4, 2, |job| job.suspended = true)));
}

#[test]
fn what_runs_ends_and_fails_is_counted() {
    let mut history = cell();
    history.job(0, gang(2, 2, |_| {})).happened(vec![placed(0, 0, 2, 0)]);
    assert!(history.oracle.stuck_jobs().is_empty(), "all of it runs");
    assert!(!sees_stuck(history, gang(7, 2, |job| job.groups[0].topology = TopologyRequest::default())), "six fit");
    let mut history = cell();
    history.job(0, gang(1, 1, |_| {})).happened(vec![placed(0, 0, 1, 0), ended(0, 0, 0, Exit::Code(1))]);
    assert!(history.oracle.stuck_jobs().is_empty(), "it waits for its back-off");
    history.happened(Vec::new());
    assert_eq!(history.oracle.stuck_jobs().len(), 1, "that is over");
}

/// Room for one task of a job on a node.
fn claim(job: u32, node: u32, purpose: Purpose) -> Nomination {
    Nomination {
        job: JobId::new(job, 0),
        group: GroupIndex(0),
        node: NodeId(node),
        first: TaskIndex(0),
        count: 1,
        purpose,
    }
}

impl History {
    pub(super) fn put(&mut self, queue: QueueSpec) -> &mut Self {
        self.entry(Command::PutQueue(queue), Outcome::Done, Vec::new())
    }

    /// Takes all of a transaction that claims room.
    fn commit(&mut self, nominate: Vec<Nomination>) -> &mut Self {
        self.take(Transaction { nominate, ..nothing() })
    }

    /// Reserves the quota of a job, asking nobody.
    pub(super) fn reserve(&mut self, job: u32) -> &mut Self {
        self.take(Transaction { reserve: vec![JobId::new(job, 0)], ..nothing() })
    }

    fn take(&mut self, transaction: Transaction) -> &mut Self {
        self.entry(Command::Commit(transaction), Outcome::Verdict(Verdict::default()), Vec::new())
    }
}

fn nothing() -> Transaction {
    Transaction::empty(Shard { class: Class::TAS, number: 0 }, ohm_model::Epoch(1), Index(0), Grain::AllOrNothing)
}

#[test]
fn room_that_is_claimed_is_nobodys() {
    let claimed = |until_ms: u64| {
        let mut history = cell();
        history.job(0, gang(9, 1, |_| {}));
        let purpose = Purpose::Preemptor { expires_ms: until_ms };
        history.commit((0..4).map(|node| claim(0, node, purpose)).collect());
        history
    };
    assert!(!sees_stuck(claimed(60_000), gang(1, 1, |_| {})));
    assert!(sees_stuck(claimed(1_000), gang(1, 1, |_| {})), "the claim has ended");
}

/// A queue that keeps `kept` of its cpu from its cohort.
fn queue(name: &str, parent: &str, cpu: i64, kept: i64) -> QueueSpec {
    let amounts = |amount: i64| -> Amounts { [("cpu".to_string(), amount)].into() };
    QueueSpec {
        name: name.into(),
        parent: parent.into(),
        nominal: amounts(cpu),
        lending_limit: amounts(cpu - kept),
        ..QueueSpec::default()
    }
}

#[test]
fn so_is_one_whose_queue_has_room() {
    let with = |cpu: i64| {
        let mut history = cell();
        history.put(queue("red", "", cpu, 0));
        let of_queue = |count| gang(count, 2, |job| job.queue = "red".into());
        history.job(0, of_queue(1)).happened(vec![placed(0, 0, 1, 0)]);
        sees_stuck(history, of_queue(2))
    };
    assert!(with(6000), "2 of 6 are used");
    assert!(!with(5000));
}

#[test]
fn so_is_one_of_several_groups() {
    let with_side = |count: u32, together: bool| {
        gang(2, 2, |job| {
            let mut side = job.groups[0].clone();
            (side.name, side.count, side.min_count) = ("side".into(), count, count);
            job.groups.push(side);
            if together {
                job.groups.iter_mut().for_each(|group| group.place_with = "team".into());
                (job.groups[0].count, job.groups[0].min_count) = (1, 1);
            }
        })
    };
    assert!(sees_stuck(cell(), with_side(4, false)), "each in a rack of its own");
    assert!(!sees_stuck(cell(), with_side(5, false)));
    assert!(sees_stuck(cell(), with_side(3, true)), "leader and three workers in one rack");
    assert!(!sees_stuck(cell(), with_side(4, true)));
}

#[test]
fn so_is_one_with_slices() {
    let sliced = |count: u32, per_node: i64, level: &str, size: u32| {
        gang(count, per_node, |job| {
            job.groups[0].topology = TopologyRequest {
                mode: TopologyMode::Preferred,
                level: RACK.into(),
                slices: vec![TopologySlice { level: level.into(), size }],
                ..TopologyRequest::default()
            };
        })
    };
    let host = ohm_model::node::HOSTNAME_LABEL;
    assert!(sees_stuck(cell(), sliced(8, 2, host, 2)), "a pair on each of four nodes");
    assert!(!sees_stuck(cell(), sliced(6, 1, host, 2)), "no node takes a pair");
    assert!(sees_stuck(cell(), sliced(8, 2, RACK, 4)), "four in each rack");
    assert!(!sees_stuck(cell(), sliced(6, 2, RACK, 6)), "no rack takes six");
}

#[test]
fn a_reason_that_is_not_true_is_seen() {
    let mut history = cell();
    history.job(0, gang(9, 2, |_| {}));
    let told = |misses: &[(Why, u32)]| Reason {
        group: GroupIndex(0),
        beside: Vec::new(),
        text: "no room".into(),
        short: Some((8, 9)),
        total_nodes: 4,
        open_nodes: 4 - misses.iter().map(|(_, nodes)| nodes).sum::<u32>(),
        misses: misses.to_vec(),
        quota: None,
        kept_back: None,
    };
    let good = told(&[]);
    let job = JobId::new(0, 0);
    assert_eq!(history.oracle.judge_reason(job, &good), None);
    for wrong in [
        Reason { text: " ".into(), ..good.clone() },
        Reason { short: Some((9, 9)), ..good.clone() },
        Reason { total_nodes: 5, ..good.clone() },
        Reason { open_nodes: 3, ..good },
        told(&[(Why::Closed, 1)]),
        told(&[(Why::Class, 2)]),
        told(&[(Why::Resource("cpu".into()), 4)]),
    ] {
        assert!(history.oracle.judge_reason(job, &wrong).is_some(), "{wrong:?}");
    }
}

#[test]
fn what_a_queue_keeps_makes_up_for_a_cohort_that_was_cut() {
    let cut_to = |cpu: i64| {
        let mut history = cell();
        let all = QueueSpec { is_cohort: true, ..queue("all", "", 4000, 0) };
        history.put(all.clone()).put(queue("red", "all", 3000, 3000)).put(queue("blue", "all", 0, 0));
        let of_queue = |name: &str, count| gang(count, 4, |job| job.queue = name.into());
        history.job(0, of_queue("blue", 4)).happened(vec![placed(0, 0, 4, 0)]);
        history.put(QueueSpec { nominal: [("cpu".to_string(), cpu)].into(), ..all });
        move |count| (history, of_queue("red", count))
    };
    let sees = |(history, spec)| sees_stuck(history, spec);
    assert!(sees(cut_to(4000)(3)), "red keeps three, and blue uses what is there for it");
    assert!(sees(cut_to(3000)(2)));
    assert!(!sees(cut_to(3000)(3)), "one of the three makes up for what blue uses too much");
    assert!(!sees(cut_to(1000)(1)));
}

#[test]
fn so_is_one_of_an_operators_class() {
    let urgent: Class = "urgent".parse().expect("a name");
    let mut history = cell();
    let profile =
        ohm_model::SchedulingProfile { class: urgent, ..ohm_model::SchedulingProfile::built_in(Class::BATCH) };
    history.entry(Command::PutSchedulingProfile(Box::new(profile)), Outcome::Done, Vec::new());
    assert!(sees_stuck(history, gang(4, 2, |job| job.class = urgent)));
}

/// A gang of three of which one stands in rack r1 and two have lost their nodes in r0, where nothing is free any more.
fn hurt(policy: RepairPolicy) -> History {
    let mut history = cell();
    let levels = ["zone", RACK].map(String::from).to_vec();
    history.entry(Command::PutTopology(TopologySpec { name: "default".into(), levels }), Outcome::Done, Vec::new());
    for (number, rack) in ["r0", "r0", "r1", "r1"].into_iter().enumerate() {
        history.node(number as u32, node(&format!("n{number}"), &[(RACK, rack), ("zone", "z")]));
    }
    let repair = RepairSpec { policy, widen_to: "zone".into(), ..RepairSpec::default() };
    history.job(0, gang(2, 1, |job| job.repair = repair)).happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]);
    let cordoned = EventKind::NodeCordoned { node: NodeId(1), name: "n1".into(), cordoned: true };
    history.happened(vec![ended(0, 1, 1, Exit::NodeLost), cordoned]);
    history
}

#[test]
fn so_is_a_repair_that_may_leave_its_domain() {
    assert!(hurt(RepairPolicy::Wait).oracle.stuck_jobs().is_empty(), "its rack is full");
    assert_eq!(hurt(RepairPolicy::Widen).oracle.stuck_jobs().len(), 1);
    let mut again = hurt(RepairPolicy::Widen);
    again.happened(vec![placed(0, 1, 1, 2)]);
    assert!(again.oracle.stuck_jobs().is_empty(), "it is whole");
    again.happened(vec![ended(0, 0, 0, Exit::NodeLost)]);
    assert_eq!(again.oracle.stuck_jobs().len(), 1, "it goes on in the wider domain");
}

#[test]
fn so_is_one_that_has_to_leave_an_ailing_node() {
    let ails = |tolerates: bool| {
        let tolerations = vec![ohm_model::Toleration {
            toleration_seconds: None,
            key: "node.ohm/disk-pressure".into(),
            operator: ohm_model::selector::TolerationOperator::Exists,
            value: String::new(),
            effect: None,
        }];
        let mut history = cell();
        history.job(0, gang(2, 2, |job| job.groups[0].tolerations = if tolerates { tolerations } else { Vec::new() }));
        let (condition, action) = (ohm_model::ConditionKind::DiskPressure, Some(ohm_model::ConditionAction::Drain));
        let (node, name, message) = (NodeId(0), "n0".to_string(), String::new());
        history.happened(vec![placed(0, 0, 2, 0)]);
        history.happened(vec![EventKind::NodeCondition { node, name, condition, action, message }]);
        history.oracle.stuck_jobs().len()
    };
    assert_eq!(ails(false), 1);
    assert_eq!(ails(true), 0, "it may stay");
}

#[test]
fn what_its_queue_would_not_take_again_does_not_move() {
    let leaves = |cpu: i64| {
        let mut history = cell();
        history.put(queue("red", "", 4000, 0)).job(0, gang(2, 2, |job| job.queue = "red".into()));
        history.happened(vec![placed(0, 0, 2, 0)]).put(queue("red", "", cpu, 0));
        let (node, name) = (NodeId(0), "n0".to_string());
        history.happened(vec![EventKind::NodeDraining { node, name, runs: 2, deadline_ms: 0 }]);
        history.oracle.stuck_jobs().len()
    };
    assert_eq!(leaves(4000), 1);
    assert_eq!(leaves(3000), 0, "its quota was cut below what runs");
}

#[test]
fn so_is_one_that_was_updated_since_it_started() {
    let sized = |count: u32| gang(count, 2, |job| job.groups[0].min_count = 1);
    let updated = |count: u32| {
        let mut history = cell();
        history.job(0, sized(4)).happened(vec![placed(0, 0, 2, 0)]);
        assert!(history.oracle.stuck_jobs().is_empty(), "it started with two and leaves the others out");
        history.update(0, sized(count), Vec::new());
        history.oracle.stuck_jobs().len()
    };
    assert_eq!(updated(4), 0, "nothing is new");
    assert_eq!(updated(5), 1, "those that it left out are asked for again");
    assert_eq!(updated(2), 0);
}

#[test]
fn a_claim_keeps_what_it_is_for_and_no_more() {
    let mut history = cell();
    history.job(0, gang(9, 2, |_| {}));
    let row = |node| claim(0, node, Purpose::Preemptor { expires_ms: 60_000 });
    history.commit(vec![row(0), row(1), row(2), row(3)]);
    assert!(!sees_stuck(history, gang(1, 1, |_| {})), "no node is free as a whole");
    let mut history = cell();
    history.job(0, gang(9, 2, |_| {})).commit(vec![row(0), row(1), row(2), row(3)]);
    assert!(sees_stuck(history, gang(2, 2, |_| {})), "half of each is");
}

/// What a job is told that lacks quota.
pub(super) fn short_quota(resource: &str, asked: i64, available: i64) -> Reason {
    let quota = Some(ShortQuota { resource: resource.into(), asked, available, ceded: 0 });
    Reason { quota, ..told_nothing() }
}

/// What a job is told of which no more is said.
pub(super) fn told_nothing() -> Reason {
    Reason {
        group: GroupIndex(0),
        beside: Vec::new(),
        text: "it waits".into(),
        short: None,
        total_nodes: 0,
        open_nodes: 0,
        misses: Vec::new(),
        quota: None,
        kept_back: None,
    }
}

#[test]
fn a_figure_of_a_quota_that_is_not_true_is_seen() {
    let mut history = cell();
    let of_queue = |count| gang(count, 4, |job| job.queue = "red".into());
    history.put(queue("red", "", 5000, 0)).job(0, of_queue(3)).happened(vec![placed(0, 0, 3, 0)]);
    history.job(1, of_queue(4));
    let told = |asked: i64, available: i64| {
        history.oracle.judge_reason(JobId::new(1, 0), &short_quota("cpu", asked, available)).is_some()
    };
    assert!(!told(4000, 2000));
    assert!(told(4000, 1000), "more is left");
    assert!(told(4000, 3000), "less is left");
    assert!(told(1000, 2000), "so much is left");
}

#[test]
fn a_node_that_lacks_a_level_is_outside_the_topology() {
    let with = |labels: &[(&str, &str)]| {
        let mut history = cell();
        let levels = ["zone", RACK].map(String::from).to_vec();
        history.entry(Command::PutTopology(TopologySpec { name: "default".into(), levels }), Outcome::Done, Vec::new());
        history.node(4, node("n4", labels));
        sees_stuck(history, gang(1, 1, |job| job.groups[0].topology.level = "zone".into()))
    };
    assert!(with(&[("zone", "z"), (RACK, "r0")]));
    assert!(!with(&[("zone", "z")]), "it has no rack");
}

#[test]
fn devices_are_shared() {
    const GPU: &str = "example.com/gpu";
    let with = |devices: i64, shares: &[i64], asked: i64| {
        let mut history = History::default();
        let mut spec = node("n", &[]);
        spec.capacity.insert(GPU.into(), devices * 1000);
        history.node(0, spec);
        let of =
            |name: &str, amount: i64| job(name, 1, |job| job.groups[0].requests = [(GPU.to_string(), amount)].into());
        for (number, share) in shares.iter().enumerate() {
            history.job(number as u32, of("a", *share)).happened(vec![placed(number as u32, 0, 1, 0)]);
        }
        sees_stuck(history, of("j", asked))
    };
    assert!(with(1, &[300, 200], 500), "both share the one device");
    assert!(!with(1, &[300, 200], 501));
    assert!(with(2, &[300, 200], 700), "at most one has less left");
    assert!(!with(2, &[300, 200], 1000), "each may be on a device of its own");
    assert!(with(3, &[300, 200], 1000));
    assert!(!with(2, &[2000], 100));
}

#[test]
fn what_is_held_for_less_important_work_is_no_hindrance() {
    let with = |priority: i32, purpose: Purpose| {
        let mut history = cell();
        history.job(0, gang(9, 1, |_| {}));
        history.commit((0..4).map(|node| claim(0, node, purpose)).collect());
        sees_stuck(history, gang(1, 1, |job| job.priority = priority))
    };
    let preemptor = Purpose::Preemptor { expires_ms: 60_000 };
    assert!(with(1, preemptor));
    assert!(!with(0, preemptor));
    assert!(!with(1, Purpose::Move), "that is nobody else's");
}

#[test]
fn room_for_what_moves_is_kept_while_anything_of_its_job_stops_however_long() {
    let with = |ends: &[u32]| {
        let mut history = cell();
        history.job(0, gang(2, 2, |_| {})).happened(vec![placed(0, 0, 2, 0)]);
        history.commit((0..4).map(|node| claim(0, node, Purpose::Move)).collect());
        history.happened((0..2).map(|task| stopping(0, task, 0, StopCause::Drained)).collect());
        history.happened(ends.iter().map(|task| ended(0, *task, 0, Exit::Signal(15))).collect());
        history.index += 86_400;
        history.job(9, gang(1, 1, |_| {}));
        history.oracle.stuck_jobs().iter().any(|stuck| stuck.job == JobId::new(9, 0))
    };
    assert!(!with(&[]));
    assert!(!with(&[0]), "the other one stops");
    assert!(with(&[0, 1]), "it is over after a while");
}

#[test]
fn so_is_one_of_which_a_task_stops() {
    let with = |stops: &[u32]| {
        let mut history = cell();
        history.job(0, gang(3, 1, |job| job.groups[0].topology = TopologyRequest::default()));
        let kinds = [placed(0, 0, 1, 0), placed(0, 1, 1, 1), placed(0, 2, 1, 2), ended(0, 2, 2, Exit::NodeLost)];
        history.happened(kinds.to_vec());
        history.happened(stops.iter().map(|task| stopping(0, *task, *task, StopCause::Drained)).collect());
        history.oracle.stuck_jobs().len()
    };
    assert_eq!(with(&[]), 1);
    assert_eq!(with(&[0]), 1);
    assert_eq!(with(&[0, 1]), 0, "it starts anew once all of it has ended");
}

#[test]
fn so_is_one_whose_checks_are_not_asked() {
    let with = |cpu: i64, reserved: bool, checks: &[&str]| {
        let mut history = cell();
        history.put(queue("red", "", 4000, 0)).job(0, gang(2, 1, |job| job.queue = "red".into()));
        if reserved {
            history.reserve(0);
        }
        let class = ohm_model::ProvisioningClass::of("spot", ohm_model::Provisioner::Sim);
        history.entry(Command::PutProvisioningClass(class), Outcome::Done, Vec::new());
        let checks = checks.iter().map(|check| ohm_model::AdmissionCheck::of(*check)).collect();
        history.put(QueueSpec { admission_checks: checks, ..queue("red", "", cpu, 0) });
        history.oracle.stuck_jobs().len()
    };
    assert_eq!(with(8000, false, &["spot"]), 1, "its quota is there");
    assert_eq!(with(4000, false, &["spot"]), 0);
    assert_eq!(with(4000, true, &["spot"]), 1, "its quota is reserved");
    assert_eq!(with(8000, false, &["other"]), 0, "nobody knows the check");
}

#[test]
fn a_round_may_be_over_when_a_task_left_and_none_runs() {
    let with = |entries: &[&[u32]]| {
        let mut history = cell();
        let class = ohm_model::ProvisioningClass::of("spot", ohm_model::Provisioner::Sim);
        history.entry(Command::PutProvisioningClass(class), Outcome::Done, Vec::new());
        let checks = vec!["spot".to_string()];
        let admission_checks = checks.iter().map(ohm_model::AdmissionCheck::of).collect();
        history.put(QueueSpec { admission_checks, ..queue("red", "", 8000, 0) });
        history.job(0, job("j", 3, |job| job.queue = "red".into()));
        let (id, name) = (JobId::new(0, 0), "j".to_string());
        history.reserve(0).happened(vec![EventKind::QuotaReserved { job: id, name, round: 1, checks }]);
        let report =
            CheckReport::Ready { node_selector: Default::default(), tolerations: Vec::new(), message: String::new() };
        let command =
            Command::ReportCheck { epoch: Epoch(1), job: id, round: 1, class: "spot".into(), repair: 0, report };
        history.entry(command, Outcome::Done, Vec::new());
        history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1), placed(0, 2, 1, 2)]);
        history.happened(vec![stopping(0, 0, 0, StopCause::Drained), ended(0, 2, 2, Exit::Code(0))]);
        let left = || EventKind::Ended {
            job: id,
            group: 0,
            task: 0,
            incarnation: Incarnation(1),
            node: NodeId(0),
            exit: Exit::Code(0),
            cause: Some(StopCause::Drained),
        };
        let end = |task: &u32| if *task == 0 { left() } else { ended(0, *task, *task, Exit::Code(0)) };
        for tasks in entries {
            history.happened(tasks.iter().map(end).collect());
        }
        history.oracle.stuck_jobs().len()
    };
    assert_eq!(with(&[&[1], &[0]]), 0, "the task that left is the last one");
    assert_eq!(with(&[&[0, 1]]), 0, "another one ended in the same entry");
    assert_eq!(with(&[&[0], &[1]]), 1, "the job ran when the task left: its round goes on");
}
