//! Jobs that are forgotten, and counts that change.

use super::*;

#[test]
fn p3_sees_a_job_forgotten_before_it_is_over() {
    for (state, expected) in [(Some("succeeded"), 0), (Some("suspended"), 1), (None, 1)] {
        let mut history = History::default();
        history.job(0, job("j", 1, |job| job.ttl_seconds_after_finished = 1));
        let over = |state: &str| EventKind::JobState {
            job: JobId::new(0, 0),
            name: "j".into(),
            state: state.into(),
            reason: String::new(),
        };
        history.happened(state.map(over).into_iter().collect());
        history.happened(vec![EventKind::JobForgotten { name: "j".into() }]);
        assert_eq!(history.broken().len(), expected, "{state:?}");
    }
}

#[test]
fn p6_sees_tasks_beyond_the_count() {
    let shrunk = |stops: bool| {
        let mut history = History::default();
        history.node(0, node("a", &[])).job(0, job("j", 3, |_| {})).happened(vec![placed(0, 0, 3, 0)]);
        let stops = if stops { vec![stopping(0, 2, 0, StopCause::ScaledDown)] } else { Vec::new() };
        history.update(0, job("j", 2, |_| {}), stops);
        history
    };
    assert!(shrunk(true).broken().is_empty());
    assert_eq!(shrunk(false).broken(), ["P6", "P6"], "at once, and in the end");
    let mut again = shrunk(true);
    again.happened(vec![ended(0, 2, 0, Exit::Signal(15)), placed(0, 2, 1, 0)]);
    assert_eq!(again.broken(), ["P6", "P6"], "placed beyond the count, and there in the end");
    let mut grown = shrunk(true);
    grown.happened(vec![ended(0, 2, 0, Exit::Signal(15))]).update(0, job("j", 4, |_| {}), Vec::new());
    assert!(grown.happened(vec![placed(0, 2, 2, 0)]).broken().is_empty());
}

#[test]
fn p6_sees_a_success_that_is_placed_again() {
    let mut history = History::default();
    history.node(0, node("a", &[])).job(0, job("j", 3, |_| {})).happened(vec![placed(0, 0, 3, 0)]);
    history.happened(vec![ended(0, 1, 0, Exit::Code(0)), ended(0, 2, 0, Exit::Code(1)), placed(0, 2, 1, 0)]);
    assert!(history.broken().is_empty());
    history.update(0, job("j", 4, |_| {}), Vec::new()).happened(vec![placed(0, 1, 1, 0)]);
    assert_eq!(history.broken(), ["P6"]);
}
