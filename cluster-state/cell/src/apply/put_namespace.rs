//! Namespaces are put and removed, and say where jobs may be.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::state::task_counts::settle::count_anew;
use ohm_model::namespace::NAMESPACES_MAX;
use ohm_model::{NAMESPACE_DEFAULT, Namespace, Outcome, Refusal, split_job_name};
use ohm_stdx::bug::{self, Bug};

/// Adds a namespace, or gives one other labels.
pub(crate) fn put_namespace(tx: &mut Tx<'_>, namespace: &Namespace) -> Result<Outcome, Refusal> {
    check_names(namespace)?;
    if tx.namespaces.get(&namespace.name).is_none() && tx.namespaces.iter().len() >= NAMESPACES_MAX {
        let problem = format!("the cell has {NAMESPACES_MAX} namespaces already; remove one first");
        return Err(Refusal::Invalid { field: "metadata.name".into(), problem });
    }
    tx.namespaces.put(namespace.clone());
    if !tx.task_counts.is_empty() {
        // Terms that select namespaces by their labels may mean others.
        count_anew(tx.cell);
        tx.applied.freed.neighbours = true;
    }
    Ok(Outcome::Done)
}

/// Removes a namespace in which there is nothing.
pub(crate) fn remove_namespace(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if tx.namespaces.get(name).is_none() {
        return Err(Refusal::NotFound { kind: "namespace".into(), name: name.into() });
    }
    let in_use = |state: &str, hint: String| {
        let (kind, name, state) = ("namespace".into(), name.into(), state.into());
        Err(Refusal::WrongState { kind, name, state, hint })
    };
    if name == NAMESPACE_DEFAULT {
        return in_use("always there", "jobs that name no namespace are in it".into());
    }
    let job = tx.jobs.iter().find(|job| split_job_name(&job.spec.name).0 == name);
    if let Some(job) = job.filter(|_| !bug::is_planted(Bug::RemoveUsedNamespace)) {
        let job = &job.spec.name;
        return in_use("in use", format!("job \"{job}\" is in it; forget its jobs first (`ohm remove`)"));
    }
    if let Some((_, budget)) = tx.budgets.in_namespace(name).next() {
        let budget = &budget.name;
        return in_use(
            "in use",
            format!("budget \"{budget}\" is in it; remove its budgets first (`ohm budget remove`)"),
        );
    }
    tx.namespaces.remove(name);
    Ok(Outcome::Done)
}
