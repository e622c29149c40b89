//! Planted bugs that skip a rule, or answer in its place. All of them sit here, outside the rules; without the feature
//! nothing is left of them.

use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::state::nodes::{CORDONED, SCHEDULABLE, STATE_MASK};
use ohm_model::{ConflictReason, NodeId};
use ohm_stdx::bug::{self, Bug};

/// What is answered in place of `rule`.
pub(super) fn answer(rule: &str, asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> Option<Room> {
    if is_skipped(rule, asker, what, node) {
        return Some(Room::ALL);
    }
    let fills = bug::is_planted(Bug::HoldTooMuch) && rule == "Claims" && asker.bound(what, node).next().is_some();
    fills.then(|| Room::none(ConflictReason::Held))
}

fn is_skipped(rule: &str, asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> bool {
    // Planners keep to the rules: what is planted is a judge who does not.
    if !bug::COMPILED || matches!(asker.wish, Wish::Plan { .. }) {
        return false;
    }
    let runs = matches!(asker.wish, Wish::Run { .. } | Wish::Return { .. });
    match rule {
        "NodeReady" => {
            let state = what.cell.nodes.flags(node) & STATE_MASK & !CORDONED;
            bug::is_planted(Bug::IgnoreCordon) && state == SCHEDULABLE
        }
        "TopologyDomain" => match asker.wish {
            Wish::Move => bug::is_planted(Bug::MoveAstray),
            Wish::Spare { .. } => bug::is_planted(Bug::SpareAstray),
            Wish::Plan { .. } | Wish::Repair => false,
            Wish::Run { .. } | Wish::Return { .. } => {
                bug::is_planted(Bug::SkipTopology)
                    || (bug::is_planted(Bug::WidenTooFar) && may_widen(asker, what, node))
            }
        },
        "NodeResourcesFit" => runs && bug::is_planted(Bug::SkipFitCheck),
        "Quota" => runs && bug::is_planted(Bug::SkipQuota),
        _ => false,
    }
}

/// Whether a repair may leave its domain at all, and `node` is in some domain of the wider level.
fn may_widen(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> bool {
    let group = usize::from(asker.group.0);
    let topology = asker.job.binding_level(group).and_then(|(name, _)| what.cell.topologies.get(name));
    let wide = topology.zip(asker.job.widening_level(group));
    wide.and_then(|(topology, wide)| topology.key_of(node, topology.level(wide)?)).is_some()
}
