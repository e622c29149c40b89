//! P8 of queues that bound how many jobs wait.

use super::*;
use ohm_model::Refusal;

/// A queue in which two jobs may wait, and so many do; one more stands.
fn crowd(waiting: u32) -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[])).put(QueueSpec { name: "q".into(), max_waiting_jobs: 2, ..QueueSpec::default() });
    history.job(9, in_queue(9)).happened(vec![placed(9, 0, 1, 0)]);
    (0..waiting).for_each(|job| _ = history.job(job, in_queue(job)));
    history
}

fn in_queue(number: u32) -> JobSpec {
    job(&format!("j{number}"), 1, |job| job.queue = "q".into())
}

fn refuses(history: &mut History, waiting: u32, limit: u32) -> Vec<&'static str> {
    let refusal = Refusal::QueueFull { queue: "q".into(), waiting, limit };
    let command = Command::SubmitJobs { jobs: vec![in_queue(7)] };
    history.entry(command, Outcome::Jobs(vec![JobOutcome::Refused(refusal)]), Vec::new()).broken()
}

#[test]
fn no_more_wait_than_may() {
    assert!(crowd(2).broken().is_empty());
    assert_eq!(crowd(3).broken(), ["P8"]);
    let mut over = crowd(2);
    assert!(over.happened(vec![state(0, "cancelled")]).job(3, in_queue(3)).broken().is_empty());
    let mut again = crowd(2);
    assert!(again.happened(vec![ended(9, 0, 0, Exit::NodeLost)]).broken().is_empty(), "it was there before");
    assert_eq!(again.job(3, in_queue(3)).broken(), ["P8"]);
    let comes = |number: u32| {
        let mut history = crowd(number);
        history.job(5, job("j5", 1, |_| {})).update(5, job("j5", 1, |job| job.queue = "q".into()), Vec::new());
        history.broken().len()
    };
    assert_eq!([comes(1), comes(2)], [0, 1]);
}

#[test]
fn nobody_is_refused_while_there_is_room() {
    assert!(refuses(&mut crowd(2), 2, 2).is_empty());
    assert_eq!(refuses(&mut crowd(1), 2, 2), ["P8"], "one waits");
    assert_eq!(refuses(&mut crowd(2), 1, 2), ["P8"], "it says so itself");
    assert_eq!(refuses(&mut crowd(2), 3, 3), ["P8"], "the bound is another one");
}
