//! An agent says what is wrong with its node.

use crate::apply::Tx;
use crate::apply::steps::leaving::settle_leaving;
use crate::policy::conditions::settle_taints;
use crate::policy::moves::lose_rooms_to_leave;
use crate::policy::tolerations::watch_tolerations;
use crate::state::conditions::StandingCondition;
use ohm_model::{ConditionKind, EventKind, Incarnation, MESSAGE_CHARS_MAX, NodeCondition, NodeId, Outcome, Refusal};

/// The agent's whole list takes the place of what it said before. Since when a condition holds is kept.
pub(crate) fn report_conditions(
    tx: &mut Tx<'_>,
    node: NodeId,
    (incarnation, number): (Incarnation, u64),
    reported: &[NodeCondition],
) -> Result<Outcome, Refusal> {
    let record = tx.nodes.get(node);
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
                None => (tx.index(), tx.now_ms),
            };
            standing.push(StandingCondition { kind, action, message, since, since_ms });
        }
    }
    let is_news = record.conditions != standing;
    let record = tx.record_mut(node);
    (record.conditions, record.conditions_number) = (standing, number);
    if is_news {
        tx.applied.nodes.push(node);
        events.into_iter().for_each(|event| tx.tell(event));
        settle_taints(tx, node);
        lose_rooms_to_leave(tx, node);
        settle_leaving(tx, node);
        watch_tolerations(tx, node);
    }
    Ok(Outcome::Done)
}
