//! Subqueues are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::cell::Cell;
use ohm_model::subqueue::{SUBQUEUES_MAX, WEIGHT_MILLI_MAX};
use ohm_model::{Outcome, Refusal, Subqueue};

pub(crate) fn put_subqueue(tx: &mut Tx<'_>, subqueue: &Subqueue) -> Result<Outcome, Refusal> {
    check_subqueue(tx, subqueue)?;
    let former = tx.subqueues.get(&subqueue.name).map(|known| known.queue.clone());
    if let Some(former) = former.filter(|former| *former != subqueue.queue) {
        if let Some(job) = job_of(tx, &subqueue.name) {
            let hint = format!("it stays below queue {former} while jobs name it; remove them first");
            return Err(Refusal::WrongState {
                kind: "subqueue".into(),
                name: subqueue.name.clone(),
                state: format!("named by job {job}"),
                hint,
            });
        }
        tx.subqueues.forget(&former, &subqueue.name);
    }
    tx.subqueues.put(subqueue.clone());
    // By another weight others may come first.
    tx.free_quota(&subqueue.queue);
    Ok(Outcome::Done)
}

fn check_subqueue(cell: &Cell, subqueue: &Subqueue) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(subqueue)?;
    if subqueue.weight_milli > WEIGHT_MILLI_MAX {
        return invalid("spec.fairSharing.weight", format!("must be at most {}", WEIGHT_MILLI_MAX / 1000));
    }
    if let Some(known) = cell.quota.get(&subqueue.name) {
        let is = if known.spec.is_cohort { "a cohort" } else { "a queue" };
        let hint = format!("it is {is}; queues, cohorts and subqueues share their names, so choose another");
        return Err(Refusal::NameTaken { kind: "subqueue".into(), name: subqueue.name.clone(), hint });
    }
    match cell.quota.get(&subqueue.queue) {
        Some(queue) if queue.spec.is_cohort => {
            return invalid(
                "spec.queue",
                format!("`{}` is a cohort, which holds no jobs; name a queue", subqueue.queue),
            );
        }
        None if cell.subqueues.get(&subqueue.queue).is_some() => {
            return invalid("spec.queue", format!("`{}` is a subqueue, and has none; name its queue", subqueue.queue));
        }
        None => return invalid("spec.queue", format!("no queue is called `{}`; put it first", subqueue.queue)),
        Some(_) => {}
    }
    if cell.subqueues.get(&subqueue.name).is_none() && cell.subqueues.iter().len() >= SUBQUEUES_MAX {
        return invalid("metadata.name", format!("the cell has {SUBQUEUES_MAX} subqueues already; remove one first"));
    }
    Ok(())
}

/// A job that names the subqueue.
fn job_of<'a>(cell: &'a Cell, subqueue: &str) -> Option<&'a str> {
    cell.jobs.iter().find(|job| job.spec.subqueue == subqueue).map(|job| job.spec.name.as_str())
}

pub(crate) fn remove_subqueue(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if tx.subqueues.get(name).is_none() {
        return Err(Refusal::NotFound { kind: "subqueue".into(), name: name.into() });
    }
    if let Some(job) = job_of(tx, name) {
        let (state, hint) = (format!("named by job {job}"), "remove what uses it first".to_string());
        return Err(Refusal::WrongState { kind: "subqueue".into(), name: name.into(), state, hint });
    }
    tx.subqueues.remove(name);
    Ok(Outcome::Done)
}
