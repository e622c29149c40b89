//! The hard rules: each one a file, each one a line of [`RULES`]. Whoever asks for room on a node asks them all,
//! through [`Room::of`]. The compiled scan of the planners, the test model and the oracle say the same in other code,
//! on purpose; tests prove that they agree.

mod claims;
mod devices;
mod limit_per_node;
mod node_class;
mod node_ready;
mod planted;
mod ports;
mod quota;
mod resources;
mod topology_domain;

use crate::rooms::room::{Asker, Room, What};
use ohm_model::{ConflictReason, NodeId};

/// One hard rule.
pub(crate) struct Rule {
    /// Its name; kube-scheduler's where it has one for it.
    pub(crate) name: &'static str,
    /// Whether it counts what is taken on the node, as against where the group may run at all.
    pub(crate) counts: bool,
    /// How many of so many tasks it leaves room for on a node, and why not for more.
    room: fn(&Asker<'_>, What<'_>, NodeId, u32) -> Room,
}

/// All hard rules, in the order they are asked: what costs least first; of several that leave no room the first one is
/// the reason.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: "NodeReady", counts: false, room: node_ready::room },
    Rule { name: "NodeClass", counts: false, room: node_class::room },
    Rule { name: "TopologyDomain", counts: false, room: topology_domain::room },
    Rule { name: "NodeResourcesFit", counts: true, room: resources::room },
    Rule { name: "Claims", counts: true, room: claims::room },
    Rule { name: "Quota", counts: false, room: quota::room },
    Rule { name: "NodePorts", counts: true, room: ports::room },
    Rule { name: "LimitPerNode", counts: true, room: limit_per_node::room },
    Rule { name: "Devices", counts: true, room: devices::room },
];

impl Rule {
    pub(crate) fn ask(&self, asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
        match planted::is_skipped(self.name, asker, what, node) {
            true => Room::ALL,
            false => (self.room)(asker, what, node, most),
        }
    }
}

impl Room {
    /// How many of `most` tasks of `asker` find room on `node`: every rule is asked, in the order of the table, until
    /// nothing is left.
    pub(crate) fn of(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
        Room::by(RULES.iter(), asker, what, node, most)
    }

    fn by<'r>(
        rules: impl Iterator<Item = &'r Rule>,
        asker: &Asker<'_>,
        what: What<'_>,
        node: NodeId,
        most: u32,
    ) -> Room {
        let mut room = Room { count: most, reason: None };
        for rule in rules {
            let left = rule.ask(asker, what, node, room.count);
            if left.count < room.count {
                room = left;
            }
            if room.count == 0 {
                break;
            }
        }
        room
    }

    /// As [`Room::of`], where less than `count` is of no use.
    pub(crate) fn whole(asker: &Asker<'_>, what: What<'_>, node: NodeId, count: u32) -> Result<(), ConflictReason> {
        Room::of(asker, what, node, count).for_all(count)
    }

    /// As [`Room::of`] beside what is taken on the node, wherever the group may run.
    pub(crate) fn beside(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
        Room::by(RULES.iter().filter(|rule| rule.counts), asker, what, node, most)
    }
}
