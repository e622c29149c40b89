//! Nodes that repairs ask for.

use super::*;
use ohm_model::{CheckReport, QueueSpec, RequestChange};

/// A job of four tasks on node 0, admitted in a queue with a check; two of them are lost.
fn lost(provision: bool) -> History {
    let mut history = History::default();
    let queue = QueueSpec {
        name: "q".into(),
        is_cohort: false,
        parent: String::new(),
        nominal: Default::default(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        weight_milli: 1000,
        admission_checks: vec!["spot".into()],
    };
    history.entry(Command::PutQueue(queue), Outcome::Done, Vec::new());
    let spec = job("j", 4, |job| {
        job.queue = "q".into();
        job.repair.provision = provision;
    });
    history.node(0, node("a", &[])).job(0, spec);
    let (job, name, checks) = (JobId::new(0, 0), "j".to_string(), vec!["spot".to_string()]);
    history.happened(vec![EventKind::QuotaReserved { job, name, round: 1, checks }]);
    let (node_selector, tolerations, message) = Default::default();
    let report = CheckReport::Ready { node_selector, tolerations, message };
    let (epoch, class) = (ohm_model::Epoch(1), "spot".to_string());
    let ready = Command::ReportCheck { epoch, job, round: 1, class, repair: 0, report };
    history.entry(ready, Outcome::Done, Vec::new());
    history.happened(vec![placed(0, 0, 4, 0)]);
    history.happened([2, 3].map(|task| ended(0, task, 0, Exit::NodeLost)).to_vec());
    history
}

fn request(state: &str, tasks: u32) -> EventKind {
    let (class, state, message) = ("spot".to_string(), state.to_string(), String::new());
    let change = RequestChange { class, number: 1, attempt: 1, state, tasks, message, wait_ms: 0 };
    EventKind::RepairRequest { job: JobId::new(0, 0), name: "j".into(), change }
}

fn claimed() -> EventKind {
    EventKind::RoomClaimed { job: JobId::new(0, 0), name: "j".into(), group: 0, tasks: 2 }
}

fn judged(provision: bool, events: Vec<EventKind>) -> Vec<&'static str> {
    lost(provision).happened(events).broken()
}

#[test]
fn p8_sees_nodes_asked_for_that_nobody_needs() {
    assert!(judged(true, vec![claimed(), request("asked", 2)]).is_empty());
    assert_eq!(judged(false, vec![claimed(), request("asked", 2)]), ["P8"], "the job does not want it");
    assert_eq!(judged(true, vec![request("asked", 3)]), ["P8", "P8"], "two of four stand, and two were lost");
    assert_eq!(judged(true, vec![request("asked", 2), request("asked", 1)]), ["P8"], "asked twice");
    let again = vec![request("asked", 2), request("retry", 2), request("asked", 2)];
    assert!(judged(true, again).is_empty(), "who was asked had none");
}

#[test]
fn p8_sees_a_repair_without_room_that_asks_nobody() {
    assert_eq!(judged(true, vec![claimed()]), ["P8"]);
    assert!(judged(false, vec![claimed()]).is_empty(), "the job does not want it");
    let (job, name) = (JobId::new(0, 0), "j".to_string());
    let given = EventKind::RoomEarmarked { job, name, group: 0, node: NodeId(0), count: 2 };
    assert!(judged(true, vec![claimed(), given]).is_empty(), "there is room");
}
