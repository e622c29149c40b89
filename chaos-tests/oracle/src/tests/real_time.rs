//! What ends when its time is over. One entry per second of real time.

use super::*;

fn deadline(job: u32) -> EventKind {
    let reason = "ran longer than activeDeadlineSeconds (20)".to_string();
    EventKind::JobState { job: JobId::new(job, 0), name: "j".into(), state: "failed".into(), reason }
}

/// A job with a deadline of 20 s that is kept for 60 s, and so many seconds after it came.
fn after(seconds: u64, clocks_moved: bool) -> History {
    let mut history = History::default();
    history.job(0, job("j", 1, |job| job.active_deadline_seconds = 20));
    if clocks_moved {
        history.oracle.watch(&Record::ClocksMoved { at_ms: 1_500 });
    }
    for _ in 1..seconds {
        history.happened(vec![]);
    }
    history
}

/// Breaks of promises that speak of real time.
fn early(mut history: History) -> usize {
    history.oracle.finish();
    history.oracle.broken().iter().filter(|broken| broken.what.contains("ms after it came")).count()
}

#[test]
fn p7_sees_a_deadline_that_comes_before_its_time() {
    for (seconds, moved, expected) in [(20, false, 0), (17, false, 0), (16, false, 1), (1, false, 1), (1, true, 0)] {
        let mut history = after(seconds, moved);
        history.happened(vec![deadline(0)]);
        assert_eq!(early(history), expected, "{seconds} s");
    }
}

#[test]
fn a_job_came_when_its_entry_was_stamped() {
    let late = |stamped: bool| {
        let mut history = after(1, false);
        (0..5).for_each(|_| drop(history.happened(vec![]).broken()));
        if stamped {
            // The next entry's stamp.
            history.oracle.watch(&Record::Stamped { at_ms: 1_000, stamp_ms: 7_000 });
        }
        history.job(1, job("k", 1, |job| job.active_deadline_seconds = 20));
        (0..14).for_each(|_| drop(history.happened(vec![]).broken()));
        history.happened(vec![deadline(1)]);
        early(history)
    };
    assert_eq!(late(false), 1);
    assert_eq!(late(true), 0, "it was six seconds on its way into the log");
}

#[test]
fn p7_sees_a_job_that_is_forgotten_before_its_time() {
    let forgotten = || EventKind::JobForgotten { name: "j".into() };
    for (seconds, expected) in [(60, 0), (20, 1)] {
        let mut history = after(seconds, false);
        history.happened(vec![state(0, "succeeded")]).happened(vec![forgotten()]);
        assert_eq!(early(history), expected, "{seconds} s");
    }
    let mut history = after(2, false);
    history.happened(vec![state(0, "succeeded")]);
    history.entry(Command::ForgetJob { name: "j".into() }, Outcome::Done, vec![forgotten()]);
    assert_eq!(early(history), 0, "somebody asked for it");
}
