//! Conditions and hold-downs in the plain model: the taints of a node are worked out anew whenever somebody asks.

use crate::life::NOBODY;
use crate::state::{Alarm, Plain, PlainNode};
use ohm_model::{ConditionAction, NodeCondition, NodeHealth, NodeId, Taint, TaintEffect};

const WINDOW_MS: u64 = 600_000;

impl PlainNode {
    /// Everything that keeps tasks away, as a set.
    pub(crate) fn taints(&self) -> Vec<Taint> {
        let mut taints = self.spec.taints.clone();
        taints.extend_from_slice(&self.put);
        taints.extend(self.brought_taints());
        for condition in self.conditions.values() {
            let key = format!("node.ohm/{}", condition.kind.name());
            let effect = match condition.action {
                ConditionAction::Note => continue,
                ConditionAction::NoNewWork => TaintEffect::NoSchedule,
                ConditionAction::Drain => TaintEffect::NoExecute,
            };
            taints.push(Taint { key, value: String::new(), effect });
        }
        if self.held {
            let key = "node.ohm/flapping".into();
            taints.push(Taint { key, value: String::new(), effect: TaintEffect::NoSchedule });
        }
        taints.sort();
        taints
    }

    /// What all its returns so far come to: until when it is held down, if the last of them did that.
    pub(crate) fn held_until(&self) -> Option<u64> {
        let (mut until, mut downs, mut first, mut held) = (0, 0, 0, None);
        for (at, now) in self.returns.iter().enumerate() {
            if downs > 0 && *now >= until + WINDOW_MS {
                (until, downs, first) = (0, 0, at);
            }
            let recent = self.returns[first..=at].iter().filter(|past| **past + WINDOW_MS > *now).count();
            held = None;
            if downs > 0 || recent >= 3 {
                let minutes = (0..downs).fold(1, |minutes: u64, _| (minutes * 2).min(30));
                until = until.max(now + minutes * 60_000);
                downs += 1;
                held = Some(until);
            }
        }
        held
    }
}

impl Plain {
    pub(crate) fn report_conditions(
        &mut self,
        id: NodeId,
        incarnation: u32,
        number: u64,
        conditions: &[NodeCondition],
    ) -> bool {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.incarnation == incarnation) else { return false };
        if number <= node.heard {
            return true;
        }
        node.heard = number;
        let (before, known) = (node.taints(), node.conditions.clone());
        node.conditions.clear();
        for condition in conditions {
            node.conditions.entry(condition.kind).or_insert_with(|| condition.clone());
        }
        let (is_tainted, is_news) = (node.taints() != before, node.conditions != known);
        if is_tainted {
            self.touch(id, NOBODY);
        }
        if is_news {
            self.lose_rooms_to_leave(id);
        }
        true
    }

    /// To be asked before a registration makes the node ready.
    pub(crate) fn note_return(&mut self, id: NodeId) {
        self.end_hold_down(id);
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.health == NodeHealth::Lost) else { return };
        node.returns.push(now_ms);
        if let Some(until) = node.held_until() {
            let was_held = std::mem::replace(&mut node.held, true);
            self.alarm(until, Alarm::HoldDown(id));
            if !was_held {
                self.touch(id, NOBODY);
            }
        }
    }

    pub(crate) fn end_hold_down(&mut self, id: NodeId) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.held && node.held_until().is_none_or(|until| until <= now_ms) {
            node.held = false;
            self.touch(id, NOBODY);
        }
    }

    pub(crate) fn release(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("a node");
        node.returns.clear();
        if std::mem::replace(&mut node.held, false) {
            self.touch(id, NOBODY);
        }
    }
}
