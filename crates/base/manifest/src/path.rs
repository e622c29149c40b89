//! Paths of fields, such as `spec.groups[0].requests[nvidia.com/gpu]`.

use std::fmt;

/// One step down in a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Into the field or the map entry of this name.
    Field(String),
    /// Into the list item at this position, from 0.
    Item(usize),
}

/// The way from a document's root to a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<Step>);

impl FieldPath {
    /// The path of the document itself.
    pub fn root() -> Self {
        FieldPath::default()
    }

    /// Whether this is the document itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This path and one step into the field `name`.
    pub fn field(&self, name: &str) -> Self {
        self.step(Step::Field(name.to_string()))
    }

    /// This path and one step into the list item `index`.
    pub fn item(&self, index: usize) -> Self {
        self.step(Step::Item(index))
    }

    fn step(&self, step: Step) -> Self {
        FieldPath(self.0.iter().cloned().chain([step]).collect())
    }
}

impl fmt::Display for FieldPath {
    /// Names that are no plain words, such as label keys, stand in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Item(index) => write!(f, "[{index}]")?,
                Step::Field(name) if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => {
                    write!(f, "[{}]", crate::text::shorten(name))?;
                }
                Step::Field(name) if number == 0 => f.write_str(&crate::text::shorten(name))?,
                Step::Field(name) => write!(f, ".{}", crate::text::shorten(name))?,
            }
        }
        Ok(())
    }
}

/// A path that is being walked: a list on the stack, written out only when there is something to report.
#[derive(Clone, Copy)]
pub(crate) enum Trail<'s> {
    Root,
    Field(&'s Trail<'s>, &'s str),
    Item(&'s Trail<'s>, usize),
}

impl Trail<'_> {
    pub(crate) fn to_path(self) -> FieldPath {
        let mut steps = Vec::new();
        let mut trail = self;
        loop {
            trail = match trail {
                Trail::Root => break,
                Trail::Field(above, name) => {
                    steps.push(Step::Field(name.to_string()));
                    *above
                }
                Trail::Item(above, index) => {
                    steps.push(Step::Item(index));
                    *above
                }
            };
        }
        steps.reverse();
        FieldPath(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_words_stand_in_brackets() {
        let (root, spec, groups, first);
        root = Trail::Root;
        spec = Trail::Field(&root, "spec");
        groups = Trail::Field(&spec, "groups");
        first = Trail::Item(&groups, 0);
        let requests = Trail::Field(&first, "requests");
        let path = Trail::Field(&requests, "nvidia.com/gpu").to_path();
        assert_eq!(path.to_string(), "spec.groups[0].requests[nvidia.com/gpu]");
        assert_eq!(
            path,
            FieldPath::root().field("spec").field("groups").item(0).field("requests").field("nvidia.com/gpu")
        );
    }
}
