//! Profiles as they come and go, and random ones.

use crate::state::{Plain, State};
use crate::world::World;
use ohm_model::{Class, ClassKind, Command, SchedulingProfile};

/// The class that an operator adds.
pub(crate) fn own_class() -> Class {
    "own".parse().expect("a class name")
}

impl Plain {
    /// What a class is like, if it is known.
    pub(crate) fn kind_of(&self, class: Class) -> Option<ClassKind> {
        self.profiles.get(&class).copied().or(class.built_in())
    }

    fn has_jobs(&self, class: Class) -> bool {
        let is_open = |state| matches!(state, State::Active | State::Suspended);
        self.jobs.values().any(|job| job.spec.class == class && is_open(job.state))
    }

    /// Whether it could be put: a class with open jobs stays like it is.
    pub(crate) fn put_profile(&mut self, class: Class, like: ClassKind, patience: u32) -> bool {
        let changes = self.profiles.get(&class).is_some_and(|known| *known != like);
        let fits = !(changes && self.has_jobs(class));
        if fits {
            self.profiles.insert(class, like);
            self.patience.insert(class, patience);
        }
        fits
    }

    /// Whether it could be removed: a built-in class goes on without, another one has no open jobs.
    pub(crate) fn remove_profile(&mut self, name: &str) -> bool {
        let Some(class) = self.profiles.keys().copied().find(|class| class.name() == name) else { return false };
        let fits = class.built_in().is_some() || !self.has_jobs(class);
        if fits {
            self.profiles.remove(&class);
            self.patience.remove(&class);
        }
        fits
    }
}

impl World {
    pub(crate) fn profile(&mut self) -> Command {
        let own = self.dice.chance(700);
        let class = if own { own_class() } else { Class::BUILT_IN[self.dice.below(3) as usize] };
        if self.dice.chance(300) {
            return Command::RemoveSchedulingProfile { name: class.to_string() };
        }
        let kinds = [ClassKind::Batch, ClassKind::Service, ClassKind::Tas];
        let drawn = kinds[self.dice.below(3) as usize];
        let known = self.plain.kind_of(class).filter(|_| !own || self.dice.chance(600));
        let (like, head_patience_seconds) = (known.unwrap_or(drawn), self.dice.below(4) as u32);
        let profile = SchedulingProfile { like, head_patience_seconds, ..SchedulingProfile::built_in(class) };
        Command::PutSchedulingProfile(Box::new(profile))
    }
}
