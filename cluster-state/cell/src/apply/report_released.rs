//! The provisioning duty reports that nodes were taken back by who brought them.

use crate::apply::Tx;
use crate::apply::remove_node::take_out;
use crate::apply::steps::duty::check_duty;
use crate::state::release::Release;
use ohm_model::{Epoch, Index, Lease, NodeHealth, NodeId, Outcome, Refusal, SessionId};

pub(crate) fn report_released(
    tx: &mut Tx<'_>,
    holder: (SessionId, Epoch),
    nodes: &[(NodeId, Index)],
) -> Result<Outcome, Refusal> {
    check_duty(tx, Lease::Provisioning, holder)?;
    for &(node, since) in nodes {
        // It may be gone, or have booted anew, meanwhile.
        if tx.nodes.get(node).is_some_and(|record| record.release == Release::Releasing { since }) {
            tx.record_mut(node).release = Release::Released;
            tx.touch_node(node);
            remove_released(tx, node);
        }
    }
    Ok(Outcome::Done)
}

/// A node that was taken back leaves the cell once it is lost and nothing is on it.
pub(crate) fn remove_released(tx: &mut Tx<'_>, node: NodeId) {
    let Some(record) = tx.nodes.get(node) else { return };
    let is_gone = record.release == Release::Released && record.health == NodeHealth::Lost;
    if is_gone && tx.nodes.run_count(node) == 0 && tx.kept.on_node(node).next().is_none() {
        take_out(tx, node);
    }
}
