//! P7 and P10 for room that is owed to waiting repairs: new work keeps off it, and it is no lock.

use super::*;
use ohm_model::{
    Claim, Epoch, Grain, GroupIndex, JobGuard, Nomination, Placement, PreemptionNeed, PreemptionReason, Purpose,
    ResourceFlavor, RunRef, Shard, TaskIndex, Transaction, Verdict, Victim,
};

pub(super) fn nothing() -> Transaction {
    Transaction::empty(Shard { class: Class::TAS, number: 0 }, Epoch(1), Index(0), Grain::PerTask)
}

fn lost(node: u32) -> EventKind {
    EventKind::NodeHealth { node: NodeId(node), name: format!("n{node}"), health: NodeHealth::Lost }
}

fn earmarked(job: u32, node: u32, count: u32) -> EventKind {
    EventKind::RoomEarmarked { job: JobId::new(job, 0), name: "gang".into(), group: 0, node: NodeId(node), count }
}

fn gone(job: u32, node: u32, count: u32) -> EventKind {
    let (name, reason) = ("gang".into(), "used".into());
    EventKind::EarmarkGone { job: JobId::new(job, 0), name, group: 0, node: NodeId(node), count, reason }
}

impl History {
    /// Says that this is committed, and what came of it.
    pub(super) fn committed(&mut self, transaction: Transaction, kinds: Vec<EventKind>) -> &mut Self {
        self.entry(Command::Commit(transaction), Outcome::Verdict(Verdict::default()), kinds)
    }

    fn claims(&mut self, job: u32) -> &mut Self {
        let claim = vec![Claim { job: JobId::new(job, 0), group: GroupIndex(0) }];
        self.committed(Transaction { claim, ..nothing() }, Vec::new())
    }

    pub(super) fn places(&mut self, job: u32, first: u32, node: u32) -> &mut Self {
        let place = vec![one_task(job, first, node)];
        self.committed(Transaction { place, ..nothing() }, vec![placed(job, first, 1, node)])
    }
}

pub(super) fn one_task(job: u32, first: u32, node: u32) -> Placement {
    let (job, group, node) = (JobId::new(job, 0), GroupIndex(0), NodeId(node));
    Placement { job, group, first: TaskIndex(first), count: 1, node, class: Default::default(), devices: Vec::new() }
}

/// A gang of priority 1 lost a node, and what is promised on it to job 1, whose tasks are small and of priority 0, was
/// promised before it claimed room; so much of the gang stopped for that.
fn promised(victims: Vec<Victim>) -> History {
    let purpose = Purpose::Preemptor { expires_ms: 60_000 };
    let (job, group, first) = (JobId::new(1, 0), GroupIndex(0), TaskIndex(0));
    let nominate = vec![Nomination { job, group, node: NodeId(1), first, count: 1, purpose }];
    let jobs = vec![JobGuard { job, version: Index(1), reserved: false }];
    let mut history = waiting(|job| job.priority = 1, false);
    history.committed(Transaction { jobs, preempt: victims, nominate, ..nothing() }, Vec::new()).claims(0);
    history
}

#[test]
fn what_stopped_for_others_is_not_owed_their_room() {
    assert_eq!(promised(Vec::new()).places(1, 0, 1).broken(), ["P7"], "it is less important");
    let (need, reason) = (PreemptionNeed::Room, PreemptionReason::InCohortReclamation);
    let gang = Victim { job: JobId::new(0, 0), need, reason, runs: vec![RunRef::new(JobId::new(0, 0), 0, 0, 1)] };
    assert!(promised(vec![gang]).places(1, 0, 1).broken().is_empty(), "it took that from the gang itself");
}

/// A gang of two whole nodes has lost one of them, which is back; job 1 is new, and its tasks are small.
fn waiting(change: impl FnOnce(&mut JobSpec), claims: bool) -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[])).node(1, node("n1", &[]));
    let gang = job("gang", 2, |job| {
        job.groups[0].requests = [("cpu".to_string(), 4000)].into();
        job.repair = RepairSpec { policy: RepairPolicy::Wait, ..RepairSpec::default() };
        change(job);
    });
    history.job(0, gang).job(1, job("new", 4, |_| {}));
    history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]);
    history.happened(vec![lost(1), ended(0, 1, 1, Exit::NodeLost)]);
    if claims {
        history.claims(0);
    }
    history.node(1, node("n1", &[]));
    history
}

#[test]
fn new_work_keeps_off_what_a_repair_claims() {
    assert_eq!(waiting(|_| {}, true).places(1, 0, 1).broken(), ["P7"]);
    assert!(waiting(|_| {}, true).places(0, 1, 1).broken().is_empty(), "it is its own");
    assert!(waiting(|_| {}, false).places(1, 0, 1).broken().is_empty(), "nobody claims it");
    let more = |history: &mut History| history.node(2, node("n2", &[])).places(1, 0, 1).broken();
    assert!(more(&mut waiting(|_| {}, true)).is_empty(), "there is enough for both");
    let mut kept = waiting(|_| {}, true);
    kept.happened(vec![earmarked(0, 1, 1)]);
    assert!(kept.places(1, 0, 1).broken().is_empty(), "the room stays kept beside it");
    let mut over = waiting(|job| job.repair.timeout_seconds = 1, true);
    over.happened(Vec::new()).happened(Vec::new());
    assert!(over.places(1, 0, 1).broken().is_empty(), "its time is over");
    let mut closed = waiting(|_| {}, true);
    closed.happened(vec![state(0, "suspended")]);
    assert!(closed.places(1, 0, 1).broken().is_empty(), "nothing of it is placed any more");
    let mut resumed = waiting(|_| {}, true);
    resumed.happened(vec![state(0, "suspended")]).happened(vec![state(0, "running")]).claims(0);
    assert!(resumed.places(1, 0, 1).broken().is_empty(), "what it lost before is begun anew, not repaired");
}

#[test]
fn what_was_lost_while_the_rest_was_to_stop_may_start_anew() {
    let after = |stops: bool| {
        let mut history = History::default();
        (0..3).for_each(|number| _ = history.node(number, node(&format!("n{number}"), &[])));
        let gang = job("gang", 3, |job| job.groups[0].requests = [("cpu".to_string(), 4000)].into());
        history.job(0, gang).job(1, job("new", 4, |_| {}));
        history.happened(vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)]);
        if stops {
            history.happened(vec![stopping(0, 0, 0, StopCause::NodeShrunk)]);
        }
        history.happened(vec![ended(0, 1, 1, Exit::NodeLost), placed(0, 2, 1, 2)]);
        history.happened(vec![ended(0, 0, 0, Exit::NodeLost)]).claims(0);
        history.places(1, 0, 1).broken()
    };
    assert_eq!(after(false), ["P7"]);
    assert_eq!(after(true), [""; 0]);
}

#[test]
fn no_room_is_owed_where_a_flavor_does_not_lead() {
    let after_flavor = |label: &str| {
        let mut history = waiting(|_| {}, true);
        let node_labels = [("kubernetes.io/hostname".to_string(), label.to_string())].into();
        let flavor = ResourceFlavor { name: "gold".into(), node_labels, ..ResourceFlavor::default() };
        history.happened(vec![super::flavors::has(0, &[("cpu", "gold")])]);
        history.entry(Command::PutResourceFlavor(Box::new(flavor)), Outcome::Done, Vec::new());
        history.places(1, 0, 1).broken()
    };
    assert!(after_flavor("n0").is_empty(), "the gang may not go there from now on");
    assert_eq!(after_flavor("n1"), ["P7"]);
}

#[test]
fn nothing_is_owed_to_what_backs_off() {
    let after = |seconds: u64| {
        let mut history = History::default();
        history.node(0, node("n0", &[])).node(1, node("n1", &[]));
        let gang = job("gang", 2, |job| {
            job.groups[0].requests = [("cpu".to_string(), 4000)].into();
            job.repair = RepairSpec { policy: RepairPolicy::Wait, ..RepairSpec::default() };
        });
        history.job(0, gang).job(1, job("new", 4, |_| {}));
        history.happened(vec![placed(0, 0, 1, 0)]);
        for back_off in [1, 2, 0] {
            history.happened(vec![placed(0, 1, 1, 1), ended(0, 1, 1, Exit::LeaseExpired)]);
            (0..back_off).for_each(|_| _ = history.happened(Vec::new()));
        }
        history.claims(0);
        (0..seconds).for_each(|_| _ = history.happened(Vec::new()));
        history.places(1, 0, 1).broken()
    };
    assert!(after(0).is_empty());
    assert_eq!(after(400), ["P7"]);
}

#[test]
fn room_that_is_kept_for_a_repair_is_no_lock() {
    assert!(waiting(|_| {}, true).happened(vec![earmarked(0, 1, 1)]).broken().is_empty());
    assert_eq!(waiting(|_| {}, true).happened(vec![earmarked(0, 1, 2)]).broken(), ["P10"], "it lacks one");
    let mut kept = waiting(|_| {}, true);
    kept.happened(vec![earmarked(0, 1, 1)]);
    assert_eq!(kept.places(0, 1, 1).broken(), ["P10"], "it lacks none");
    let mut used = waiting(|_| {}, true);
    used.happened(vec![earmarked(0, 1, 1)]).happened(vec![placed(0, 1, 1, 1), gone(0, 1, 1)]);
    assert!(used.broken().is_empty());
    let mut again = waiting(|_| {}, true);
    let (id, incarnation, cause) = (JobId::new(0, 0), Incarnation(1), Some(StopCause::Restarted));
    let (task, node, exit) = (0, NodeId(0), Exit::NeverStarted);
    let restarted = EventKind::Ended { job: id, group: 0, task, incarnation, node, exit, cause };
    again.happened(vec![earmarked(0, 1, 1)]).happened(vec![restarted, placed(0, 0, 1, 0)]);
    assert!(!again.broken().contains(&"P10"), "the other one starts again in place: it still lacks one");
    let mut for_ever = waiting(|job| job.repair.timeout_seconds = 1, true);
    for_ever.happened(vec![earmarked(0, 1, 1)]);
    (0..8).for_each(|_| drop(for_ever.happened(Vec::new()).broken()));
    assert_eq!(for_ever.broken(), ["P10"], "once");
}
