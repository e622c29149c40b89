//! Priority classes, and what jobs that name one get.

use crate::cell::Cell;
use ohm_model::priority::{DESCRIPTION_BYTES_MAX, PRIORITY_CLASSES_MAX};
use ohm_model::{JobSpec, Outcome, PriorityClass, Refusal};

/// Most classes that a refusal lists.
const LISTED_MAX: usize = 20;

impl Cell {
    /// Adds a class. Its value stays, so that equal names mean equal priorities for as long as the class is there.
    pub(super) fn put_priority_class(&mut self, class: &PriorityClass) -> Result<Outcome, Refusal> {
        let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
        if class.name.is_empty() || class.name.len() > 253 {
            return invalid("metadata.name", "must have 1 to 253 characters".into());
        }
        if class.description.len() > DESCRIPTION_BYTES_MAX {
            return invalid("description", format!("at most {DESCRIPTION_BYTES_MAX} bytes are possible"));
        }
        match self.priority_classes.get(&class.name) {
            Some(known) if known.value != class.value => {
                let hint = "remove it first (jobs keep the priority they got), or choose another name".to_string();
                let (kind, name) = ("priority class".into(), class.name.clone());
                return Err(Refusal::NameTaken { kind, name, hint });
            }
            None if self.priority_classes.iter().len() >= PRIORITY_CLASSES_MAX => {
                let problem = format!("the cell has {PRIORITY_CLASSES_MAX} priority classes already; remove one first");
                return invalid("metadata.name", problem);
            }
            _ => {}
        }
        self.priority_classes.put(class.clone());
        Ok(Outcome::Done)
    }

    pub(super) fn remove_priority_class(&mut self, name: &str) -> Result<Outcome, Refusal> {
        if self.priority_classes.get(name).is_none() {
            return Err(Refusal::NotFound { kind: "priority class".into(), name: name.into() });
        }
        self.priority_classes.remove(name);
        Ok(Outcome::Done)
    }

    /// The priority of a job that names a class. A job that is known already keeps what it got, so that submitting it
    /// again changes nothing, whatever became of the class.
    pub(super) fn priority_of(&self, spec: &JobSpec, known: Option<&JobSpec>) -> Result<i32, Refusal> {
        let named = &spec.priority_class;
        if let Some(known) = known.filter(|known| known.priority_class == *named) {
            return Ok(known.priority);
        }
        let class = self.priority_classes.get(named);
        class.map(|class| class.value).ok_or_else(|| self.no_priority_class(named))
    }

    fn no_priority_class(&self, name: &str) -> Refusal {
        let known = self.priority_classes.iter();
        let more = known.len().saturating_sub(LISTED_MAX);
        let names = known.take(LISTED_MAX).map(|class| format!("{} ({})", class.name, class.value));
        let known = match (names.collect::<Vec<_>>().join(", "), more) {
            (names, _) if names.is_empty() => "the cell has none; submit the class first".to_string(),
            (names, 0) => format!("known: {names}; submit the class first, or name one of them"),
            (names, more) => format!("known: {names} and {more} more; submit the class first, or name one of them"),
        };
        let problem = format!("no priority class is called \"{name}\"; {known}");
        Refusal::Invalid { field: "spec.priorityClassName".into(), problem }
    }
}
