//! What can be wrong with a file, said so that the reader knows where to look and what would be right.

use crate::path::FieldPath;
use crate::quantity::QuantityError;
use crate::{ALIAS_NODES_MAX, BROKEN_MAX, DEPTH_MAX, DOCUMENT_BYTES_MAX};
use std::fmt;
use std::sync::Arc;

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
}

/// Where a document came from. Shown as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file's name, as the caller gave it.
    pub file: Arc<str>,
    /// Where in the file.
    pub position: Position,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.position.line, self.position.column)
    }
}

/// Why one document could not be read: every problem found in it, in the order of the file. Shown as one line per
/// problem: `file:line:column: field: what is wrong and what would be right`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// The file's name, as the caller gave it.
    pub file: Arc<str>,
    /// At least one; at most [`crate::PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How many further problems were found but not kept.
    pub omitted: usize,
}

impl std::error::Error for DocumentError {}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            let line_break = if number == 0 { "" } else { "\n" };
            write!(f, "{line_break}{}:{problem}", self.file)?;
        }
        match self.omitted {
            0 => Ok(()),
            omitted => write!(f, "\n{}: and {omitted} more problems in this document", self.file),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub position: Position,
    /// Which field; empty where the problem is not about one.
    pub field: FieldPath,
    /// What.
    pub kind: ProblemKind,
}

impl Problem {
    pub(crate) fn new(position: Position, kind: ProblemKind) -> Self {
        Problem { position, field: FieldPath::default(), kind }
    }

    pub(crate) fn syntax(position: Position, message: impl Into<String>) -> Self {
        Problem::new(position, ProblemKind::Syntax(message.into()))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.position.line, self.position.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.kind)
    }
}

/// The kinds of problems. The text says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// There is nothing in the file.
    #[error("the file holds no document; write at least one, beginning with `apiVersion: ohm/v1`")]
    Empty,
    /// The bytes are not UTF-8.
    #[error("{0}; save the file as UTF-8")]
    Encoding(String),
    /// The document is longer than one may be.
    #[error("{}", too_large(.bytes, *.listed))]
    TooLarge {
        /// How long it is, where that is known.
        bytes: Option<usize>,
        /// Whether the document is a YAML list of documents, which can be split.
        listed: bool,
    },
    /// Not YAML, or not JSON.
    #[error("{0}")]
    Syntax(String),
    /// Lists and maps inside each other beyond the bound.
    #[error("nested more than {DEPTH_MAX} levels deep; no document of Ohm needs that")]
    TooDeep,
    /// Aliases that would blow the document up.
    #[error(
        "anchors and aliases repeat more than {ALIAS_NODES_MAX} values or {DOCUMENT_BYTES_MAX} bytes; write the document out"
    )]
    TooManyAliases,
    /// A key appears twice in one map.
    #[error("`{0}` is given twice; keep one")]
    Duplicate(String),
    /// The document has an API version other than ours.
    #[error("must be `ohm/v1`, is {0}")]
    ApiVersion(String),
    /// No kind is called this.
    #[error("no kind is called `{kind}`{}", suggestion_or_known(.nearest, .known))]
    UnknownKind {
        /// As written.
        kind: String,
        /// The likeliest meant.
        nearest: Option<&'static str>,
        /// All that are read.
        known: &'static [&'static str],
    },
    /// No field is called this here.
    #[error("unknown field `{field}`{hint}")]
    UnknownField {
        /// As written.
        field: String,
        /// The likeliest meant, or the fields that are known; begins with punctuation.
        hint: String,
    },
    /// A field that must be there is not.
    #[error("`{field}` is missing: {wanted}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The value is of another type.
    #[error("must be {wanted}, is {found}")]
    WrongType {
        /// What would be right.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A quantity cannot be read.
    #[error("{0}")]
    Quantity(#[from] QuantityError),
    /// Two documents of one file have one name.
    #[error("a {kind} called `{name}` is in this file already, at line {line}; keep one or rename one")]
    SameName {
        /// The kind of document.
        kind: &'static str,
        /// The name.
        name: String,
        /// Where the first one begins.
        line: u32,
    },
    /// More documents are broken than are reported one by one.
    #[error("from here on {0} more documents of this file are broken; mend the first {BROKEN_MAX} and try again")]
    ManyBroken(usize),
    /// The value breaks a rule.
    #[error("{0}")]
    Rule(String),
}

fn too_large(bytes: &Option<usize>, listed: bool) -> String {
    let size = bytes.map_or("longer".to_string(), |bytes| format!("{bytes} bytes long"));
    let advice = if listed { "split it with `---` lines, or write JSON" } else { "split it into several documents" };
    format!("the document is {size}; at most {DOCUMENT_BYTES_MAX} bytes may be: {advice}")
}

fn suggestion_or_known(nearest: &Option<&'static str>, known: &[&str]) -> String {
    if nearest.is_some() { suggestion(nearest) } else { format!("; known: {}", known.join(", ")) }
}

fn suggestion<T: fmt::Display>(nearest: &Option<T>) -> String {
    nearest.as_ref().map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}
