//! The hard rules: each one a file, each one a line of [`RULES`]. Whoever asks for room on a node asks them all,
//! through [`Room::of`]: judge, planners, explanations. The compiled scan of the planners, the test model and the
//! oracle say the same in other code, on purpose; tests prove that they agree.

mod claims;
pub(crate) mod devices;
pub(crate) mod disruption;
mod limit_per_node;
pub(crate) mod miss;
mod node_class;
mod node_ready;
mod planted;
mod pod_affinity;
mod pod_anti_affinity;
mod pod_topology_spread;
mod ports;
pub(crate) mod preemption;
mod quota;
mod resources;
pub(crate) mod topology_domain;

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use ohm_model::{ConflictReason, NodeId};

/// One hard rule.
pub(crate) struct Rule {
    /// Its name; kube-scheduler's where it has one for it.
    pub(crate) name: &'static str,
    /// How many of so many tasks it leaves room for on a node, and why not for more.
    room: fn(&Asker<'_>, WhatIf<'_>, NodeId, u32) -> Room,
    /// That reason for people, where it says something of the node.
    miss: Option<Why>,
}

/// Says the reason of a verdict for people.
type Why = fn(&Asker<'_>, WhatIf<'_>, NodeId, ConflictReason) -> Miss;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Where the group may run at all: stopping others does not help.
    Place,
    /// What is taken on the node, in amounts: there may be nearly enough.
    Amounts,
    /// What is taken on the node otherwise.
    Taken,
    /// The job's queue.
    Queue,
}

use About::{Amounts, Place, Queue, Taken};

/// Makes the table, and [`ask_in_turn`] from the same lines: what is asked for every row of a transaction calls its
/// rules by name, not through the table, so that the compiler sees what costs nothing where it does not happen.
macro_rules! rules {
    ($($name:literal $about:ident $rule:ident $miss:expr;)*) => {
        /// All hard rules, in the order they are asked: what costs least first; of several that leave no room the first
        /// one is the reason.
        pub(crate) const RULES: &[Rule] =
            &[$(Rule { name: $name, room: $rule::room, miss: $miss }),*];

        /// How many of `most` tasks find room by the rules about what `is_asked` says, in the order of the table, until
        /// nothing is left.
        #[inline(always)]
        fn ask_in_turn(
            is_asked: impl Fn(About) -> bool,
            asker: &Asker<'_>,
            what: WhatIf<'_>,
            node: NodeId,
            most: u32,
        ) -> Room {
            let mut room = Room { count: most, reason: None };
            $(if room.count > 0 && is_asked($about) {
                let said = planted::answer($name, asker, what, node);
                let left = said.unwrap_or_else(|| $rule::room(asker, what, node, room.count));
                if left.count < room.count {
                    room = left;
                }
            })*
            room
        }
    };
}

rules! {
    "NodeReady" Place node_ready Some(node_ready::miss);
    "NodeClass" Place node_class Some(node_class::miss);
    "TopologyDomain" Place topology_domain Some(topology_domain::miss);
    "PodAffinity" Place pod_affinity Some(pod_affinity::miss);
    "NodeResourcesFit" Amounts resources Some(resources::miss);
    "Claims" Amounts claims Some(claims::miss);
    "Quota" Queue quota None;
    "NodePorts" Taken ports Some(ports::miss);
    "LimitPerNode" Taken limit_per_node Some(limit_per_node::miss);
    "PodAntiAffinity" Taken pod_anti_affinity Some(pod_anti_affinity::miss);
    "PodTopologySpread" Taken pod_topology_spread Some(pod_topology_spread::miss);
    "Devices" Amounts devices Some(devices::miss);
}

impl Rule {
    pub(crate) fn ask(&self, asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
        planted::answer(self.name, asker, what, node).unwrap_or_else(|| (self.room)(asker, what, node, most))
    }
}

impl Room {
    /// How many of `most` tasks of `asker` find room on `node`: every rule is asked, in the order of the table, until
    /// nothing is left.
    pub fn of(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
        ask_in_turn(|_| true, asker, what, node, most)
    }

    /// As [`Room::of`], where less than `count` is of no use.
    pub(crate) fn whole(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, count: u32) -> Result<(), ConflictReason> {
        Room::of(asker, what, node, count).for_all(count)
    }

    /// As [`Room::of`] beside what is taken on the node, wherever the group may run.
    pub(crate) fn beside(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
        ask_in_turn(|about| matches!(about, Amounts | Taken), asker, what, node, most)
    }

    /// Why not even one task of `asker` finds room on `node`, for people: the first rule that says so.
    pub fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> Option<Miss> {
        RULES.iter().find_map(|rule| {
            let Room { count: 0, reason } = rule.ask(asker, what, node, 1) else { return None };
            Some((rule.miss?)(asker, what, node, reason?))
        })
    }

    /// Whether amounts are all that may keep one task of `asker` from `node`.
    pub fn is_near(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> bool {
        ask_in_turn(|about| about != Amounts, asker, what, node, 1).count == 1
    }
}
