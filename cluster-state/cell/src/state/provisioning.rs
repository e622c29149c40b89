//! Provisioning classes by name.

use ohm_model::ProvisioningClass;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The provisioning classes of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProvisioningClasses {
    by_name: Arc<BTreeMap<String, Arc<ProvisioningClass>>>,
}

impl ProvisioningClasses {
    /// The class called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<ProvisioningClass>> {
        self.by_name.get(name)
    }

    /// All classes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<ProvisioningClass>> {
        self.by_name.values()
    }

    pub(crate) fn from_classes(classes: impl Iterator<Item = ProvisioningClass>) -> Self {
        let by_name = classes.map(|class| (class.name.clone(), Arc::new(class))).collect();
        ProvisioningClasses { by_name: Arc::new(by_name) }
    }

    pub(crate) fn put(&mut self, class: ProvisioningClass) {
        Arc::make_mut(&mut self.by_name).insert(class.name.clone(), Arc::new(class));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.by_name).remove(name);
    }
}
