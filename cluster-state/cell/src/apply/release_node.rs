//! A person trusts a node again that came back too often.

use crate::apply::Tx;
use crate::apply::cordon_node::named_node;
use crate::policy::conditions::settle_taints;
use ohm_model::{EventKind, Outcome, Refusal};

/// A person trusts the node again: it is held down no more, and its returns so far do not count.
pub(crate) fn release_node(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    let record = tx.record_mut(node);
    let former = std::mem::take(&mut record.flaps);
    tx.applied.nodes.push(node);
    if former.is_held || !former.returns_ms.is_empty() {
        tx.tell(EventKind::NodeReleased { node, name: name.to_string(), by_hand: true });
    }
    settle_taints(tx, node);
    Ok(Outcome::Done)
}
