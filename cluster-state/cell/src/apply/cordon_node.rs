//! Cordon: new work is kept away from a node by a person.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::state::nodes::CORDONED;
use ohm_model::{EventKind, NodeId, Outcome, Refusal};

pub(crate) fn cordon_node(tx: &mut Tx<'_>, name: &str, cordoned: bool) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    if (tx.nodes.flags(node) & CORDONED != 0) != cordoned {
        tx.mark_node(node, CORDONED, cordoned);
        tx.touch_node(node);
        tx.tell(EventKind::NodeCordoned { node, name: name.to_string(), cordoned });
    }
    Ok(Outcome::Done)
}

pub(crate) fn named_node(cell: &Cell, name: &str) -> Result<NodeId, Refusal> {
    cell.nodes.find(name).ok_or_else(|| Refusal::NotFound { kind: "node".into(), name: name.into() })
}
