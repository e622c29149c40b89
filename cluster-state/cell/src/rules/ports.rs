//! Each host port is used once on a node (kube-scheduler: NodePorts).

use crate::rooms::room::{Asker, Room, What, Wish};
use ohm_model::{ConflictReason, NodeId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
    let Some(&first) = asker.shape.ports.first() else { return Room::ALL };
    let taken = |port: &&u16| what.over.has_port(what.cell, node, **port) || is_held(asker, what, node, **port);
    match asker.shape.ports.iter().find(taken) {
        Some(&port) => Room::none(ConflictReason::PortTaken(port)),
        // Two tasks of one group ask for the same ports.
        None if most > 1 => Room { count: 1, reason: Some(ConflictReason::PortTaken(first)) },
        None => Room::ALL,
    }
}

fn is_held(asker: &Asker<'_>, what: What<'_>, node: NodeId, port: u16) -> bool {
    let counts =
        |held: &&crate::rooms::nominations::Held| matches!(asker.wish, Wish::Spare { .. }) || held.holds_ports();
    let mut bound = what.bound(asker, node).filter(counts);
    bound.any(|held| what.shape_of(held).is_some_and(|shape| shape.ports.contains(&port)))
}
