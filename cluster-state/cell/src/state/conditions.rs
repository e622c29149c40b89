//! What is known to be wrong with a node that beats, and the taints that follow.

use crate::state::nodes::NodeRecord;
use ohm_model::condition::{FLAPPING_TAINT, taint};
use ohm_model::{ConditionAction, ConditionKind, Index, Taint, TaintEffect};
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

impl NodeRecord {
    /// The conditions that drive away what runs there and does not tolerate them, by kind.
    pub fn driving_conditions(&self) -> impl Iterator<Item = &StandingCondition> {
        self.conditions.iter().filter(|condition| condition.action == ConditionAction::Drain)
    }

    /// The taints that the node's own state is the cause of, ascending; the registered ones stand in its spec.
    pub fn caused_taints(&self) -> Vec<Taint> {
        let conditions = self.conditions.iter().filter_map(StandingCondition::taint);
        let flapping = || Taint { key: FLAPPING_TAINT.into(), value: String::new(), effect: TaintEffect::NoSchedule };
        let mut taints: Vec<Taint> = conditions.chain(self.flaps.is_held.then(flapping)).collect();
        taints.sort();
        taints
    }

    /// What [`NodeRecord::taints`] must be.
    pub(crate) fn all_taints(&self) -> Vec<Taint> {
        let mut taints = self.spec.taints.clone();
        taints.extend(self.caused_taints());
        taints
    }
}
