//! What is known to be wrong with a node that beats, and the taints that follow.

use ohm_model::condition::taint;
use ohm_model::{ConditionAction, ConditionKind, Index, Taint};
use serde::{Deserialize, Serialize};

/// A condition that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingCondition {
    /// What is wrong.
    pub kind: ConditionKind,
    /// What follows from it.
    pub action: ConditionAction,
    /// More for people, possibly empty.
    pub message: String,
    /// The entry since which it holds.
    pub since: Index,
    /// Stamped time of that entry.
    pub since_ms: u64,
}

impl StandingCondition {
    /// The taint it puts on its node, if it keeps anything away.
    pub fn taint(&self) -> Option<Taint> {
        taint(self.kind, self.action)
    }
}
