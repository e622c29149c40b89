//! What agents say about the state of their node, and what is to follow from it.

use crate::brought::BROUGHT_PREFIX;
use crate::taint::{Taint, TaintEffect};
use serde::{Deserialize, Serialize};

/// The prefix of taints that the cell sets by itself; nobody registers a node with one.
pub const TAINT_PREFIX: &str = "node.ohm/";
/// The prefix of taints that the cell alone sets which the key has, if it has one.
pub fn own_prefix(key: &str) -> Option<&'static str> {
    [TAINT_PREFIX, BROUGHT_PREFIX].into_iter().find(|prefix| key.starts_with(prefix))
}

/// The taint of a node that was lost too often and is held down for a while.
pub const FLAPPING_TAINT: &str = "node.ohm/flapping";

/// What is wrong with a node although its agent beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionKind {
    /// The file system of the agent's folder is nearly full.
    DiskPressure,
    /// The machine has hardly any memory left.
    MemoryPressure,
    /// A device is missing or says that it is broken.
    DeviceError,
    /// The operator's health-check program says so.
    HealthCheckFailed,
}

impl ConditionKind {
    /// All kinds.
    pub const ALL: [ConditionKind; 4] = [
        ConditionKind::DiskPressure,
        ConditionKind::MemoryPressure,
        ConditionKind::DeviceError,
        ConditionKind::HealthCheckFailed,
    ];

    /// The name used by people and in taints.
    pub fn name(self) -> &'static str {
        match self {
            ConditionKind::DiskPressure => "disk-pressure",
            ConditionKind::MemoryPressure => "memory-pressure",
            ConditionKind::DeviceError => "device-error",
            ConditionKind::HealthCheckFailed => "health-check-failed",
        }
    }
}

/// What follows from a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionAction {
    /// Nothing; people see it.
    Note,
    /// No new work.
    NoNewWork,
    /// No new work, and what runs there leaves.
    Drain,
}

impl ConditionAction {
    /// The name used by people and in flags.
    pub fn name(self) -> &'static str {
        match self {
            ConditionAction::Note => "note",
            ConditionAction::NoNewWork => "no-new-work",
            ConditionAction::Drain => "drain",
        }
    }

    /// The action of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [ConditionAction::Note, ConditionAction::NoNewWork, ConditionAction::Drain];
        all.into_iter().find(|action| action.name() == name)
    }
}

/// One condition that holds, as the node's agent reports it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeCondition {
    /// What is wrong.
    pub kind: ConditionKind,
    /// What is to follow; the operator of the node says so.
    pub action: ConditionAction,
    /// More for people, possibly empty.
    pub message: String,
}

impl NodeCondition {
    /// The taint it puts on its node, if it keeps anything away.
    pub fn taint(&self) -> Option<Taint> {
        taint(self.kind, self.action)
    }
}

/// The taint that a condition with this action puts on its node.
pub fn taint(kind: ConditionKind, action: ConditionAction) -> Option<Taint> {
    let effect = match action {
        ConditionAction::Note => return None,
        ConditionAction::NoNewWork => TaintEffect::NoSchedule,
        ConditionAction::Drain => TaintEffect::NoExecute,
    };
    Some(Taint { key: format!("{TAINT_PREFIX}{}", kind.name()), value: String::new(), effect })
}
