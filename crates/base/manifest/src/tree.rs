//! What JSON and YAML have in common: values with the place where each begins. Numbers keep the text they were written
//! as, so a quantity is never squeezed through a float and a label `1.10` stays what it is.

use crate::error::{Position, Problem, ProblemKind};
use crate::path::{FieldPath, Step};
use crate::text::shorten;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node<'a> {
    pub(crate) position: Position,
    pub(crate) value: Value<'a>,
    /// Whether anybody asked for it. Noted where fields are looked up, so that nobody who reads one can forget to.
    is_read: Cell<bool>,
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) position: Position,
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: Node<'a>,
}

impl<'a> Node<'a> {
    /// A value that nobody has asked for yet.
    pub(crate) fn new(position: Position, value: Value<'a>) -> Self {
        Node { position, value, is_read: Cell::new(false) }
    }

    /// Whether [`Node::get`] has given it to anybody.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.get()
    }

    /// The value under `key`, when this is a map that has it. A null counts as absent, as in Kubernetes.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        let Value::Map(entries) = &self.value else { return None };
        let node = &entries.iter().find(|entry| entry.key == key)?.value;
        node.is_read.set(true);
        (node.value != Value::Null).then_some(node)
    }

    /// The text of a text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether this is written like that: a text, a number, `true` or `false`.
    pub(crate) fn is_written(&self, text: &str) -> bool {
        match &self.value {
            Value::Bool(value) => text == if *value { "true" } else { "false" },
            Value::Number(value) | Value::Text(value) => value == text,
            _ => false,
        }
    }

    /// What this is, for an error message.
    pub(crate) fn description(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => shorten(number),
            Value::Text(text) => format!("the text `{}`", shorten(text)),
            Value::List(_) => "a list".to_string(),
            Value::Map(_) => "a map".to_string(),
        }
    }

    /// Where the field with the canonical `path` was written, and the path it was written under. A job may be written
    /// without `groups`, a group with a `template`, and requests under `resources`; a field that was left out is placed
    /// where it would stand.
    pub(crate) fn locate(&self, path: &FieldPath) -> (Position, FieldPath) {
        let mut node = self;
        let mut written = Vec::new();
        let mut steps = path.0.iter().peekable();
        while let Some(step) = steps.next() {
            // A list whose items have names may be written for a map.
            if let Step::Field(name) = step
                && let Some((index, item)) = node.item_called(name)
            {
                written.push(Step::Item(index));
                node = item;
                continue;
            }
            let (next, detour) = match step {
                Step::Field(name) if name == "allocatable" && node.get(name).is_none() => {
                    // A node may state its `capacity` alone.
                    written.push(Step::Field("capacity".to_string()));
                    node = node.get("capacity").unwrap_or(node);
                    continue;
                }
                Step::Item(index) => (node.item(*index), None),
                Step::Field(name) if name == "groups" && node.get("groups").is_none() => {
                    steps.next();
                    continue;
                }
                Step::Field(name) => node.find(name),
            };
            written.extend(detour.into_iter().flatten().map(|name| Step::Field((*name).to_string())));
            written.push(step.clone());
            let Some(next) = next else { break };
            node = next;
        }
        written.extend(steps.cloned());
        (node.position, FieldPath(written))
    }

    fn item(&self, index: usize) -> Option<&Node<'a>> {
        match &self.value {
            Value::List(items) => items.get(index),
            _ => None,
        }
    }

    fn item_called(&self, name: &str) -> Option<(usize, &Node<'a>)> {
        let Value::List(items) = &self.value else { return None };
        items.iter().enumerate().find(|(_, item)| item.get("name").and_then(Node::as_text) == Some(name))
    }

    fn find(&self, name: &str) -> (Option<&Node<'a>>, Option<&'static [&'static str]>) {
        const DETOURS: [&[&str]; 4] = [&[], &["resources"], &["template"], &["template", "resources"]];
        for detour in DETOURS {
            let holder = detour.iter().try_fold(self, |node, step| node.get(step));
            if let Some(found) = holder.and_then(|holder| holder.get(name)) {
                return (Some(found), Some(detour));
            }
        }
        (None, None)
    }
}

/// Refuses a map in which a key stands twice: which one counts would be anybody's guess.
pub(crate) fn check_keys(entries: &[Entry<'_>]) -> Result<(), Problem> {
    /// Up to this many keys, comparing each with each is faster than a set.
    const PAIRWISE_MAX: usize = 16;
    let twice = if entries.len() <= PAIRWISE_MAX {
        (1..entries.len()).find(|&later| entries[..later].iter().any(|entry| entry.key == entries[later].key))
    } else {
        let mut seen = BTreeSet::new();
        entries.iter().position(|entry| !seen.insert(&entry.key))
    };
    match twice {
        Some(index) => {
            let entry = &entries[index];
            Err(Problem::new(entry.position, ProblemKind::Duplicate(shorten(&entry.key))))
        }
        None => Ok(()),
    }
}
