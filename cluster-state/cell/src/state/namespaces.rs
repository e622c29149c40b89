//! Namespaces by name.

use ohm_model::{NAMESPACE_DEFAULT, Namespace};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The namespaces of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    by_name: Arc<BTreeMap<String, Namespace>>,
}

impl Default for Namespaces {
    /// The namespace that is always there.
    fn default() -> Self {
        let default = Namespace { name: NAMESPACE_DEFAULT.into(), labels: BTreeMap::new() };
        Namespaces::from_namespaces([default].into_iter())
    }
}

impl Namespaces {
    /// The namespace called `name`.
    pub fn get(&self, name: &str) -> Option<&Namespace> {
        self.by_name.get(name)
    }

    /// All namespaces, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Namespace> {
        self.by_name.values()
    }

    pub(crate) fn from_namespaces(namespaces: impl Iterator<Item = Namespace>) -> Self {
        let by_name = namespaces.map(|namespace| (namespace.name.clone(), namespace)).collect();
        Namespaces { by_name: Arc::new(by_name) }
    }

    pub(crate) fn put(&mut self, namespace: Namespace) {
        Arc::make_mut(&mut self.by_name).insert(namespace.name.clone(), namespace);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.by_name).remove(name);
    }
}
