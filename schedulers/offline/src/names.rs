//! Names that documents give, and what to say of those that nobody has.

use ohm_manifest::Named;

/// So many names are said where none is near.
const NAMES_SHOWN_MAX: usize = 3;

/// A job of Kubernetes, and what it names.
#[derive(Debug)]
pub(crate) struct ForeignJob {
    pub(crate) kind: &'static str,
    pub(crate) job: String,
    pub(crate) names: Vec<Named>,
}

/// Why `name` counts for nothing, if no object of this kind has it.
pub(crate) fn missing<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n str> + Clone) -> Option<String> {
    let is_known = known.clone().any(|known| known == name);
    (!is_known).then(|| format!("the files have no {kind} called `{name}`{}", suggestion(name, known)))
}

/// What may have been meant by `name`; begins with punctuation.
pub(crate) fn suggestion<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    if let Some(nearest) = ohm_manifest::nearest(name, known.clone()) {
        return format!("; did you mean `{nearest}`?");
    }
    let shown: Vec<String> = known.clone().take(NAMES_SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    match known.count().saturating_sub(NAMES_SHOWN_MAX) {
        _ if shown.is_empty() => String::new(),
        0 => format!("; there is {}", shown.join(", ")),
        more => format!("; there is {} and {more} more", shown.join(", ")),
    }
}
