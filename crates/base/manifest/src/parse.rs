//! The way from files to documents.

use crate::BROKEN_MAX;
use crate::document::{Dialect, Document};
use crate::error::{DocumentError, Position, Problem, ProblemKind};
use crate::kinds;
use crate::path::FieldPath;
use crate::source;
use crate::tree::Node;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// One answer per document, in the order of the file.
pub type Verdicts = Vec<Result<Document, DocumentError>>;

/// Reads every document of one file. A malformed document does not harm the others; what belongs to no document, such
/// as a bracket too many, is an answer of its own, so there is at least one answer unless the file is an empty list.
pub fn parse(file_name: &str, bytes: &[u8]) -> Verdicts {
    parse_files(Dialect::Ohm, &[(file_name, bytes)]).pop().unwrap_or_default()
}

/// Reads every document of one file as [`parse`] does and hands out each answer as it is found, as long as `take` wants
/// more: a long file is never in memory twice, and may be read with pauses.
pub fn parse_each(file_name: &str, bytes: &[u8], take: &mut dyn FnMut(Result<Document, DocumentError>) -> bool) {
    read_file(Dialect::Ohm, &mut Input { name: file_name, bytes, tail: None }, take);
}

/// Reads several files, given by name and bytes. The answers come file by file.
pub fn parse_files(dialect: Dialect, files: &[(&str, &[u8])]) -> Vec<Verdicts> {
    let mut files: Vec<Input<'_>> = files.iter().map(|&(name, bytes)| Input { name, bytes, tail: None }).collect();
    parse_inputs(dialect, &mut files)
}

/// A file, and perhaps who reads the second half of it meanwhile.
pub struct Input<'i> {
    /// Its name.
    pub name: &'i str,
    /// What is in it.
    pub bytes: &'i [u8],
    /// Where the second half begins ([`middle`]), and what gets its documents ([`parse_tail`]): called at most once,
    /// when everything before has been read and the half is known to begin there.
    pub tail: Option<(usize, &'i mut dyn FnMut() -> Option<Tail>)>,
}

/// The documents of the second half of a file.
pub struct Tail {
    documents: Vec<Document>,
    end: source::Place,
}

/// Where a file of one long list may be cut, so that two can read it at once. A guess that needs no more than a look at
/// the middle; the reading of the first half finds out whether it holds.
pub fn middle(file_name: &str, bytes: &[u8]) -> Option<usize> {
    source::middle(file_name, bytes)
}

/// Reads the second half of a file, from byte `at`. Nothing if a document there is broken: then the reader of the first
/// half goes on by itself, and tells what is wrong.
pub fn parse_tail(dialect: Dialect, file_name: &str, bytes: &[u8], at: usize) -> Option<Tail> {
    let file = Arc::from(file_name);
    let (mut documents, mut is_whole) = (Vec::new(), true);
    let end = source::read_tail(bytes, at, &mut |node| {
        // What follows a broken document is not worth reading: it is read again.
        let document =
            if is_whole { node.ok().and_then(|node| kinds::decode(dialect, &file, &node).ok()) } else { None };
        is_whole &= document.is_some();
        documents.extend(document);
    })?;
    is_whole.then_some(Tail { documents, end })
}

/// Reads several files as [`parse_files`] does.
pub fn parse_inputs(dialect: Dialect, files: &mut [Input<'_>]) -> Vec<Verdicts> {
    let read = |file: &mut Input<'_>| {
        let mut verdicts = Vec::new();
        read_file(dialect, file, &mut |verdict| {
            verdicts.push(verdict);
            true
        });
        verdicts
    };
    files.iter_mut().map(read).collect()
}

/// Takes an answer; false when no more are wanted.
type Take<'t> = &'t mut dyn FnMut(Result<Document, DocumentError>) -> bool;

fn read_file(dialect: Dialect, input: &mut Input<'_>, take: Take<'_>) {
    let file: &Arc<str> = &Arc::from(input.name);
    let mut names: Names = BTreeMap::new();
    let (mut broken, mut first_omitted) = (0, Position::default());
    let is_over = Cell::new(false);
    let mut judge = |verdict: Result<Document, DocumentError>| {
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
        is_over.set(is_over.get() || !take(verdict));
    };
    // The documents of the second half wait here for what comes after them.
    let tail: RefCell<Vec<Document>> = RefCell::default();
    let mut end = input.tail.as_mut().map(|(at, read)| {
        let end = || {
            let Tail { documents, end } = read()?;
            tail.replace(documents);
            Some(end)
        };
        (*at, end)
    });
    let resume = end.as_mut().map(|(at, end)| source::Resume { at: *at, end });
    let mut sink = |node: Result<Node<'_>, Problem>| {
        tail.take().into_iter().for_each(|document| judge(Ok(document)));
        if is_over.get() {
            return;
        }
        judge(match node {
            Ok(node) => kinds::decode(dialect, file, &node),
            Err(problem) => Err(DocumentError { file: file.clone(), problems: vec![problem], omitted: 0 }),
        });
    };
    source::read(file, input.bytes, source::Reading { sink: &mut sink, resume, is_over: &is_over });
    tail.take().into_iter().for_each(|document| judge(Ok(document)));
    if broken > BROKEN_MAX && !is_over.get() {
        let omitted = ProblemKind::ManyBroken(broken - BROKEN_MAX);
        take(Err(error(file, first_omitted, FieldPath::root(), omitted)));
    }
}

/// The line of each name, by kind.
type Names = BTreeMap<&'static str, BTreeMap<String, u32>>;

/// Refuses the second document of one name: nobody could say which one is meant.
fn check_name(document: Document, names: &mut Names) -> Result<Document, DocumentError> {
    let (kind, Some(name)) = document.content.identity() else { return Ok(document) };
    let names = names.entry(kind).or_default();
    match names.entry(name.to_string()) {
        Entry::Occupied(found) => {
            let (name, line) = (name.to_string(), *found.get());
            let origin = &document.origin;
            let field = FieldPath::root().field("metadata").field("name");
            Err(error(&origin.file, origin.position, field, ProblemKind::SameName { kind, name, line }))
        }
        Entry::Vacant(free) => {
            free.insert(document.origin.position.line);
            Ok(document)
        }
    }
}

fn error(file: &Arc<str>, position: Position, field: FieldPath, kind: ProblemKind) -> DocumentError {
    DocumentError { file: file.clone(), problems: vec![Problem { position, field, kind }], omitted: 0 }
}
