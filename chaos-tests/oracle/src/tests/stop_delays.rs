//! P7 of delays of stops.

use super::*;

const JOB: u32 = 0;

/// A ready task of a service that is left running for 3 s, and this happens to it, an entry every second: whether it
/// got its signal too early. Others judge why it is stopped.
fn check(entries: &[&[EventKind]], is_early: bool) {
    let mut history = History::default();
    history.node(0, node("a", &[])).job(JOB, {
        job("web", 1, |job| {
            job.class = Class::SERVICE;
            job.groups[0].task.stop_delay_ms = 3_000;
        })
    });
    let (job, incarnation, node) = (JobId::new(JOB, 0), Incarnation(1), NodeId(0));
    history.happened(vec![placed(JOB, 0, 1, 0)]);
    history.happened(vec![EventKind::Started { job, group: 0, task: 0, incarnation, node }]);
    for kinds in entries {
        history.happened(kinds.to_vec());
    }
    history.oracle.finish();
    let early = history.oracle.broken().iter().filter(|broken| broken.what.contains("got its signal"));
    assert_eq!(
        early.map(|broken| broken.promise).collect::<Vec<_>>(),
        vec!["P7"; usize::from(is_early)],
        "{entries:?}"
    );
}

#[test]
fn p7_sees_who_gets_its_signal_too_early() {
    let told = stopping(JOB, 0, 0, StopCause::Drained);
    let gone = |exit| [ended(JOB, 0, 0, exit)];
    check(&[std::slice::from_ref(&told), &[], &gone(Exit::Signal(15))], true);
    check(&[std::slice::from_ref(&told), &[], &[], &gone(Exit::Signal(15))], false);
    // Who ends by itself, or is lost, is nobody's fault.
    check(&[std::slice::from_ref(&told), &gone(Exit::Code(0))], false);
    check(&[std::slice::from_ref(&told), &gone(Exit::LeaseExpired)], false);
    // Nobody waits for whose time is over.
    check(&[&[stopping(JOB, 0, 0, StopCause::DeadlineExceeded)], &gone(Exit::Signal(15))], false);
}
