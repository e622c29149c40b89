//! P8 of flavors: what a job may have, where it may stand, and what its queue is charged.

use super::p10::short_quota;
use super::{History, ended, job, node, placed};
use ohm_model::{
    AdmissionCheck, Command, EventKind, Exit, FlavorQuota, GroupSpec, JobId, JobSpec, Outcome, QueueSpec,
    ResourceFlavor, ResourceGroup, ResourceQuota,
};
use std::collections::BTreeMap;

/// Two cpus of each flavor, and one node of each.
fn history() -> History {
    with_checks(Vec::new())
}

/// The same, where the queue has these checks.
pub(super) fn with_checks(admission_checks: Vec<AdmissionCheck>) -> History {
    let mut history = History::default();
    for name in ["spot", "od"] {
        let flavor = ResourceFlavor {
            name: name.into(),
            node_labels: [("pool".to_string(), name.to_string())].into(),
            ..ResourceFlavor::default()
        };
        history.entry(Command::PutResourceFlavor(Box::new(flavor)), Outcome::Done, Vec::new());
    }
    let flavor = |name: &str| FlavorQuota {
        name: name.into(),
        resources: [("cpu".to_string(), ResourceQuota { nominal: 2000, ..ResourceQuota::default() })].into(),
    };
    let group = ResourceGroup { covered_resources: vec!["cpu".into()], flavors: ["spot", "od"].map(flavor).into() };
    let queue = QueueSpec { name: "q".into(), resource_groups: vec![group], admission_checks, ..QueueSpec::default() };
    history.entry(Command::PutQueue(queue), Outcome::Done, Vec::new());
    history.node(0, node("s", &[("pool", "spot")])).node(1, node("o", &[("pool", "od")]));
    history
}

pub(super) fn queued(name: &str) -> JobSpec {
    job(name, 3, |job| job.queue = "q".into())
}

pub(super) fn has(number: u32, flavors: &[(&str, &str)]) -> EventKind {
    let flavors: BTreeMap<String, String> =
        flavors.iter().map(|(resource, flavor)| (resource.to_string(), flavor.to_string())).collect();
    EventKind::FlavorsAssigned { job: JobId::new(number, 0), name: "j".into(), groups: vec![("main".into(), flavors)] }
}

#[test]
fn what_is_placed_has_a_flavor_and_a_node_of_it() {
    let mut good = history();
    good.job(0, queued("j")).happened(vec![has(0, &[("cpu", "od")]), placed(0, 0, 2, 1)]);
    assert_eq!(good.broken(), Vec::<&str>::new());
    let mut without = history();
    assert_eq!(without.job(0, queued("j")).happened(vec![placed(0, 0, 1, 1)]).broken(), ["P8"]);
    let mut astray = history();
    let kinds = vec![has(0, &[("cpu", "od")]), placed(0, 0, 1, 0)];
    assert!(astray.job(0, queued("j")).happened(kinds).broken().contains(&"P8"));
}

#[test]
fn each_flavor_has_a_quota_of_its_own() {
    let mut history = history();
    history.job(0, queued("j")).job(1, queued("k"));
    history.happened(vec![has(0, &[("cpu", "od")]), placed(0, 0, 2, 1)]);
    history.happened(vec![has(1, &[("cpu", "spot")]), placed(1, 0, 2, 0)]);
    assert_eq!(history.broken(), Vec::<&str>::new());
    assert_eq!(history.happened(vec![placed(0, 2, 1, 1)]).broken(), ["P8"], "three of two");
}

#[test]
fn what_ends_gives_back_to_its_flavor() {
    let mut history = history();
    history.job(0, queued("j")).job(1, queued("k"));
    history.happened(vec![has(0, &[("cpu", "od")]), placed(0, 0, 2, 1)]);
    history.happened(vec![ended(0, 0, 1, Exit::Code(0)), has(1, &[("cpu", "od")]), placed(1, 0, 1, 1)]);
    assert_eq!(history.broken(), Vec::<&str>::new());
}

#[test]
fn only_what_the_queue_lists_is_given() {
    for (flavors, expected) in [(&[("cpu", "od")][..], 0), (&[("cpu", "other")], 1), (&[], 1), (&[("memory", "od")], 1)]
    {
        let mut history = history();
        history.job(0, queued("j")).happened(vec![has(0, flavors)]);
        assert_eq!(history.broken().len(), expected, "{flavors:?}");
    }
    let mut uncovered = history();
    let spec = job("j", 1, |job| {
        job.queue = "q".into();
        job.groups[0].requests.insert("memory".into(), 1);
    });
    assert_eq!(uncovered.job(0, spec).happened(vec![has(0, &[("cpu", "od")])]).broken(), ["P8"]);
}

#[test]
fn groups_that_are_placed_together_share_their_flavors() {
    let spec = job("j", 1, |job| {
        let group = GroupSpec { place_with: "x".into(), ..job.groups[0].clone() };
        job.groups = vec![GroupSpec { name: "lead".into(), ..group.clone() }, group];
        job.queue = "q".into();
    });
    let of = |flavor: &str| BTreeMap::from([("cpu".to_string(), flavor.to_string())]);
    for (first, second, expected) in [("od", "od", 0), ("od", "spot", 1)] {
        let mut history = history();
        let groups = vec![("lead".to_string(), of(first)), ("main".to_string(), of(second))];
        let kind = EventKind::FlavorsAssigned { job: JobId::new(0, 0), name: "j".into(), groups };
        history.job(0, spec.clone()).happened(vec![kind]);
        assert_eq!(history.broken().len(), expected, "{first} {second}");
    }
}

/// What stands on a flavor that its queue gave once gets no more of it.
#[test]
fn nothing_is_left_of_a_flavor_that_the_queue_does_not_give() {
    let mut history = history();
    history.job(0, queued("j"));
    let told = |resource: &str, available: i64| {
        history.oracle.judge_reason(JobId::new(0, 0), &short_quota(resource, 3000, available)).is_some()
    };
    assert!(!told("gold:cpu", 0));
    assert!(told("gold:cpu", 1000), "the queue gives none");
    assert!(!told("spot:cpu", 2000));
    assert!(told("spot:cpu", 0), "all of it is left");
}

#[test]
fn what_a_queue_uses_of_a_flavor_that_it_does_not_give_is_too_much() {
    let mut history = history();
    let quota = |name: &str, flavors: Vec<FlavorQuota>| {
        let group = ResourceGroup { covered_resources: vec!["cpu".into()], flavors };
        QueueSpec { name: name.into(), parent: "all".into(), resource_groups: vec![group], ..QueueSpec::default() }
    };
    let flavor = |name: &str| FlavorQuota {
        name: name.into(),
        resources: [("cpu".to_string(), ResourceQuota { nominal: 2000, ..ResourceQuota::default() })].into(),
    };
    history.job(0, queued("j")).happened(vec![has(0, &[("cpu", "od")]), placed(0, 0, 1, 1)]);
    history.put(quota("q", vec![flavor("spot")])).put(quota("other", vec![flavor("od")]));
    let told = |available: i64| {
        history.oracle.judge_reason(JobId::new(0, 0), &short_quota("od:cpu", 1000, available)).is_some()
    };
    assert!(!told(-1000), "the other one lends nothing of what the queue does not give");
    assert!(told(-2000), "one is used");
    assert!(told(500));
}
