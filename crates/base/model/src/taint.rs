//! Taints: marks on nodes that keep tasks away, in Kubernetes' words.

use crate::names;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What a taint does to tasks that don't tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No new task.
    NoSchedule,
    /// Rather no new task.
    PreferNoSchedule,
    /// No new task, and running ones leave.
    NoExecute,
}

impl TaintEffect {
    /// The effect of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
        all.into_iter().find(|effect| format!("{effect:?}") == name)
    }
}

/// A mark on a node that keeps tasks away unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, possibly empty.
    pub value: String,
    /// The effect.
    pub effect: TaintEffect,
}

impl std::fmt::Display for Taint {
    /// `key=value:Effect`, or `key:Effect` without a value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value.as_str() {
            "" => write!(f, "{}:{:?}", self.key, self.effect),
            value => write!(f, "{}={}:{:?}", self.key, value, self.effect),
        }
    }
}

const EFFECTS: &str = "NoSchedule, PreferNoSchedule or NoExecute";

impl FromStr for Taint {
    type Err = String;

    /// `key=value:Effect`, or `key:Effect`.
    fn from_str(text: &str) -> Result<Self, String> {
        let pattern: TaintPattern = text.parse()?;
        let effect = pattern.effect.ok_or_else(|| format!("an effect is missing: KEY=VALUE:EFFECT with {EFFECTS}"))?;
        Ok(Taint { key: pattern.key, value: pattern.value.unwrap_or_default(), effect })
    }
}

/// Taints of one key, of any value or one, of any effect or one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintPattern {
    /// The key.
    pub key: String,
    /// The value; any when absent.
    pub value: Option<String>,
    /// The effect; any when absent.
    pub effect: Option<TaintEffect>,
}

impl TaintPattern {
    /// Whether `taint` is one of them.
    pub fn matches(&self, taint: &Taint) -> bool {
        self.key == taint.key
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

impl std::fmt::Display for TaintPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.key)?;
        self.value.iter().try_for_each(|value| write!(f, "={value}"))?;
        self.effect.iter().try_for_each(|effect| write!(f, ":{effect:?}"))
    }
}

impl FromStr for TaintPattern {
    type Err = String;

    /// `key[=value][:Effect]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (left, effect) = match text.rsplit_once(':') {
            None => (text, None),
            Some((left, word)) => {
                let known = TaintEffect::named(word).ok_or_else(|| format!("an effect is {EFFECTS}"))?;
                (left, Some(known))
            }
        };
        let (key, value) = match left.split_once('=') {
            None => (left, None),
            Some((key, value)) => (key, Some(value.to_string())),
        };
        names::label_key(key).map_err(|error| error.to_string())?;
        names::label_value(value.as_deref().unwrap_or_default()).map_err(|error| error.to_string())?;
        Ok(TaintPattern { key: key.to_string(), value, effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_and_patterns_are_read_as_they_are_written() {
        let taint: Taint = "example.com/work=disk:NoExecute".parse().unwrap();
        assert_eq!(taint.to_string(), "example.com/work=disk:NoExecute");
        assert_eq!("work:NoSchedule".parse::<Taint>().unwrap().value, "");
        for wrong in ["", "work", "work=a", ":NoSchedule", "work:Never", "work=a b:NoExecute", "-work:NoSchedule"] {
            assert!(wrong.parse::<Taint>().is_err(), "{wrong}");
        }
        for (text, matches) in [
            ("example.com/work", true),
            ("example.com/work=disk", true),
            ("example.com/work:NoExecute", true),
            ("example.com/work=disk:NoSchedule", false),
            ("example.com/work=", false),
            ("work", false),
        ] {
            let pattern: TaintPattern = text.parse().unwrap();
            assert_eq!((pattern.matches(&taint), pattern.to_string()), (matches, text.to_string()));
        }
    }
}
