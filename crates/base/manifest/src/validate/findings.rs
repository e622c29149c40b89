//! What specs break, and where.

use crate::path::FieldPath;
use ohm_model::spelling::Spelled;

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
    pub(super) violations: Vec<Violation>,
}

impl Findings {
    pub(super) fn new() -> Self {
        Findings { violations: Vec::new() }
    }

    /// Notes every name in `spec` that breaks its rule.
    pub(super) fn spelling(&mut self, spec: &impl Spelled) {
        spec.spell(&mut |field, error| self.violations.push(Violation { field, problem: error.to_string() }));
    }

    /// Notes `problem` at `field` unless `holds`. Both are made only when needed: most specs are right.
    pub(super) fn expect(&mut self, holds: bool, field: impl FnOnce() -> FieldPath, problem: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation { field: field(), problem: problem() });
        }
    }

    /// Notes the problem that a check found, if it found one.
    pub(super) fn check(&mut self, result: Result<(), String>, field: impl FnOnce() -> FieldPath) {
        if let Err(problem) = result {
            self.violations.push(Violation { field: field(), problem });
        }
    }
}

pub(super) fn spec() -> FieldPath {
    FieldPath::root().field("spec")
}
