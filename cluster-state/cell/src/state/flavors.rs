//! Resource flavors by name, and the pairs of flavor and resource in which quota is counted.

use crate::state::resources::ResourceNames;
use ohm_model::{FlavorResource, QueueSpec, ResourceFlavor, ResourceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The flavor of quota in the short form: it has no name, and is on every node.
pub const NO_FLAVOR: &str = "";

/// Most pairs of flavor and resource that a cell counts quota in. A pair that was named once stays.
pub(crate) const QUOTA_COLUMNS_MAX: usize = 4096;

/// The resource flavors of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceFlavors {
    by_name: Arc<BTreeMap<String, ResourceFlavor>>,
}

impl ResourceFlavors {
    /// The flavor called `name`.
    pub fn get(&self, name: &str) -> Option<&ResourceFlavor> {
        self.by_name.get(name)
    }

    /// All flavors, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ResourceFlavor> {
        self.by_name.values()
    }

    pub(crate) fn from_flavors(flavors: impl Iterator<Item = ResourceFlavor>) -> Self {
        ResourceFlavors { by_name: Arc::new(flavors.map(|flavor| (flavor.name.clone(), flavor)).collect()) }
    }

    pub(crate) fn put(&mut self, flavor: ResourceFlavor) {
        Arc::make_mut(&mut self.by_name).insert(flavor.name.clone(), flavor);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.by_name).remove(name);
    }
}

/// Amounts by pair of flavor and resource.
pub type Charges = BTreeMap<FlavorResource, i64>;

/// The pairs of flavor and resource that any queue or job of this cell has named, in the order they appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaColumns {
    pairs: Arc<Vec<(String, ResourceId)>>,
}

impl QuotaColumns {
    /// The column of a resource of a flavor, if anybody has named both together.
    pub fn find(&self, flavor: &str, resource: ResourceId) -> Option<FlavorResource> {
        let same = |(known, of): &(String, ResourceId)| *of == resource && known == flavor;
        self.pairs.iter().position(same).map(|column| FlavorResource(column as u16))
    }

    /// The flavor of a column; that without a name for a column that does not exist.
    pub fn flavor(&self, column: FlavorResource) -> &str {
        self.pairs.get(usize::from(column.0)).map_or(NO_FLAVOR, |(flavor, _)| flavor)
    }

    /// The resource of a column; `cpu` for one that does not exist.
    pub fn resource(&self, column: FlavorResource) -> ResourceId {
        self.pairs.get(usize::from(column.0)).map_or(ResourceId(0), |(_, resource)| *resource)
    }

    /// All pairs by column.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (FlavorResource, &str, ResourceId)> {
        let pairs = self.pairs.iter().enumerate();
        pairs.map(|(column, (flavor, resource))| (FlavorResource(column as u16), flavor.as_str(), *resource))
    }

    /// How many columns there are.
    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The column of a resource of a flavor, made when new. Whoever names many asks for room first.
    pub(crate) fn intern(&mut self, flavor: &str, resource: ResourceId) -> FlavorResource {
        self.find(flavor, resource).unwrap_or_else(|| {
            Arc::make_mut(&mut self.pairs).push((flavor.to_string(), resource));
            FlavorResource((self.pairs.len() - 1) as u16)
        })
    }

    /// Whether the columns that `spec` names are there or could be made. What jobs name without a flavor always can.
    pub(crate) fn has_room_for(&self, spec: &QueueSpec, names: &ResourceNames) -> bool {
        let is_new = |(flavor, resource): &(&str, &str)| {
            names.find(resource).is_none_or(|resource| self.find(flavor, resource).is_none())
        };
        let new = flavored(spec).map(|(flavor, resource, _)| (flavor, resource)).filter(is_new).count();
        new == 0 || self.len() + new <= QUOTA_COLUMNS_MAX
    }
}

/// The quota that the resource groups of `spec` give, as (flavor, resource, quota).
pub(crate) fn flavored(spec: &QueueSpec) -> impl Iterator<Item = (&str, &str, ohm_model::ResourceQuota)> {
    let flavors = spec.resource_groups.iter().flat_map(|group| &group.flavors);
    flavors.flat_map(|flavor| {
        let resources = flavor.resources.iter();
        resources.map(move |(resource, quota)| (flavor.name.as_str(), resource.as_str(), *quota))
    })
}
