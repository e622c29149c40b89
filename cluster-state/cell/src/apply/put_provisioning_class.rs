//! Provisioning classes are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use crate::policy::brought::{nodes_of_class, settle_class};
use ohm_model::provisioning::{PART_BYTES_MAX, PARTS_MAX, PROVISIONING_CLASSES_MAX};
use ohm_model::{Outcome, Provisioner, ProvisioningClass, Refusal};

/// Adds or changes a class. What is under way goes on as it was asked for; what is asked next is asked by the new
/// words.
pub(crate) fn put_provisioning_class(tx: &mut Tx<'_>, class: &ProvisioningClass) -> Result<Outcome, Refusal> {
    check_class(class)?;
    let known = tx.provisioning_classes.get(&class.name).is_some();
    if !known && tx.provisioning_classes.iter().len() >= PROVISIONING_CLASSES_MAX {
        let problem = format!("the cell has {PROVISIONING_CLASSES_MAX} provisioning classes already; remove one first");
        return Err(Refusal::Invalid { field: "metadata.name".into(), problem });
    }
    tx.provisioning_classes.put(class.clone());
    settle_class(tx, &class.name);
    Ok(Outcome::Done)
}

pub(crate) fn remove_provisioning_class(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let kind = || "provisioning class".to_string();
    if tx.provisioning_classes.get(name).is_none() {
        return Err(Refusal::NotFound { kind: kind(), name: name.into() });
    }
    let in_use = |state: String, hint: &str| {
        Err(Refusal::WrongState { kind: kind(), name: name.into(), state, hint: hint.into() })
    };
    if let Some(queue) = tx.quota.iter().find(|queue| queue.spec.admission_checks.iter().any(|one| one.name == name)) {
        return in_use(format!("a check of queue {}", queue.spec.name), "take it out of the queue first");
    }
    let asks = |job: &&std::sync::Arc<crate::state::jobs::Job>| {
        job.admission.round.iter().flat_map(|round| &round.checks).any(|check| check.class == name)
    };
    if let Some(job) = tx.jobs.iter().find(asks) {
        let hint = "cancel the job or wait for its end";
        return in_use(format!("asked for job {}", job.spec.name), hint);
    }
    if let Some(node) = nodes_of_class(tx, name).next() {
        let hint = "wait until they are released, or remove them, first: who brought them is asked through the class";
        return in_use(format!("the one that has brought nodes, {} among them", tx.nodes.name(node)), hint);
    }
    tx.provisioning_classes.remove(name);
    Ok(Outcome::Done)
}

fn check_class(class: &ProvisioningClass) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(class)?;
    let bounds = format!("at most {PARTS_MAX} of {PART_BYTES_MAX} bytes are possible");
    match &class.provisioner {
        Provisioner::Command { command } if command.first().is_none_or(String::is_empty) => {
            return invalid("spec.command", "must name a program".into());
        }
        Provisioner::Command { command }
            if command.len() > PARTS_MAX || command.iter().any(|word| word.len() > PART_BYTES_MAX) =>
        {
            return invalid("spec.command", bounds);
        }
        Provisioner::Webhook { url } if !(url.starts_with("http://") || url.starts_with("https://")) => {
            return invalid("spec.url", "must begin with http:// or https://".into());
        }
        Provisioner::Webhook { url } if url.len() > PART_BYTES_MAX => return invalid("spec.url", bounds),
        _ => {}
    }
    let mut parts = class.parameters.iter().flat_map(|(key, value)| [key, value]);
    if class.parameters.len() > PARTS_MAX || parts.any(|part| part.len() > PART_BYTES_MAX) {
        return invalid("spec.parameters", bounds);
    }
    if class.retry.factor == 0 {
        return invalid("spec.retry.factor", "0; 1 or more are possible".into());
    }
    Ok(())
}
