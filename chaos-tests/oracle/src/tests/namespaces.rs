//! P8 of namespaces.

use super::*;
use ohm_model::Namespace;
use std::collections::BTreeMap;

fn put(history: &mut History, name: &str) {
    let command = Command::PutNamespace(Namespace { name: name.into(), labels: BTreeMap::new() });
    history.entry(command, Outcome::Done, Vec::new());
}

fn remove(history: &mut History, name: &str) {
    history.entry(Command::RemoveNamespace { name: name.into() }, Outcome::Done, Vec::new());
}

fn forget(history: &mut History, name: &str) {
    let forgotten = vec![EventKind::JobForgotten { name: name.into() }];
    history.entry(Command::ForgetJob { name: name.into() }, Outcome::Done, forgotten);
}

fn cancelled(name: &str) -> EventKind {
    let (job, state) = (JobId::new(0, 0), "cancelled".into());
    EventKind::JobState { job, name: name.into(), state, reason: String::new() }
}

fn in_queue(name: &str) -> JobSpec {
    job(name, 1, |job| job.queue = "q".into())
}

fn takes(history: &mut History, namespaces: &[&str]) {
    let namespaces = Some(Box::new(namespaces.iter().map(|name| name.to_string()).collect()));
    history.put(QueueSpec { name: "q".into(), namespaces, ..QueueSpec::default() });
}

#[test]
fn jobs_come_into_namespaces_that_are_there() {
    let mut history = History::default();
    assert!(history.job(0, job("web", 1, |_| {})).broken().is_empty());
    put(&mut history, "team");
    assert!(history.job(1, job("team/web", 1, |_| {})).broken().is_empty());
    assert_eq!(history.job(2, job("other/web", 1, |_| {})).broken(), ["P8"]);
}

#[test]
fn queues_take_jobs_of_their_namespaces() {
    let mut history = History::default();
    put(&mut history, "team");
    takes(&mut history, &["team"]);
    assert!(history.job(0, in_queue("team/a")).broken().is_empty());
    takes(&mut history, &["default"]);
    assert!(history.update(0, job("team/a", 2, |job| job.queue = "q".into()), Vec::new()).broken().is_empty());
    assert_eq!(history.job(1, in_queue("team/b")).broken(), ["P8"]);
}

#[test]
fn namespaces_go_when_nothing_is_in_them() {
    let mut history = History::default();
    put(&mut history, "team");
    history.job(0, job("team/a", 1, |_| {})).happened(vec![cancelled("team/a")]);
    forget(&mut history, "team/a");
    remove(&mut history, "team");
    assert!(history.broken().is_empty());
    put(&mut history, "team");
    history.job(1, job("team/b", 1, |_| {}));
    remove(&mut history, "team");
    assert_eq!(history.broken(), ["P8"]);
}
