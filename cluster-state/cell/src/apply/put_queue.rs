//! Queues and cohorts are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::cell::Cell;
use crate::policy::admission::recheck;
use crate::state::quota::DEPTH_MAX;
use crate::state::requests::direct_usage;
use crate::state::resources::RESOURCES_MAX;
use ohm_model::provisioning::ADMISSION_CHECKS_MAX;
use ohm_model::{Amounts, Outcome, QueueSpec, Refusal};
use std::collections::BTreeSet;

pub(crate) fn put_queue(tx: &mut Tx<'_>, spec: &QueueSpec) -> Result<Outcome, Refusal> {
    check_queue(tx, spec)?;
    let amounts = [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit];
    for name in amounts.into_iter().flat_map(Amounts::keys) {
        tx.resources.intern(name).expect("check_queue found room for it");
    }
    tx.quota.put(spec.clone());
    let direct = direct_usage(tx);
    tx.cell.quota.rebuild(&tx.cell.resources, &direct);
    recheck(tx, &spec.name);
    // A smaller quota takes spares first.
    let spares = |job: &&std::sync::Arc<crate::state::jobs::Job>| job.groups.iter().any(|group| group.spares > 0);
    tx.applied.jobs.extend(tx.cell.jobs.iter().filter(spares).map(|job| job.id));
    Ok(Outcome::Done)
}

fn check_queue(cell: &Cell, spec: &QueueSpec) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(spec)?;
    let negative = [&spec.nominal, &spec.borrowing_limit, &spec.lending_limit];
    if negative.iter().any(|amounts| amounts.values().any(|amount| *amount < 0)) {
        return invalid("spec", "amounts are never negative".into());
    }
    if negative.iter().any(|amounts| amounts.len() > RESOURCES_MAX) {
        return invalid("spec", format!("at most {RESOURCES_MAX} resources are possible"));
    }
    let named: BTreeSet<&String> = negative.iter().flat_map(|amounts| amounts.keys()).collect();
    if !cell.resources.has_room_for_jobs(named.into_iter()) {
        return invalid("spec", "the cell has no column left for resources that no node has".into());
    }
    let distinct: BTreeSet<&String> = spec.admission_checks.iter().collect();
    if distinct.len() != spec.admission_checks.len() || distinct.len() > ADMISSION_CHECKS_MAX {
        return invalid("spec.admissionChecks", format!("up to {ADMISSION_CHECKS_MAX} different ones are possible"));
    }
    if spec.is_cohort && !distinct.is_empty() {
        return invalid("spec.admissionChecks", "a cohort has none; name them in its queues".into());
    }
    if cell.quota.get(&spec.name).is_some_and(|known| known.spec.is_cohort != spec.is_cohort) {
        let hint = "queues and cohorts share their names; choose another".to_string();
        return Err(Refusal::NameTaken { kind: "queue".into(), name: spec.name.clone(), hint });
    }
    if spec.parent.is_empty() {
        return Ok(());
    }
    match cell.quota.get(&spec.parent) {
        Some(parent) if parent.spec.is_cohort => {}
        _ => return Err(Refusal::NotFound { kind: "cohort".into(), name: spec.parent.clone() }),
    }
    let mut at = spec.parent.as_str();
    while let Some(node) = cell.quota.get(at) {
        if at == spec.name {
            return invalid("spec.cohort", "a cohort can't be below itself".into());
        }
        at = &node.spec.parent;
    }
    if cell.quota.depth_under(&spec.name, &spec.parent) > DEPTH_MAX {
        return invalid("spec.cohort", format!("more than {DEPTH_MAX} levels of cohorts would be above a queue"));
    }
    Ok(())
}

pub(crate) fn remove_queue(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if tx.quota.get(name).is_none() {
        return Err(Refusal::NotFound { kind: "queue".into(), name: name.into() });
    }
    let in_use = |what: String| {
        let hint = "remove what uses it first".to_string();
        Err(Refusal::WrongState { kind: "queue".into(), name: name.into(), state: what, hint })
    };
    if let Some(child) = tx.quota.iter().find(|node| node.spec.parent == name) {
        return in_use(format!("the parent of {}", child.spec.name));
    }
    if let Some(job) = tx.jobs.iter().find(|job| job.spec.queue == name) {
        return in_use(format!("named by job {}", job.spec.name));
    }
    tx.quota.remove(name);
    let direct = direct_usage(tx);
    tx.cell.quota.rebuild(&tx.cell.resources, &direct);
    Ok(Outcome::Done)
}
