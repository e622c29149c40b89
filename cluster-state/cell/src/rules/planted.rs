//! Planted bugs that skip a rule. All of them sit here, outside the rules; without the feature nothing is left of them.

use crate::rooms::room::{Asker, Wish};
use crate::rooms::what_if::WhatIf;
use crate::state::nodes::{CORDONED, SCHEDULABLE, STATE_MASK};
use ohm_model::NodeId;
use ohm_stdx::canary::{self, Canary};

pub(super) fn is_skipped(rule: &str, asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> bool {
    // Planners keep to the rules: what is planted is a judge who does not.
    if !canary::COMPILED || matches!(asker.wish, Wish::Plan { .. }) {
        return false;
    }
    let runs = matches!(asker.wish, Wish::Run { .. } | Wish::Return { .. });
    match rule {
        "NodeReady" => {
            let state = what.cell.nodes.flags(node) & STATE_MASK & !CORDONED;
            canary::sings(Canary::IgnoreCordon) && state == SCHEDULABLE
        }
        "TopologyDomain" => match asker.wish {
            Wish::Move => canary::sings(Canary::MoveAstray),
            Wish::Spare { .. } => canary::sings(Canary::SpareAstray),
            Wish::Plan { .. } => false,
            Wish::Run { .. } | Wish::Return { .. } => {
                canary::sings(Canary::SkipTopology)
                    || (canary::sings(Canary::WidenTooFar) && may_widen(asker, what, node))
            }
        },
        "NodeResourcesFit" => runs && canary::sings(Canary::SkipFitCheck),
        "Quota" => runs && canary::sings(Canary::SkipQuota),
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
