//! What is asked of names beyond their spelling, which [`ohm_model::names`] judges: documents say more than a cell
//! needs to know.

use crate::text::{nearest, shorten};
use ohm_model::names;
use ohm_model::resources::is_extended;

/// Resources without a domain that mean the same on every node.
const PLAIN_RESOURCES: [&str; 5] = ["cpu", "memory", "ephemeral-storage", "storage", "pods"];

/// Words for resources that people write, and what they are called.
const RESOURCE_WORDS: [(&str, &str); 6] = [
    ("cores", "cpu"),
    ("cpus", "cpu"),
    ("disk", "ephemeral-storage"),
    ("gpu", "nvidia.com/gpu"),
    ("mem", "memory"),
    ("ram", "memory"),
];

/// A resource without a domain is one of the plain ones. A slip here would wait for ever for a node that has it.
pub(super) fn known_resource(name: &str) -> Result<(), String> {
    let sized = ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix));
    if is_extended(name) || sized || PLAIN_RESOURCES.contains(&name) || names::resource(name).is_err() {
        return Ok(());
    }
    let known = RESOURCE_WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, right)| *right);
    let hint = match known.or_else(|| nearest(name, PLAIN_RESOURCES)) {
        Some(right) => format!("; did you mean `{right}`?"),
        None => format!("; known: {}, and your own with a domain: `example.com/{name}`", PLAIN_RESOURCES.join(", ")),
    };
    Err(format!("no resource is called `{}`{hint}", shorten(name)))
}

/// An environment variable that the agent does not set itself.
pub(super) fn own_variable(name: &str) -> Result<(), String> {
    if name.starts_with("OHM_") {
        return Err(format!("`{}` is Ohm's to set, as all that begins with `OHM_`; use another name", shorten(name)));
    }
    Ok(())
}

/// A text that is handed to the operating system.
pub(super) fn system_text(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err("holds a NUL character, which no program can be given".to_string()) } else { Ok(()) }
}
