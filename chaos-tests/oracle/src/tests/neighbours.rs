//! P8 of rules about other tasks.

use super::*;
use ohm_model::{Namespace, NeighbourTerm, Neighbours, Operator, Requirement, SpreadConstraint};

fn is(key: &str, value: &str) -> Vec<Requirement> {
    vec![Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }]
}

fn web(by: &str) -> NeighbourTerm {
    let selector = Some(is("app", "web"));
    NeighbourTerm { selector, topology_key: by.into(), ..NeighbourTerm::default() }
}

/// A job of tasks that are `app: LABEL` and ask for something.
fn asking(name: &str, label: &str, ask: impl FnOnce(&mut Neighbours)) -> JobSpec {
    job(name, 6, |job| {
        let mut asked = Neighbours::default();
        ask(&mut asked);
        job.groups[0].labels = [("app".to_string(), label.to_string())].into();
        job.groups[0].neighbours = (!asked.is_empty()).then(|| Box::new(asked));
    })
}

/// Nodes 0 and 1 in zone a, node 2 in zone b, and node 3 in none.
fn zones() -> History {
    let mut history = History::default();
    for (number, name, zone) in [(0, "a0", "a"), (1, "a1", "a"), (2, "b0", "b")] {
        history.node(number, node(name, &[("zone", zone)]));
    }
    history.node(3, node("none", &[]));
    history
}

fn check(jobs: &[&JobSpec], placed: Vec<EventKind>, expected: &[&str]) {
    let mut history = zones();
    for (at, job) in jobs.iter().enumerate() {
        history.job(at as u32, (*job).clone());
    }
    let told = format!("{placed:?}");
    assert_eq!(history.happened(placed).broken(), expected, "{told}");
}

#[test]
fn nothing_stands_near_what_must_not_be_near_it() {
    let alone = asking("alone", "web", |asked| asked.anti_affinity = vec![web("zone")]);
    let quiet = asking("quiet", "web", |_| {});
    let other = asking("other", "db", |_| {});
    check(&[&alone], vec![placed(0, 0, 1, 0), placed(0, 1, 1, 2), placed(0, 2, 3, 3)], &[]);
    check(&[&alone], vec![placed(0, 0, 1, 0), placed(0, 1, 1, 1)], &["P8"]);
    check(&[&alone], vec![placed(0, 0, 2, 2)], &["P8"]);
    // The other one asks for nothing, and is kept away by what stands there.
    check(&[&alone, &quiet], vec![placed(0, 0, 1, 0), placed(1, 0, 1, 1)], &["P8"]);
    check(&[&alone, &quiet], vec![placed(1, 0, 1, 1), placed(0, 0, 1, 0)], &["P8"]);
    check(&[&alone, &other], vec![placed(0, 0, 1, 0), placed(1, 0, 1, 1)], &[]);
}

#[test]
fn what_ended_keeps_nobody_away() {
    let alone = asking("alone", "web", |asked| asked.anti_affinity = vec![web("zone")]);
    let over = ended(0, 0, 0, Exit::Code(0));
    check(&[&alone], vec![placed(0, 0, 1, 0), over, placed(0, 1, 1, 1)], &[]);
}

#[test]
fn terms_mean_tasks_of_their_namespaces() {
    let mut away = asking("away", "other", |asked| asked.anti_affinity = vec![web("zone")]);
    let placed = || vec![placed(0, 0, 1, 0), placed(1, 0, 1, 1)];
    let broken = |away: &JobSpec| {
        let mut history = zones();
        let labels = [("kind".to_string(), "prod".to_string())].into();
        let command = Command::PutNamespace(Namespace { name: "team".into(), labels });
        history.entry(command, Outcome::Done, Vec::new());
        history.job(0, asking("team/web", "web", |_| {})).job(1, away.clone()).happened(placed()).broken()
    };
    assert!(broken(&away).is_empty());
    let change = |away: &mut JobSpec, names: &[&str], selector| {
        let term = &mut away.groups[0].neighbours.as_mut().unwrap().anti_affinity[0];
        term.namespaces = names.iter().map(|name| name.to_string()).collect();
        term.namespace_selector = selector;
    };
    for (names, selector, expected) in [
        (&["team"][..], None, &["P8"][..]),
        (&[], Some(Vec::new()), &["P8"]),
        (&[], Some(is("kind", "prod")), &["P8"]),
        (&[], Some(is("kind", "test")), &[]),
        (&["default"], None, &[]),
    ] {
        change(&mut away, names, selector);
        assert_eq!(broken(&away), expected);
    }
}

#[test]
fn somebody_it_must_be_near_stands_there_first() {
    let near = asking("near", "db", |asked| asked.affinity = vec![web("zone")]);
    let ring = asking("ring", "web", |asked| asked.affinity = vec![web("zone")]);
    let quiet = asking("quiet", "web", |_| {});
    check(&[&near], vec![placed(0, 0, 1, 0)], &["P8"]);
    check(&[&near, &quiet], vec![placed(1, 0, 1, 1), placed(0, 0, 1, 0)], &[]);
    check(&[&near, &quiet], vec![placed(1, 0, 1, 2), placed(0, 0, 1, 0)], &["P8"]);
    check(&[&ring], vec![placed(0, 0, 2, 0), placed(0, 2, 1, 1)], &[]);
    check(&[&ring], vec![placed(0, 0, 2, 0), placed(0, 2, 1, 2)], &["P8"]);
    check(&[&ring], vec![placed(0, 0, 1, 3)], &["P8"]);
    check(&[&ring, &quiet], vec![placed(1, 0, 1, 2), placed(0, 0, 1, 0)], &["P8"]);
    check(&[&ring, &quiet], vec![placed(1, 0, 1, 3), placed(0, 0, 1, 0)], &[]);
}

#[test]
fn tasks_are_spread_as_evenly_as_they_say() {
    let even = |change: fn(&mut SpreadConstraint)| {
        let mut constraint = SpreadConstraint::hard("zone", 1, is("app", "web"));
        change(&mut constraint);
        asking("even", "web", |asked| asked.spread = vec![constraint])
    };
    let (one, three) = (placed(0, 0, 1, 0), vec![placed(0, 0, 1, 0), placed(0, 1, 1, 2), placed(0, 2, 1, 1)]);
    check(&[&even(|_| {})], three, &[]);
    check(&[&even(|_| {})], vec![one.clone(), placed(0, 1, 1, 1)], &["P8"]);
    check(&[&even(|_| {})], vec![placed(0, 0, 1, 3)], &["P8"]);
    check(&[&even(|of| of.max_skew = 2)], vec![placed(0, 0, 2, 0)], &[]);
    check(&[&even(|of| of.min_domains = 3)], vec![one.clone(), placed(0, 1, 1, 2), placed(0, 2, 1, 1)], &["P8"]);
    check(&[&even(|of| of.is_hard = false)], vec![placed(0, 0, 4, 0)], &[]);
    // Who is to stop counts no more.
    let stops = stopping(0, 0, 0, StopCause::Preempted);
    check(&[&even(|_| {})], vec![one, stops, placed(0, 1, 1, 1)], &[]);
}

#[test]
fn only_nodes_that_the_group_may_run_on_are_counted() {
    let mut spec = asking("even", "web", |asked| {
        asked.spread = vec![SpreadConstraint::hard("zone", 1, is("app", "web"))];
    });
    spec.groups[0].node_selector = [("zone".to_string(), "a".to_string())].into();
    check(&[&spec], vec![placed(0, 0, 2, 0), placed(0, 2, 2, 1)], &[]);
    spec.groups[0].neighbours.as_mut().unwrap().spread[0].honours_affinity = false;
    check(&[&spec], vec![placed(0, 0, 2, 0)], &["P8"]);
}
