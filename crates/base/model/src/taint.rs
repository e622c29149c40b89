//! Taints: marks on nodes that keep tasks away, in Kubernetes' words.

use serde::{Deserialize, Serialize};

/// What a taint does to tasks that don't tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No new task.
    NoSchedule,
    /// Rather no new task.
    PreferNoSchedule,
    /// No new task, and running ones leave.
    NoExecute,
}

/// A mark on a node that keeps tasks away unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, possibly empty.
    pub value: String,
    /// The effect.
    pub effect: TaintEffect,
}

impl std::fmt::Display for Taint {
    /// `key=value:Effect`, or `key:Effect` without a value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value.as_str() {
            "" => write!(f, "{}:{:?}", self.key, self.effect),
            value => write!(f, "{}={}:{:?}", self.key, value, self.effect),
        }
    }
}
