//! The rules that a spec must keep and that need no cell to be judged. They are stated on the model's types, so that
//! whoever takes specs from elsewhere can ask, too; every violation names its field as a job file would.

mod group;
mod job;
mod names;
mod provisioning;
mod rest;

pub use job::job;
pub use rest::{node, queue, topology};

pub(crate) use provisioning::provisioning_class;
pub(crate) use rest::{priority_class, resources};

use crate::path::FieldPath;
use ohm_model::job::TASKS_MAX;
use std::ops::RangeInclusive;

/// How many tasks a group may have.
pub(crate) const COUNT_RANGE: RangeInclusive<i64> = 1..=TASKS_MAX as i64;
/// The name of the only group of a job that names none.
pub(crate) const GROUP_NAME_DEFAULT: &str = "main";

/// A rule that a spec breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, as a path in the canonical form of the document.
    pub field: FieldPath,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// What was found so far, below one field.
pub(crate) struct Findings {
    violations: Vec<Violation>,
}

impl Findings {
    fn new() -> Self {
        Findings { violations: Vec::new() }
    }

    /// Notes `problem` at `field` unless `holds`. Both are made only when needed: most specs are right.
    fn expect(&mut self, holds: bool, field: impl FnOnce() -> FieldPath, problem: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation { field: field(), problem: problem() });
        }
    }

    /// Notes the problem that a check found, if it found one.
    fn check(&mut self, result: Result<(), String>, field: impl FnOnce() -> FieldPath) {
        if let Err(problem) = result {
            self.violations.push(Violation { field: field(), problem });
        }
    }
}

fn spec() -> FieldPath {
    FieldPath::root().field("spec")
}

fn metadata() -> FieldPath {
    FieldPath::root().field("metadata")
}
