//! Namespaces: teams call their jobs as they like. A job is known by one name everywhere: `web` in the namespace
//! `default`, `team-a/web` in `team-a`.

use crate::names::NAMESPACE_DEFAULT;
use crate::selector::Labels;
use serde::{Deserialize, Serialize};

/// Most namespaces of a cell.
pub const NAMESPACES_MAX: usize = 10_000;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Unique in the cell.
    pub name: String,
    /// By which others select it.
    pub labels: Labels,
}

/// The name by which a job is known that is called `name` in `namespace`.
pub fn job_name(namespace: &str, name: &str) -> String {
    if namespace == NAMESPACE_DEFAULT { name.to_string() } else { format!("{namespace}/{name}") }
}

/// The namespace of the job known by `name`, and what it is called there.
pub fn split_job_name(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((NAMESPACE_DEFAULT, name))
}

/// `NAMESPACE/NAME` of the job known by `name`, for those outside of the cell.
pub fn full_job_name(name: &str) -> String {
    let (namespace, name) = split_job_name(name);
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_known_by_one_name() {
        for (namespace, name, known) in [("default", "web", "web"), ("team-a", "web", "team-a/web")] {
            assert_eq!(job_name(namespace, name), known);
            assert_eq!(split_job_name(known), (namespace, name));
        }
    }
}
