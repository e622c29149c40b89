//! Nodes that repairs ask for.

use super::nodes::admitted;
use super::*;
use ohm_model::RequestChange;

/// A job of four tasks on node 0, admitted in a queue with a check; two of them are lost.
fn lost(provision: bool) -> History {
    let spec = job("j", 4, |job| {
        job.queue = "q".into();
        job.repair.provision = provision;
    });
    let mut history = admitted(spec, &[]);
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
    let stops = [0, 1].map(|task| stopping(0, task, 0, StopCause::QueueHeld)).to_vec();
    assert!(judged(true, [stops, vec![claimed()]].concat()).is_empty(), "all of it stops");
}
