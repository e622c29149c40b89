//! JSON documents: a stream of objects, with `---` lines between them or without, a list of them, or a `kind: List`
//! with `items`; in any mixture.

use super::scan::Scanner;
use super::{Place, Resume, Sink};
use crate::error::{Problem, ProblemKind};
use crate::text::shorten;
use crate::tree::{Entry, Node, Value, check_keys};
use crate::{DEPTH_MAX, DOCUMENT_BYTES_MAX};
use std::borrow::Cow;
use std::cell::Cell;

/// Reads every document; whether there was anything to read. Where `resume` is about the document at the cursor, it is
/// asked where the list ends instead.
pub(super) fn read<'a, 'r>(
    bytes: &'a [u8],
    sink: Sink<'_, 'a>,
    resume: Option<Resume<'r>>,
    is_over: &'r Cell<bool>,
) -> bool {
    let mut reader = Reader { scanner: Scanner::new(bytes), resume, is_over };
    let mut found = false;
    while let Some(byte) = reader.scanner.peek() {
        if reader.scanner.take_separator() {
            continue;
        }
        found = true;
        let start = reader.scanner.place;
        reader.scanner.document_start = start.at;
        let result = match byte {
            b'{' => reader.top_object(sink),
            b'[' => reader.documents(sink),
            _ => Err(Failure::Framing(reader.scanner.unexpected("`{` or `[`"))),
        };
        let resumed = match result {
            Ok(()) => true,
            Err(Failure::Document(problem)) => {
                sink(Err(problem));
                reader.scanner.place = start;
                reader.scanner.skip_value() || {
                    reader.scanner.place = start;
                    reader.scanner.skip_to_next_document()
                }
            }
            Err(Failure::Framing(problem)) => {
                sink(Err(problem));
                reader.scanner.skip_to_next_document()
            }
        };
        if !resumed || is_over.get() {
            break;
        }
    }
    found
}

/// Reads the documents of a list from the one that begins at byte `at` to the end of the list; where that is. Nothing
/// if any of them is broken.
pub(super) fn read_tail<'a>(bytes: &'a [u8], at: usize, sink: Sink<'_, 'a>) -> Option<Place> {
    let is_over = &Cell::new(false);
    let mut reader = Reader { scanner: Scanner::starting_at(bytes, at), resume: None, is_over };
    let mut is_whole = true;
    let read = reader.items(&mut |node| {
        is_whole &= node.is_ok();
        sink(node);
    });
    (read.is_ok() && is_whole).then_some(reader.scanner.place)
}

/// Where documents of a list may be cut in two halves: the beginning of an object whose first field is `apiVersion`,
/// after a comma. A guess: only who reads up to there knows.
pub(super) fn middle(bytes: &[u8]) -> Option<usize> {
    const FIRST_FIELD: &[u8] = b"\"apiVersion\"";
    let half = bytes.len() / 2;
    let near = bytes.get(half..bytes.len().min(half + DOCUMENT_BYTES_MAX))?;
    let before = |at: usize| bytes[..at].iter().rposition(|byte| !byte.is_ascii_whitespace());
    let found = near.windows(FIRST_FIELD.len()).enumerate().filter(|(_, window)| *window == FIRST_FIELD);
    let objects = found.filter_map(|(at, _)| before(half + at).filter(|open| bytes[*open] == b'{'));
    objects.into_iter().find(|open| before(*open).is_some_and(|comma| bytes[comma] == b','))
}

const UNCLOSED: &str = "not JSON: a quote or a bracket of this document is not closed; what follows is read again from the \
                        next line that begins with `{` or `[`";

/// How far an error reaches.
enum Failure {
    /// One document is broken.
    Document(Problem),
    /// Where the following documents begin cannot be told.
    Framing(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Document(problem)
    }
}

struct Reader<'a, 'r> {
    scanner: Scanner<'a>,
    resume: Option<Resume<'r>>,
    is_over: &'r Cell<bool>,
}

impl<'a> Reader<'a, '_> {
    /// One object at the top: a document, or a list of them. Which one is known only at `items`, because `kind` may
    /// come after it.
    fn top_object(&mut self, sink: Sink<'_, 'a>) -> Result<(), Failure> {
        let position = self.scanner.position();
        self.scanner.take(b'{');
        let mut entries = Vec::new();
        let mut listed = false;
        let mut more = !self.scanner.take(b'}');
        while more {
            let (position, key) = self.key()?;
            if key == "items" && self.scanner.peek() == Some(b'[') {
                self.documents(sink)?;
                listed = true;
                self.scanner.document_start = self.scanner.place.at;
            } else {
                let value = self.value(2)?;
                entries.push(Entry { position, key, value });
            }
            more = self.separator(b'}')?;
        }
        self.scanner.check_length()?;
        check_keys(&entries)?;
        let node = Node::new(position, Value::Map(entries));
        if !listed {
            sink(Ok(node));
        } else if node.get("kind").and_then(Node::as_text) != Some("List") {
            let found = node.get("kind").map_or("missing".to_string(), |kind| kind.description());
            let problem = ProblemKind::Rule(format!("only `kind: List` has `items`; `kind` is {found}"));
            sink(Err(Problem::new(position, problem)));
        }
        Ok(())
    }

    /// A list whose items are documents. A broken item is skipped; a broken list ends the reading of it.
    fn documents(&mut self, sink: Sink<'_, 'a>) -> Result<(), Failure> {
        self.scanner.take(b'[');
        if self.scanner.take(b']') { Ok(()) } else { self.items(sink) }
    }

    /// The items of such a list from one of them to the end.
    fn items(&mut self, sink: Sink<'_, 'a>) -> Result<(), Failure> {
        let mut more = true;
        while more && !self.is_over.get() {
            self.scanner.peek();
            let start = self.scanner.place;
            if let Some(resume) = self.resume.as_mut().filter(|resume| resume.at == start.at)
                && let Some(end) = (resume.end)()
            {
                self.scanner.place = end;
                return Ok(());
            }
            self.scanner.document_start = start.at;
            match self.document() {
                Ok(node) => sink(Ok(node)),
                Err(problem) => {
                    sink(Err(problem));
                    self.scanner.place = start;
                    if !self.scanner.skip_value() {
                        return Err(Failure::Framing(Problem::syntax(self.scanner.position(), UNCLOSED)));
                    }
                }
            }
            more = self.separator(b']').map_err(Failure::Framing)?;
        }
        Ok(())
    }

    fn document(&mut self) -> Result<Node<'a>, Problem> {
        let node = self.value(1)?;
        self.scanner.check_length()?;
        Ok(node)
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, Problem> {
        let byte = self.scanner.peek();
        let position = self.scanner.position();
        self.scanner.check_length()?;
        let value = match byte {
            Some(b'{' | b'[') if depth > DEPTH_MAX => return Err(Problem::new(position, ProblemKind::TooDeep)),
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.scanner.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(Cow::Borrowed(self.scanner.number()?)),
            Some(b't') => self.scanner.word("true").map(|()| Value::Bool(true))?,
            Some(b'f') => self.scanner.word("false").map(|()| Value::Bool(false))?,
            Some(b'n') => self.scanner.word("null").map(|()| Value::Null)?,
            _ => return Err(self.scanner.unexpected("a value")),
        };
        Ok(Node::new(position, value))
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, Problem> {
        self.scanner.take(b'{');
        let mut entries = Vec::new();
        let mut more = !self.scanner.take(b'}');
        while more {
            let (position, key) = self.key()?;
            let value = self.value(depth + 1)?;
            entries.push(Entry { position, key, value });
            more = self.separator(b'}')?;
        }
        check_keys(&entries)?;
        Ok(Value::Map(entries))
    }

    fn list(&mut self, depth: usize) -> Result<Value<'a>, Problem> {
        self.scanner.take(b'[');
        let mut items = Vec::new();
        let mut more = !self.scanner.take(b']');
        while more {
            items.push(self.value(depth + 1)?);
            more = self.separator(b']')?;
        }
        Ok(Value::List(items))
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<(crate::Position, Cow<'a, str>), Problem> {
        if self.scanner.peek() != Some(b'"') {
            return Err(self.scanner.unexpected("a key in double quotes"));
        }
        let position = self.scanner.position();
        let key = self.scanner.string()?;
        if !self.scanner.take(b':') {
            return Err(self.scanner.unexpected(&format!("`:` after the key \"{}\"", shorten(&key))));
        }
        Ok((position, key))
    }

    /// The comma before a further element, or the `end`; whether there is a further element.
    fn separator(&mut self, end: u8) -> Result<bool, Problem> {
        if self.scanner.take(b',') {
            return match self.scanner.peek() {
                Some(byte) if byte == end => Err(self.scanner.unexpected("another element after the comma")),
                _ => Ok(true),
            };
        }
        if self.scanner.take(end) {
            return Ok(false);
        }
        Err(self.scanner.unexpected(&format!("`,` or `{}`", char::from(end))))
    }
}
