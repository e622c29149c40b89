//! Priority classes by name.

use ohm_model::PriorityClass;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The priority classes of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityClasses {
    by_name: Arc<BTreeMap<String, PriorityClass>>,
}

impl PriorityClasses {
    /// The class called `name`.
    pub fn get(&self, name: &str) -> Option<&PriorityClass> {
        self.by_name.get(name)
    }

    /// The class of jobs that name none, if there is one.
    pub fn global_default(&self) -> Option<&PriorityClass> {
        self.by_name.values().find(|class| class.global_default)
    }

    /// All classes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PriorityClass> {
        self.by_name.values()
    }

    pub(crate) fn from_classes(classes: impl Iterator<Item = PriorityClass>) -> Self {
        PriorityClasses { by_name: Arc::new(classes.map(|class| (class.name.clone(), class)).collect()) }
    }

    pub(crate) fn put(&mut self, class: PriorityClass) {
        Arc::make_mut(&mut self.by_name).insert(class.name.clone(), class);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.by_name).remove(name);
    }
}
