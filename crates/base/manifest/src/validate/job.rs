//! Rules for jobs.

use super::findings::{Findings, Violation, spec};
use super::group;
use ohm_model::job::GROUPS_MAX;
use ohm_model::{ClassKind, JobSpec};
use std::collections::BTreeSet;

/// Everything that `job` breaks by itself, whatever the cell is like.
pub fn job(job: &JobSpec) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(job);
    let groups = || spec().field("groups");
    let number = job.groups.len();
    findings.expect((1..=GROUPS_MAX).contains(&number), groups, || {
        format!("must hold 1 to {GROUPS_MAX} groups, holds {number}")
    });
    findings.check(only_for_services(job).map_or(Ok(()), Err), || spec().field("strategy"));
    if let Some((field, problem)) = job.strategy.as_ref().and_then(|strategy| strategy.problem()) {
        findings.check(Err(problem), || spec().field("strategy").field(field));
    }
    let mut seen = BTreeSet::new();
    for (index, group) in job.groups.iter().enumerate() {
        let is_new = seen.insert(group.name.as_str());
        let name = || groups().item(index).field("name");
        findings
            .expect(is_new, name, || format!("`{}` is the name of an earlier group; names must differ", group.name));
        group::check(&mut findings, group, &|| groups().item(index));
        findings.check(job.neighbours_problem(index).map_or(Ok(()), Err), || groups().item(index));
        // What spares may be beside hangs on what the class is like, which only the cell knows of an operator's.
        let kind = job.class.built_in().unwrap_or(ClassKind::Service);
        let spares = group.spares_problem(kind).map_or(Ok(()), Err);
        findings.check(spares, || groups().item(index).field("spares"));
        // Groups beyond the bound were refused already; looking at all of them would only make a long list longer.
        if index == GROUPS_MAX {
            break;
        }
    }
    findings.violations
}

/// Why the job may not have the strategy that it has. What a class of an operator is like only the cell knows.
fn only_for_services(job: &JobSpec) -> Option<String> {
    let other = job.class.built_in().is_some_and(|kind| !kind.rolls());
    let class = job.class.name();
    (other && job.strategy.is_some())
        .then(|| format!("is for services; leave it out, or write `class: service` (its class is `{class}`)"))
}
