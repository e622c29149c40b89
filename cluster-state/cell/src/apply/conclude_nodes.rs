//! The health duty concludes about nodes.

use crate::apply::Tx;
use crate::apply::report_released::remove_released;
use crate::apply::steps::duty::check_duty;
use crate::apply::steps::kept::keep_runs_on;
use crate::apply::steps::run_end::end_runs_on;
use crate::policy::moves::lose_rooms;
use crate::policy::repair::settle_losses;
use crate::state::nodes::READY;
use crate::state::repairs::Losses;
use ohm_model::{Epoch, EventKind, Exit, Lease, NodeConclusion, NodeHealth, Outcome, Refusal, SessionId};

pub(crate) fn conclude_nodes(
    tx: &mut Tx<'_>,
    session: SessionId,
    epoch: Epoch,
    conclusions: &[NodeConclusion],
) -> Result<Outcome, Refusal> {
    check_duty(tx, Lease::Health, (session, epoch))?;
    let mut losses = Losses::default();
    let (mut refused, mut taken) = (None, conclusions.is_empty());
    for conclusion in conclusions {
        match conclude(tx, *conclusion, &mut losses) {
            Ok(()) => taken = true,
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    settle_losses(tx, losses);
    let lost = conclusions.iter().filter(|conclusion| conclusion.health == NodeHealth::Lost);
    lost.for_each(|conclusion| remove_released(tx, conclusion.node));
    refused.filter(|_| !taken).map_or(Ok(Outcome::Done), Err)
}

fn conclude(
    tx: &mut Tx<'_>,
    NodeConclusion { node, incarnation, health }: NodeConclusion,
    losses: &mut Losses,
) -> Result<(), Refusal> {
    let record = tx.nodes.get(node);
    let record = record.ok_or_else(|| Refusal::NotFound { kind: "node".into(), name: node.to_string() })?;
    if record.incarnation != incarnation {
        return Err(Refusal::Superseded { incarnation: record.incarnation });
    }
    if record.health == health {
        return Ok(());
    }
    if record.health == NodeHealth::Lost {
        return Err(Refusal::WrongState {
            kind: "node".into(),
            name: record.spec.name.clone(),
            state: "lost".into(),
            hint: "its agent must register again".into(),
        });
    }
    let name = record.spec.name.clone();
    let record = tx.record_mut(node);
    record.health = health;
    tx.mark_node(node, READY, health == NodeHealth::Ready);
    tx.touch_node(node);
    tx.tell(EventKind::NodeHealth { node, name, health });
    if health == NodeHealth::Lost {
        keep_runs_on(tx, node);
        end_runs_on(tx, node, Exit::NodeLost, losses);
        lose_rooms(tx, node);
    }
    Ok(())
}
