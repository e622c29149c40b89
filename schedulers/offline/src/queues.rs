//! The quota tree: what queues and cohorts have, lend, borrow and use.

use ohm_cell::{Cell, QuotaNode, QuotaUse};
use ohm_model::resources::display;
use serde::Serialize;

/// A queue or cohort. Queues and cohorts share their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueAnswer {
    /// Its name.
    pub name: String,
    /// `Queue` or `Cohort`.
    pub kind: &'static str,
    /// The cohort above.
    pub parent: Option<String>,
    /// 1000 times what is borrowed of the dominant resource, by what the cohort can lend of it, divided by the weight
    /// and rounded up. 0 where nothing is borrowed, 2^63 - 1 where something is with weight 0.
    pub weighted_share: i64,
    /// The resource of which most is borrowed.
    pub dominant_resource: Option<String>,
    /// By flavor; that of the short form of quota is called "".
    pub flavors_usage: Vec<FlavorUsage>,
}

/// What there is of one flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlavorUsage {
    /// The flavor.
    pub name: String,
    /// By resource: those that the queue, or anything below the cohort, has quota for or uses.
    pub resources: Vec<ResourceUsage>,
}

/// What there is of one resource of a flavor, as quantities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceUsage {
    /// The resource.
    pub name: String,
    /// What is used; of a cohort, what its members use beyond what they keep to themselves.
    pub total: String,
    /// What of that is borrowed from the cohort above.
    pub borrowed: String,
    /// What one more job could get now.
    pub available: String,
    /// What could be used were nothing used by others; of a root, all that it has.
    pub potential: String,
}

/// All queues and cohorts of a cell.
pub(crate) fn of(cell: &Cell) -> Vec<QueueAnswer> {
    let quota = cell.quota();
    let uses = quota.uses(cell.resources());
    quota.iter().zip(uses).map(|(node, uses)| queue(cell, node, &uses)).collect()
}

fn queue(cell: &Cell, node: &QuotaNode, uses: &[QuotaUse]) -> QueueAnswer {
    let (quota, resources) = (cell.quota(), cell.resources());
    let share = quota.share(&node.spec.name, resources);
    let flavor = |used: &QuotaUse| quota.columns().flavor(used.column);
    let resource = |used: &QuotaUse| {
        let name = resources.name(quota.columns().resource(used.column));
        let amount = |amount| display(name, amount);
        ResourceUsage {
            name: name.to_string(),
            total: amount(used.used),
            borrowed: amount(used.borrowed),
            available: amount(used.available),
            potential: amount(used.potential),
        }
    };
    let flavors = uses.chunk_by(|a, b| flavor(a) == flavor(b));
    let usage = |uses: &[QuotaUse]| FlavorUsage {
        name: uses.first().map_or("", flavor).to_string(),
        resources: uses.iter().map(resource).collect(),
    };
    QueueAnswer {
        name: node.spec.name.clone(),
        kind: if node.spec.is_cohort { "Cohort" } else { "Queue" },
        parent: Some(node.spec.parent.clone()).filter(|parent| !parent.is_empty()),
        weighted_share: share.weighted(),
        dominant_resource: share.dominant().map(|name| resources.name(name).to_string()),
        flavors_usage: flavors.map(usage).collect(),
    }
}
