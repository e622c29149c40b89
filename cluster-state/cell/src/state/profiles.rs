//! Scheduling profiles by class.

use ohm_model::{Class, ClassKind, Guard, SchedulingProfile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The profiles that were submitted, and with them the classes that a cell knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiles {
    by_class: Arc<BTreeMap<Class, Arc<SchedulingProfile>>>,
}

impl Profiles {
    /// The profile of `class`: the one that was submitted, or else the one that every cell has for it. Nothing for a
    /// class that the cell does not know.
    pub fn of(&self, class: Class) -> Option<Arc<SchedulingProfile>> {
        let built_in = || class.built_in().map(|_| Arc::new(SchedulingProfile::built_in(class)));
        self.submitted(class).cloned().or_else(built_in)
    }

    /// The profile that was submitted for `class`.
    pub fn submitted(&self, class: Class) -> Option<&Arc<SchedulingProfile>> {
        self.by_class.get(&class)
    }

    /// What jobs of `class` are like; nothing for a class that the cell does not know.
    pub fn kind(&self, class: Class) -> Option<ClassKind> {
        self.submitted(class).map(|profile| profile.like).or_else(|| class.built_in())
    }

    /// What transactions of `class` must ask of the nodes.
    pub fn guard(&self, class: Class) -> Guard {
        self.submitted(class).map_or(Guard::default(), |profile| profile.conflicts)
    }

    /// The submitted profile called `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<SchedulingProfile>> {
        self.by_class.values().find(|profile| profile.name == name)
    }

    /// All that were submitted, by class.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<SchedulingProfile>> {
        self.by_class.values()
    }

    /// All classes that the cell knows, by name.
    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = Class::BUILT_IN.into_iter().chain(self.by_class.keys().copied()).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    pub(crate) fn from_profiles(profiles: impl Iterator<Item = SchedulingProfile>) -> Self {
        Profiles { by_class: Arc::new(profiles.map(|profile| (profile.class, Arc::new(profile))).collect()) }
    }

    pub(crate) fn put(&mut self, profile: SchedulingProfile) {
        Arc::make_mut(&mut self.by_class).insert(profile.class, Arc::new(profile));
    }

    pub(crate) fn remove(&mut self, class: Class) {
        Arc::make_mut(&mut self.by_class).remove(&class);
    }
}
