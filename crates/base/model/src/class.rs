//! Classes of work: which schedulers place a job, and what that means for it.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Longest name of a class, in bytes.
pub const CLASS_NAME_MAX: usize = 31;

/// The schedulers that place a job, by the name of their class: a DNS label of at most [`CLASS_NAME_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// The name, then zeros: names are ordered as texts are.
    bytes: [u8; CLASS_NAME_MAX],
    length: u8,
}

/// What a class of work is like: whether its jobs start whole, how they are paced, what their files may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClassKind {
    /// Work with an end: arrays and gangs.
    Batch,
    /// Tasks that run until they are stopped.
    Service,
    /// Gangs that care where they stand together.
    Tas,
}

impl ClassKind {
    /// Whether the groups of a job start together or not at all.
    pub fn starts_whole(self) -> bool {
        self != ClassKind::Service
    }

    /// Whether a job gets from one revision to the next by a rollout.
    pub fn rolls(self) -> bool {
        self == ClassKind::Service
    }

    /// The built-in class that is like this.
    pub fn class(self) -> Class {
        match self {
            ClassKind::Batch => Class::BATCH,
            ClassKind::Service => Class::SERVICE,
            ClassKind::Tas => Class::TAS,
        }
    }
}

/// A text that can't be the name of a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no class name; use 1 to 31 of a to z, 0 to 9, and `-` in between")]
pub struct ClassNameError(String);

impl Class {
    /// Work with an end: arrays and gangs.
    pub const BATCH: Class = Class::named("batch");
    /// Tasks that run until they are stopped.
    pub const SERVICE: Class = Class::named("service");
    /// Gangs that care where they stand together.
    pub const TAS: Class = Class::named("tas");
    /// The classes that every cell has, in the order of their names.
    pub const BUILT_IN: [Class; 3] = [Class::BATCH, Class::SERVICE, Class::TAS];

    const fn named(name: &str) -> Class {
        let mut bytes = [0; CLASS_NAME_MAX];
        let mut at = 0;
        while at < name.len() {
            bytes[at] = name.as_bytes()[at];
            at += 1;
        }
        Class { bytes, length: name.len() as u8 }
    }

    /// The name used in files, commands and metrics.
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    /// What the class is like, if it is a built-in one.
    pub fn built_in(self) -> Option<ClassKind> {
        match self {
            Class::BATCH => Some(ClassKind::Batch),
            Class::SERVICE => Some(ClassKind::Service),
            Class::TAS => Some(ClassKind::Tas),
            _ => None,
        }
    }
}

impl FromStr for Class {
    type Err = ClassNameError;

    fn from_str(name: &str) -> Result<Self, ClassNameError> {
        let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let (edges, length) = ((name.as_bytes().first(), name.as_bytes().last()), name.len());
        let edged = edges.0.is_some_and(is_edge) && edges.1.is_some_and(is_edge);
        if edged && length <= CLASS_NAME_MAX && name.bytes().all(|byte| is_edge(&byte) || byte == b'-') {
            return Ok(Class::named(name));
        }
        Err(ClassNameError(name.chars().take(2 * CLASS_NAME_MAX).collect()))
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Class({})", self.name())
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl de::Visitor<'_> for Name {
            type Value = Class;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a class")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Class, E> {
                name.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_stdx::codec;

    #[test]
    fn names_are_dns_labels_and_ordered_as_texts() {
        for name in ["a", "batch", "gpu-2", "0", &"x".repeat(31)] {
            let class: Class = name.parse().unwrap();
            assert_eq!((class.name(), class.to_string().as_str()), (name, name));
            assert_eq!(codec::decode::<Class>(&codec::encode(&class)), Ok(class));
        }
        for name in ["", "-a", "a-", "A", "a.b", "ä", &"x".repeat(32)] {
            assert!(name.parse::<Class>().is_err(), "{name}");
            assert!(codec::decode::<Class>(&codec::encode(&name)).is_err(), "{name}");
        }
        let mut classes = ["tas", "b", "batch", "ba", "service"].map(|name| name.parse::<Class>().unwrap());
        classes.sort();
        assert_eq!(classes.map(|class| class.to_string()), ["b", "ba", "batch", "service", "tas"]);
    }

    #[test]
    fn built_in_classes_are_known() {
        assert!(Class::BUILT_IN.iter().all(|class| class.built_in().is_some() && class.name().parse() == Ok(*class)));
        assert_eq!("other".parse::<Class>().unwrap().built_in(), None);
    }
}
