//! P6 of checks that are for some flavors: who has to have them, and who is not kept waiting for them.

use super::flavors::{has, queued, with_checks};
use super::{History, placed};
use ohm_model::{AdmissionCheck, CheckReport, Command, Epoch, EventKind, JobId, Outcome};

/// Job `j` of a queue that asks `bring` for flavor `spot`; node 0 is of that flavor, node 1 of `od`.
fn history() -> History {
    let mut history = with_checks(vec![AdmissionCheck { name: "bring".into(), on_flavors: vec!["spot".into()] }]);
    history.job(0, queued("j"));
    history
}

fn asks(checks: &[&str]) -> EventKind {
    let checks = checks.iter().map(ToString::to_string).collect();
    EventKind::QuotaReserved { job: JobId::new(0, 0), name: "j".into(), round: 1, checks }
}

fn ready(history: &mut History) {
    let (epoch, job, class) = (Epoch(1), JobId::new(0, 0), "bring".to_string());
    let report =
        CheckReport::Ready { node_selector: Default::default(), tolerations: Vec::new(), message: String::new() };
    history.entry(Command::ReportCheck { epoch, job, round: 1, class, repair: 0, report }, Outcome::Done, Vec::new());
}

#[test]
fn who_has_the_flavor_is_not_placed_before_its_check_is_ready() {
    let spot = || has(0, &[("cpu", "spot")]);
    assert_eq!(history().happened(vec![spot(), placed(0, 0, 1, 0)]).broken(), ["P6"], "nobody was asked");
    let mut asked = history();
    asked.happened(vec![spot(), asks(&["bring"])]);
    assert_eq!(asked.happened(vec![placed(0, 0, 1, 0)]).broken(), ["P6"], "nobody has answered");
    let mut answered = history();
    answered.happened(vec![spot(), asks(&["bring"])]);
    ready(&mut answered);
    assert!(answered.happened(vec![placed(0, 0, 1, 0)]).broken().is_empty());
}

#[test]
fn who_has_another_flavor_is_placed_without() {
    let mut other = history();
    assert!(other.happened(vec![has(0, &[("cpu", "od")]), placed(0, 0, 1, 1)]).broken().is_empty());
}

#[test]
fn a_round_asks_the_checks_of_the_flavors_and_no_others() {
    let asked = |flavor: &str, checks: &[&str]| {
        let mut history = history();
        history.happened(vec![has(0, &[("cpu", flavor)]), asks(checks)]).broken()
    };
    assert!(asked("spot", &["bring"]).is_empty());
    assert_eq!(asked("spot", &[]), ["P6"], "the check of its flavor is left out");
    assert_eq!(asked("od", &["bring"]), ["P6"], "it waits for a check that does not concern it");
}
