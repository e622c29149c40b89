//! What ends with the lease of its node.

use super::*;

#[test]
fn p7_sees_a_start_that_the_lease_is_about_to_end() {
    for (fence_in_ms, expected) in [(1, vec![]), (0, vec!["P7"])] {
        let mut history = History::default();
        let run = RunRef::new(JobId::new(0, 0), 0, 0, 1);
        history.oracle.watch(&Record::Began { at_ms: 5, node: "a".into(), run, keeps: false, fence_in_ms });
        assert_eq!(history.broken(), expected);
    }
}

#[test]
fn p7_sees_who_does_not_wait_after_a_lease_ended_it() {
    // One entry per second: the task is placed again after so many, each time it ended with a lease.
    let waits = |seconds: &[u64], exit: Exit| {
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 1, |_| {})).happened(vec![placed(0, 0, 1, 0)]);
        for seconds in seconds {
            history.happened(vec![ended(0, 0, 0, exit)]);
            for _ in 1..*seconds {
                history.happened(vec![]);
            }
            history.happened(vec![placed(0, 0, 1, 0)]);
        }
        history.broken()
    };
    let none: Vec<&str> = Vec::new();
    assert_eq!(waits(&[1, 2, 4, 8], Exit::LeaseExpired), none);
    assert_eq!(waits(&[1, 1], Exit::LeaseExpired), ["P7"]);
    assert_eq!(waits(&[1, 2, 3], Exit::LeaseExpired), ["P7"]);
    assert_eq!(waits(&[1, 1, 1], Exit::NodeLost), none);
}
