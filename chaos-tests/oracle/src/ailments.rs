//! The oracle's own book of what ails a node: the conditions its agent told of, and how often it was lost and came
//! back. What follows is counted here once more, with numbers of its own.

use ohm_model::{ConditionAction, ConditionKind, Taint, TaintEffect};
use std::collections::BTreeMap;

const MINUTE_MS: u64 = 60_000;

/// What ails one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ailments {
    conditions: BTreeMap<ConditionKind, ConditionAction>,
    returns_ms: Vec<u64>,
    /// How often in a row it was held down, and until when the last time.
    hold_downs: u32,
    held_until_ms: u64,
}

impl Ailments {
    /// A condition began, changed or ended.
    pub(crate) fn note_condition(&mut self, kind: ConditionKind, action: Option<ConditionAction>) {
        match action {
            Some(action) => drop(self.conditions.insert(kind, action)),
            None => drop(self.conditions.remove(&kind)),
        }
    }

    /// It was lost and is back: the third time in ten minutes it gets nothing for a minute, and for twice as long each
    /// time it returns before it has been well for ten minutes; for half an hour at most.
    pub(crate) fn note_return(&mut self, at_ms: u64) {
        if self.hold_downs > 0 && self.held_until_ms + 10 * MINUTE_MS <= at_ms {
            self.note_release();
        }
        self.returns_ms.push(at_ms);
        self.returns_ms.retain(|past_ms| at_ms - past_ms < 10 * MINUTE_MS);
        if self.hold_downs > 0 || self.returns_ms.len() > 2 {
            let minutes = 2u64.pow(self.hold_downs.min(5)).min(30);
            self.hold_downs += 1;
            self.held_until_ms = self.held_until_ms.max(at_ms + minutes * MINUTE_MS);
        }
    }

    /// A person trusts it again.
    pub(crate) fn note_release(&mut self) {
        (self.returns_ms, self.hold_downs, self.held_until_ms) = Default::default();
    }

    /// What it must be tolerated for at `at_ms`.
    pub(crate) fn taints(&self, at_ms: u64) -> Vec<Taint> {
        let taint = |name: &str, effect| Taint { key: format!("node.ohm/{name}"), value: String::new(), effect };
        let of_condition = |(kind, action): (&ConditionKind, &ConditionAction)| match action {
            ConditionAction::Note => None,
            ConditionAction::NoNewWork => Some(taint(kind.name(), TaintEffect::NoSchedule)),
            ConditionAction::Drain => Some(taint(kind.name(), TaintEffect::NoExecute)),
        };
        let mut taints: Vec<Taint> = self.conditions.iter().filter_map(of_condition).collect();
        if at_ms < self.held_until_ms {
            taints.push(taint("flapping", TaintEffect::NoSchedule));
        }
        taints
    }
}
