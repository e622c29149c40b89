//! Priority classes are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use ohm_model::priority::{DESCRIPTION_BYTES_MAX, PRIORITY_CLASSES_MAX};
use ohm_model::{Outcome, PriorityClass, Refusal};

/// Adds a class. Its value stays, so that equal names mean equal priorities for as long as the class is there.
pub(crate) fn put_priority_class(tx: &mut Tx<'_>, class: &PriorityClass) -> Result<Outcome, Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(class)?;
    if class.description.len() > DESCRIPTION_BYTES_MAX {
        return invalid("description", format!("at most {DESCRIPTION_BYTES_MAX} bytes are possible"));
    }
    let default = tx.priority_classes.global_default().filter(|known| known.name != class.name);
    if let Some(known) = default.filter(|_| class.global_default) {
        let known = &known.name;
        let problem = format!("\"{known}\" is the default class; submit it with `globalDefault: false` first");
        return invalid("globalDefault", problem);
    }
    match tx.priority_classes.get(&class.name) {
        Some(known) if known.value != class.value => {
            let hint = "remove it first (jobs keep the priority they got), or choose another name".to_string();
            let (kind, name) = ("priority class".into(), class.name.clone());
            return Err(Refusal::NameTaken { kind, name, hint });
        }
        None if tx.priority_classes.iter().len() >= PRIORITY_CLASSES_MAX => {
            let problem = format!("the cell has {PRIORITY_CLASSES_MAX} priority classes already; remove one first");
            return invalid("metadata.name", problem);
        }
        _ => {}
    }
    tx.priority_classes.put(class.clone());
    Ok(Outcome::Done)
}

pub(crate) fn remove_priority_class(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if tx.priority_classes.get(name).is_none() {
        return Err(Refusal::NotFound { kind: "priority class".into(), name: name.into() });
    }
    tx.priority_classes.remove(name);
    Ok(Outcome::Done)
}
