//! Rules for nodes, topologies, priority classes and scheduling profiles.

use super::findings::{Findings, Violation, spec};
use super::names;
use crate::path::FieldPath;
use ohm_model::priority::DESCRIPTION_BYTES_MAX;
use ohm_model::profile::SCORES_MAX;
use ohm_model::resources::Amounts;
use ohm_model::topology::LEVELS_MAX;
use ohm_model::{Class, Namespace, NodeSpec, PriorityClass, SchedulingProfile, Strategy, TopologySpec};
use std::collections::BTreeSet;

/// Everything that `node` breaks by itself.
pub fn node(node: &NodeSpec) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(node);
    check_amounts(&mut findings, &node.capacity, &FieldPath::root().field("status").field("allocatable"));
    findings.violations
}

/// Rules for what is used on a node, as a document tells it.
pub(crate) fn used(amounts: &Amounts) -> Vec<Violation> {
    let mut findings = Findings::new();
    let place = FieldPath::root().field("status").field("used");
    for name in amounts.keys() {
        findings.check(ohm_model::names::resource(name).map_err(|error| error.to_string()), || place.field(name));
    }
    check_amounts(&mut findings, amounts, &place);
    findings.violations
}

/// Everything that `topology` breaks by itself.
pub fn topology(topology: &TopologySpec) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(topology);
    let levels = || spec().field("levels");
    let number = topology.levels.len();
    findings.expect((1..=LEVELS_MAX).contains(&number), levels, || {
        format!("must hold 1 to {LEVELS_MAX} levels, holds {number}")
    });
    let mut seen = BTreeSet::new();
    for (index, level) in topology.levels.iter().enumerate() {
        let field = || levels().item(index).field("nodeLabel");
        findings.expect(seen.insert(level), field, || format!("`{level}` is an earlier level, too; keep one"));
    }
    findings.violations
}

/// Rules for namespaces.
pub(crate) fn namespace(namespace: &Namespace) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(namespace);
    findings.violations
}

/// Rules for priority classes.
pub(crate) fn priority_class(class: &PriorityClass) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(class);
    let length = class.description.len();
    findings.expect(
        length <= DESCRIPTION_BYTES_MAX,
        || FieldPath::root().field("description"),
        || format!("is {length} bytes long; at most {DESCRIPTION_BYTES_MAX} may be"),
    );
    findings.violations
}

/// Rules for scheduling profiles.
pub(crate) fn scheduling_profile(profile: &SchedulingProfile) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(profile);
    let is_of = |class: &Class| class.name() == profile.name && *class != profile.class;
    let name = &profile.name;
    findings.expect(
        !Class::BUILT_IN.iter().any(is_of),
        || spec().field("class"),
        || format!("must be {name}: a profile that is called so is for that class"),
    );
    let number = profile.scores.len();
    findings.expect(
        number <= SCORES_MAX,
        || spec().field("scores"),
        || format!("gives {number} scores; at most {SCORES_MAX} may be"),
    );
    let strategies = || spec().field("strategies");
    let places = profile.strategies.is_empty() || profile.strategies.contains(&Strategy::Place);
    findings.expect(places, strategies, || "must name `Place`, too: without it no job is placed".to_string());
    let mut seen = BTreeSet::new();
    for (index, strategy) in profile.strategies.iter().enumerate() {
        let field = || strategies().item(index);
        findings.expect(seen.insert(strategy), field, || format!("names `{}` again; keep one", strategy.name()));
    }
    findings.violations
}

pub(super) fn check_amounts(findings: &mut Findings, amounts: &Amounts, place: &FieldPath) {
    for (name, &value) in amounts {
        findings.check(names::known_resource(name), || place.field(name));
        findings.check(amount(value), || place.field(name));
    }
}

pub(super) fn amount(amount: i64) -> Result<(), String> {
    if amount < 0 { Err("is negative; an amount is 0 or more".to_string()) } else { Ok(()) }
}
