//! Paths of fields in documents, such as `spec.groups[0].requests[nvidia.com/gpu]`.

use ohm_stdx::text::shorten;
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
                    write!(f, "[{}]", shorten(name))?;
                }
                Step::Field(name) if number == 0 => f.write_str(&shorten(name))?,
                Step::Field(name) => write!(f, ".{}", shorten(name))?,
            }
        }
        Ok(())
    }
}
