//! Resource names as dense column numbers.

use ohm_model::{ResourceId, resources};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most distinct resource names a cell can hold; each one is a column over all nodes.
pub const RESOURCES_MAX: usize = 256;

/// The column of `cpu`.
pub const CPU: ResourceId = ResourceId(0);
/// The column of `memory`.
pub const MEMORY: ResourceId = ResourceId(1);
/// The column of `pods`.
pub const PODS: ResourceId = ResourceId(2);

/// The resource names that any node or job of this cell has named, in the order they appeared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceNames {
    names: Arc<Vec<String>>,
}

impl Default for ResourceNames {
    fn default() -> Self {
        let names = [resources::CPU, resources::MEMORY, resources::PODS];
        ResourceNames { names: Arc::new(names.map(String::from).to_vec()) }
    }
}

impl ResourceNames {
    /// The column of `name`, if anybody has named it.
    pub fn find(&self, name: &str) -> Option<ResourceId> {
        self.names.iter().position(|known| known == name).map(|column| ResourceId(column as u16))
    }

    /// The name of `resource`; `?` for a column that does not exist.
    pub fn name(&self, resource: ResourceId) -> &str {
        self.names.get(usize::from(resource.0)).map_or("?", String::as_str)
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: `cpu`, `memory` and `pods` are always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The column of `name`, made when new. Nothing when the cell has no column left.
    pub(crate) fn intern(&mut self, name: &str) -> Option<ResourceId> {
        self.find(name).or_else(|| {
            (self.names.len() < RESOURCES_MAX).then(|| {
                Arc::make_mut(&mut self.names).push(name.to_string());
                ResourceId((self.names.len() - 1) as u16)
            })
        })
    }

    /// Whether every one of these distinct names has a column or could get one.
    pub(crate) fn has_room_for<'a>(&self, names: impl Iterator<Item = &'a String>) -> bool {
        self.is_within(RESOURCES_MAX, names)
    }

    /// As [`ResourceNames::has_room_for`], for names that only jobs have named: they leave columns for nodes.
    pub(crate) fn has_room_for_jobs<'a>(&self, names: impl Iterator<Item = &'a String>) -> bool {
        self.is_within(RESOURCES_MAX / 2, names)
    }

    fn is_within<'a>(&self, limit: usize, names: impl Iterator<Item = &'a String>) -> bool {
        let new = names.filter(|name| self.find(name).is_none()).count();
        new == 0 || self.names.len() + new <= limit
    }
}
