//! What makes two groups equal for a scan, and what a score counts of their shape.

use ohm_cell::{PODS, Shape};
use ohm_model::{GroupSpec, ResourceId, SelectorTerm, ShapeId, SpreadMode};
use std::sync::Arc;

/// The score of a node that can't take the shape.
pub(crate) const REFUSED: i32 = i32::MAX;

/// What makes two groups equal for a scan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DemandKey {
    pub(crate) shape: ShapeId,
    pub(crate) spreads: bool,
    pub(crate) preferred: Arc<[(u32, SelectorTerm)]>,
}

impl DemandKey {
    pub(crate) fn of(shape: ShapeId, spec: &GroupSpec) -> Self {
        let preferred = spec.preferred.as_slice().into();
        DemandKey { shape, spreads: spreads(spec), preferred }
    }

    /// As equality with [`DemandKey::of`], without making one.
    pub(crate) fn is(&self, shape: ShapeId, spec: &GroupSpec) -> bool {
        self.shape == shape && self.spreads == spreads(spec) && *self.preferred == *spec.preferred.as_slice()
    }
}

/// Whether empty nodes are best for the group, unless the profile says otherwise: one task has nobody to spread from.
pub(crate) fn spreads(spec: &GroupSpec) -> bool {
    spec.spread == SpreadMode::Spread && spec.count > 1
}

/// Whether the left-over of `resource` counts in the score: how many tasks a node may still take says little about how
/// full it is, so `pods` counts only where nothing else is asked for.
pub(crate) fn counts(shape: &Shape, resource: ResourceId) -> bool {
    resource != PODS || shape.requests.len() == 1
}

/// How many resources count in the score of `shape`.
pub(crate) fn counted(shape: &Shape) -> usize {
    shape.requests.iter().filter(|(resource, _)| counts(shape, *resource)).count()
}
