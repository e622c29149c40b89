//! Each host port is used once on a node, by protocol and address (kube-scheduler: NodePorts).

use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use ohm_model::{ConflictReason, HostPort, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    let Some(&first) = asker.shape.ports.first() else { return Room::ALL };
    let taken = |port: &&HostPort| what.port_taken(node, **port) || is_held(asker, what, node, **port);
    // Two tasks of one group ask for the same ports.
    let kept = matches!(asker.wish, Wish::Plan { .. }) && asker.kept(what, node) > 0;
    match asker.shape.ports.iter().find(taken) {
        Some(&port) => Room::none(ConflictReason::PortTaken(port)),
        None if kept => Room::none(ConflictReason::PortTaken(first)),
        None if most > 1 => Room { count: 1, reason: Some(ConflictReason::PortTaken(first)) },
        None => Room::ALL,
    }
}

fn is_held(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, port: HostPort) -> bool {
    let counts = |held: &&crate::rooms::nominations::Held| {
        matches!(asker.wish, Wish::Spare { .. } | Wish::Repair) || held.holds_ports()
    };
    let mut bound = asker.bound(what, node).filter(counts);
    bound.any(|held| what.shape_of(held).is_some_and(|shape| shape.ports.iter().any(|held| held.meets(port))))
}

pub(super) fn miss(_: &Asker<'_>, _: WhatIf<'_>, _: NodeId, reason: ConflictReason) -> Miss {
    match reason {
        ConflictReason::PortTaken(port) => Miss::Port(port),
        _ => Miss::Held,
    }
}
