//! What is asked of a node that registers before anything is done.

use crate::cell::Cell;
use crate::state::nodes::NodeRecord;
use ohm_model::condition::TAINT_PREFIX;
use ohm_model::{NodeHealth, NodeSpec, Refusal};

impl Cell {
    pub(super) fn check_node(&self, spec: &NodeSpec) -> Result<(), Refusal> {
        let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
        if spec.name.is_empty() || spec.name.len() > 253 {
            return invalid("metadata.name", "must have 1 to 253 characters".into());
        }
        if let Some(taint) = spec.taints.iter().find(|taint| taint.key.starts_with(TAINT_PREFIX)) {
            let problem = format!("{taint}: the cell sets taints with {TAINT_PREFIX} by itself; choose another key");
            return invalid("spec.taints", problem);
        }
        if let Some((name, amount)) = spec.capacity.iter().find(|(_, amount)| **amount < 0 || **amount > 1 << 60) {
            return invalid("status.capacity", format!("{name} is {amount}; 0 to 2^60 units are possible"));
        }
        if !self.resources.has_room_for(spec.capacity.keys()) {
            return invalid("status.capacity", "the cell has no column left for a new resource name".into());
        }
        Ok(())
    }
}

impl NodeRecord {
    /// Whether the machine with this key, in this boot, may register under the name of this node.
    pub(super) fn check_boot(&self, key: u64, boot: u64) -> Result<(), Refusal> {
        let is_lost = self.health == NodeHealth::Lost;
        let named = || ("node".to_string(), self.spec.name.clone());
        if self.key != key && is_lost {
            return Ok(());
        }
        if self.key != key {
            let (kind, name) = named();
            let hint = "another machine runs under this name; give this one another name, or remove the old node";
            return Err(Refusal::NameTaken { kind, name, hint: hint.into() });
        }
        if boot < self.boot {
            // It was on its way when the machine booted again: what runs there now belongs to the later boot.
            let problem = "the machine has registered after a later boot than this one; if its folder is an older one \
                           put back, remove the file `node-key` there and the node from the cell";
            return Err(Refusal::Invalid { field: "boot".into(), problem: problem.into() });
        }
        if boot != self.boot && !is_lost {
            // Who says that the machine has booted may be a copy of it, while tasks run on the original.
            let (kind, name) = named();
            let hint = "it is taken once it is lost; if this machine or folder is a copy of another one, remove the \
                        file `node-key` there and give the node another name";
            let state = "not lost since its machine booted before".into();
            return Err(Refusal::WrongState { kind, name, state, hint: hint.into() });
        }
        Ok(())
    }
}
