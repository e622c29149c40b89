//! P7 of start deadlines. One entry per second.

use super::*;

/// A job that has 20 s to start, submitted in the first second.
fn timed(change: impl FnOnce(&mut JobSpec)) -> History {
    let mut history = History::default();
    let spec = job("j", 1, |job| {
        job.pending_timeout_seconds = 20;
        change(job);
    });
    history.job(0, spec).node(0, node("n0", &[]));
    history
}

impl History {
    /// Until this second, nothing happens.
    fn until(&mut self, second: u64) -> &mut Self {
        while self.index + 1 < second {
            self.happened(Vec::new());
        }
        self
    }

    /// The job fails by its start deadline in this second.
    fn fails_at(&mut self, second: u64) -> &mut Self {
        let reason = "StartDeadlineExceeded: waited longer than pendingTimeoutSeconds (20)".to_string();
        let failed = EventKind::JobState { job: JobId::new(0, 0), name: "j".into(), state: "failed".into(), reason };
        self.until(second).happened(vec![failed])
    }
}

#[test]
fn p7_sees_a_start_deadline_that_comes_early() {
    assert!(timed(|_| {}).fails_at(21).broken().is_empty());
    assert_eq!(timed(|_| {}).fails_at(20).broken(), ["P7"]);
    assert_eq!(timed(|job| job.pending_timeout_seconds = 0).fails_at(60).broken(), ["P7", "P7"], "it has none");
    let mut runs = timed(|_| {});
    assert_eq!(runs.happened(vec![placed(0, 0, 1, 0)]).fails_at(60).broken(), ["P7"], "it runs");
}

#[test]
fn each_wait_has_the_whole_time() {
    let lost = || {
        let mut history = timed(|_| {});
        history.until(10).happened(vec![placed(0, 0, 1, 0)]).happened(vec![ended(0, 0, 0, Exit::NodeLost)]);
        history
    };
    assert_eq!(lost().fails_at(30).broken(), ["P7"], "it ran 19 s ago");
    assert!(lost().fails_at(31).broken().is_empty());
    let resumed = |second: u64| {
        let mut history = timed(|job| job.suspended = true);
        history.until(15).happened(vec![state(0, "pending")]).fails_at(second).broken()
    };
    assert_eq!(resumed(34), ["P7"], "it was suspended before");
    assert!(resumed(35).is_empty());
}

#[test]
fn p7_sees_a_start_deadline_that_is_missed() {
    let late = |change: &dyn Fn(&mut JobSpec)| timed(|job| change(job)).until(34).broken();
    assert_eq!(late(&|_| {}), ["P7"]);
    assert!(timed(|_| {}).until(30).broken().is_empty(), "not by far");
    assert!(late(&|job| job.pending_timeout_seconds = 30).is_empty());
    assert!(late(&|job| job.suspended = true).is_empty());
    let mut runs = timed(|_| {});
    assert!(runs.happened(vec![placed(0, 0, 1, 0)]).until(60).broken().is_empty());
    for exit in [Exit::Code(1), Exit::NeverStarted, Exit::LeaseExpired] {
        let mut backs_off = timed(|_| {});
        backs_off.happened(vec![placed(0, 0, 1, 0)]).happened(vec![ended(0, 0, 0, exit)]);
        assert!(backs_off.until(36).broken().is_empty(), "it waited for its back-off first");
        assert_eq!(backs_off.until(37).broken(), ["P7"]);
    }
    let mut silent = timed(|_| {});
    silent.index += 600;
    assert!(silent.happened(Vec::new()).broken().is_empty(), "nobody wrote to the log");
}
