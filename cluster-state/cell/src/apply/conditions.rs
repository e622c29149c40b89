//! Conditions of nodes and nodes that flap: both act by the taints they put on their node. What a taint of a condition
//! drives away leaves as it leaves a node that is being drained.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::state::conditions::StandingCondition;
use ohm_model::{
    ClassId, ConditionKind, EventKind, Incarnation, MESSAGE_CHARS_MAX, NodeCondition, NodeId, Outcome, Refusal,
    SessionId,
};

impl Cell {
    /// The agent's whole list takes the place of what it said before. Since when a condition holds is kept.
    pub(super) fn report_conditions(
        &mut self,
        node: NodeId,
        (incarnation, number): (Incarnation, u64),
        reported: &[NodeCondition],
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let record = self.nodes.get(node);
        let record = record.ok_or_else(|| Refusal::NotFound { kind: "node".into(), name: node.to_string() })?;
        if record.incarnation != incarnation {
            return Err(Refusal::Superseded { incarnation: record.incarnation });
        }
        if number <= record.conditions_number {
            return Ok(Outcome::Done);
        }
        let name = record.spec.name.clone();
        let (mut standing, mut events) = (Vec::new(), Vec::new());
        for kind in ConditionKind::ALL {
            let before = record.conditions.iter().find(|condition| condition.kind == kind);
            let now = reported.iter().find(|condition| condition.kind == kind);
            let (action, message) = match now {
                Some(now) => (Some(now.action), now.message.chars().take(MESSAGE_CHARS_MAX).collect()),
                None => (None, String::new()),
            };
            if before.map(|condition| condition.action) != action {
                let (name, message) = (name.clone(), message.clone());
                events.push(EventKind::NodeCondition { node, name, condition: kind, action, message });
            }
            if let Some(action) = action {
                let (since, since_ms) = match before {
                    Some(before) => (before.since, before.since_ms),
                    None => (self.applied, self.now_ms),
                };
                standing.push(StandingCondition { kind, action, message, since, since_ms });
            }
        }
        let is_news = record.conditions != standing;
        if let Some(record) = self.nodes.record_mut(node) {
            (record.conditions, record.conditions_number) = (standing, number);
        }
        if is_news {
            applied.nodes.push(node);
            events.into_iter().for_each(|event| self.tell(applied, event));
            self.settle_taints(node, applied);
            self.lose_rooms_to_leave(node, applied);
            self.settle_leaving(node, applied);
        }
        Ok(Outcome::Done)
    }

    /// Brings the taints of a node, and with them its class, up to what its spec and its state say.
    pub(super) fn settle_taints(&mut self, node: NodeId, applied: &mut Applied) {
        if self.nodes.get(node).is_some_and(|record| record.taints != record.all_taints()) {
            let former = self.reclassify(node);
            self.classes.step_out(former);
            self.free_node(node);
            self.nodes.touch(node, self.applied, SessionId(0));
            applied.nodes.push(node);
        }
    }

    /// Puts a node into the class that its labels and taints say. Returns the former one, which it has yet to leave.
    pub(super) fn reclassify(&mut self, node: NodeId) -> ClassId {
        let former = self.nodes.class(node);
        if let Some(record) = self.nodes.record_mut(node) {
            record.taints = record.all_taints();
            self.nodes.class[node.0 as usize] = self.classes.join(&record.spec.labels, &record.taints);
        }
        former
    }

    /// A node that was lost is back. Who returns too often is held down.
    pub(super) fn note_return(&mut self, node: NodeId, applied: &mut Applied) {
        self.end_hold_down(node, applied);
        let now_ms = self.now_ms;
        let Some(record) = self.nodes.record_mut(node) else { return };
        let name = record.spec.name.clone();
        let Some(hold_down_ms) = record.flaps.note_return(now_ms) else { return };
        let (flaps, held_until_ms) = (record.flaps.returns_ms.len() as u32, record.flaps.held_until_ms);
        self.arm(held_until_ms, Timer::HoldDown(node));
        self.tell(applied, EventKind::NodeHeldDown { node, name, flaps, hold_down_ms });
        self.settle_taints(node, applied);
    }

    /// The time of a hold-down may be over.
    pub(super) fn end_hold_down(&mut self, node: NodeId, applied: &mut Applied) {
        let now_ms = self.now_ms;
        let held = self.nodes.get(node).filter(|record| record.flaps.is_held && record.flaps.held_until_ms <= now_ms);
        let Some(name) = held.map(|record| record.spec.name.clone()) else { return };
        if let Some(record) = self.nodes.record_mut(node) {
            record.flaps.is_held = false;
        }
        self.tell(applied, EventKind::NodeReleased { node, name, by_hand: false });
        self.settle_taints(node, applied);
    }

    /// A person trusts the node again: it is held down no more, and its returns so far do not count.
    pub(super) fn release_node(&mut self, name: &str, applied: &mut Applied) -> Result<Outcome, Refusal> {
        let node = self.named_node(name)?;
        let Some(record) = self.nodes.record_mut(node) else { return Ok(Outcome::Done) };
        let former = std::mem::take(&mut record.flaps);
        applied.nodes.push(node);
        if former.is_held || !former.returns_ms.is_empty() {
            self.tell(applied, EventKind::NodeReleased { node, name: name.to_string(), by_hand: true });
        }
        self.settle_taints(node, applied);
        Ok(Outcome::Done)
    }
}
