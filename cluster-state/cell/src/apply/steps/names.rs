//! Names in commands keep the rules that documents keep at the edge, whoever sent the command: what stands in the cell
//! reaches terminals, files and other systems.

use ohm_model::names::NameError;
use ohm_model::spelling::Spelled;
use ohm_model::{Actor, Refusal, names};

/// Refuses `spec` when one of its names breaks its rule.
pub(crate) fn check_names(spec: &impl Spelled) -> Result<(), Refusal> {
    match spec.misspelled() {
        Some((field, error)) => Err(invalid(field.to_string(), &error)),
        None => Ok(()),
    }
}

/// Refuses a command on behalf of somebody who can't be called so.
pub(crate) fn check_actor(actor: &Actor) -> Result<(), Refusal> {
    names::line(&actor.0).map_err(|error| invalid("actor".to_string(), &error))
}

/// Refuses a session that can't be called so.
pub(crate) fn check_session(name: &str) -> Result<(), Refusal> {
    names::line(name).map_err(|error| invalid("name".to_string(), &error))
}

fn invalid(field: String, error: &NameError) -> Refusal {
    Refusal::Invalid { field, problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use crate::apply::Applied;
    use crate::cell::Cell;
    use ohm_model::{Command, Entry, Envelope, Index, Outcome, Role};

    #[test]
    fn a_session_is_called_by_one_line() {
        for (name, is_open) in [("health@host", true), ("", true), ("health\n", false), ("\u{1b}[2J", false)] {
            let (mut cell, mut applied) = (Cell::new(), Applied::default());
            let open = Command::OpenSession { nonce: 1, role: Role::Client, name: name.into() };
            let entry = Entry { stamp_ms: 1, commands: vec![Envelope::without_session(open)] };
            cell.apply(Index(1), &entry, &mut applied);
            assert_eq!(matches!(applied.outcomes[..], [Outcome::Session(_)]), is_open, "{name:?}");
            assert_eq!(cell.sessions().iter().count(), usize::from(is_open), "{name:?}");
        }
    }
}
