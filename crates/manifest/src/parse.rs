//! The way from files to documents.

use crate::BROKEN_MAX;
use crate::document::{self, Dialect, Document};
use crate::error::{DocumentError, Position, Problem, ProblemKind};
use crate::path::FieldPath;
use crate::source;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One answer per document, in the order of the file.
pub type Verdicts = Vec<Result<Document, DocumentError>>;

/// Reads every document of one file. A malformed document does not harm the others; what belongs to no document, such
/// as a bracket too many, is an answer of its own, so there is at least one answer unless the file is an empty list.
pub fn parse(file_name: &str, bytes: &[u8]) -> Verdicts {
    parse_files(Dialect::Ohm, &[(file_name, bytes)]).pop().unwrap_or_default()
}

/// Reads several files, given by name and bytes. The answers come file by file.
pub fn parse_files(dialect: Dialect, files: &[(&str, &[u8])]) -> Vec<Verdicts> {
    files.iter().map(|(name, bytes)| read_file(dialect, &Arc::from(*name), bytes)).collect()
}

fn read_file(dialect: Dialect, file: &Arc<str>, bytes: &[u8]) -> Verdicts {
    let mut names: Names = BTreeMap::new();
    let mut verdicts = Vec::new();
    let (mut broken, mut first_omitted) = (0, Position::default());
    source::read(file, bytes, &mut |node| {
        let verdict = match node {
            Ok(node) => document::decode(dialect, file, &node),
            Err(problem) => Err(DocumentError { file: file.clone(), problems: vec![problem], omitted: 0 }),
        };
        let verdict = verdict.and_then(|document| check_name(document, &mut names));
        if let Err(error) = &verdict {
            broken += 1;
            if broken > BROKEN_MAX {
                // A file of 100 MB of garbage must not become gigabytes of complaints.
                if broken == BROKEN_MAX + 1 {
                    first_omitted = error.problems.first().map_or(first_omitted, |problem| problem.position);
                }
                return;
            }
        }
        verdicts.push(verdict);
    });
    if broken > BROKEN_MAX {
        let omitted = ProblemKind::ManyBroken(broken - BROKEN_MAX);
        verdicts.push(Err(error(file, first_omitted, FieldPath::root(), omitted)));
    }
    verdicts
}

/// The line of each name, by kind.
type Names = BTreeMap<&'static str, BTreeMap<String, u32>>;

/// Refuses the second document of one name: nobody could say which one is meant.
fn check_name(document: Document, names: &mut Names) -> Result<Document, DocumentError> {
    let (kind, Some(name)) = document.content.identity() else { return Ok(document) };
    let names = names.entry(kind).or_default();
    match names.get(name) {
        Some(&line) => {
            let name = name.to_string();
            let origin = &document.origin;
            let field = FieldPath::root().field("metadata").field("name");
            Err(error(&origin.file, origin.position, field, ProblemKind::SameName { kind, name, line }))
        }
        None => {
            names.insert(name.to_string(), document.origin.position.line);
            Ok(document)
        }
    }
}

fn error(file: &Arc<str>, position: Position, field: FieldPath, kind: ProblemKind) -> DocumentError {
    DocumentError { file: file.clone(), problems: vec![Problem { position, field, kind }], omitted: 0 }
}
