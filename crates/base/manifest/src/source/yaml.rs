//! YAML documents. The file is cut at its `---` and `...` lines first, so that a broken document ends where the next
//! one begins; each piece is then parsed by the event parser below `serde-saphyr`, which knows the place of every
//! event.

use super::Sink;
use crate::error::{Position, Problem, ProblemKind};
use crate::text::shorten;
use crate::tree::{Entry, Node, Value, check_keys};
use crate::{ALIAS_NODES_MAX, DEPTH_MAX, DOCUMENT_BYTES_MAX};
use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Reads every document; whether there was anything to read.
pub(super) fn read<'a>(bytes: &'a [u8], sink: Sink<'_, 'a>, is_over: &Cell<bool>) -> bool {
    let mut found = false;
    for piece in pieces(bytes).iter().take_while(|_| !is_over.get()) {
        if let Err(problem) = read_piece(piece, sink, &mut found) {
            found = true;
            sink(Err(problem));
        }
    }
    found
}

/// One document's bytes, its marker line included.
struct Piece<'a> {
    bytes: &'a [u8],
    /// How many lines come before it.
    lines_before: u32,
}

fn pieces(bytes: &[u8]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut start_line, mut has_content) = (0, 0, false);
    let mut at = 0;
    for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let end = at + line.len();
        if is_marker(line, b"---") {
            // Comments and directives before the marker belong to the document that it opens.
            if has_content {
                pieces.push(Piece { bytes: &bytes[start..at], lines_before: start_line });
                (start, start_line) = (at, number);
            }
            has_content = true;
        } else if is_marker(line, b"...") {
            pieces.push(Piece { bytes: &bytes[start..at], lines_before: start_line });
            (start, start_line, has_content) = (end, number.saturating_add(1), false);
        } else {
            let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
            has_content |= !matches!(first, None | Some(b'#')) && line[0] != b'%';
        }
        at = end;
    }
    if has_content {
        pieces.push(Piece { bytes: &bytes[start..], lines_before: start_line });
    }
    pieces
}

fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

fn read_piece<'a>(piece: &Piece<'a>, sink: Sink<'_, 'a>, found: &mut bool) -> Result<(), Problem> {
    let start = Position { line: piece.lines_before.saturating_add(1), column: 1 };
    let text = std::str::from_utf8(piece.bytes).map_err(|error| {
        let before = &piece.bytes[..error.valid_up_to()];
        let lines = before.iter().filter(|&&byte| byte == b'\n').count();
        let line = start.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        let last = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let column = u32::try_from(String::from_utf8_lossy(last).chars().count()).unwrap_or(u32::MAX - 1) + 1;
        let what = ProblemKind::Encoding("there is a byte that is not UTF-8".to_string());
        Problem::new(Position { line, column }, what)
    })?;
    if text.len() > DOCUMENT_BYTES_MAX {
        let listed = text.contains("kind: List");
        return Err(Problem::new(start, ProblemKind::TooLarge { bytes: Some(text.len()), listed }));
    }
    let mut reader = Reader::new(text, piece.lines_before);
    while let Some(node) = reader.document()? {
        *found |= node.value != Value::Null;
        unpack(node, sink);
    }
    Ok(())
}

/// Hands over one document, or each document of a list of them. An empty one is nobody's mistake.
fn unpack<'a>(node: Node<'a>, sink: Sink<'_, 'a>) {
    let is_list = node.get("kind").and_then(Node::as_text) == Some("List");
    match node.value {
        Value::Null => {}
        Value::List(items) => items.into_iter().for_each(|item| sink(Ok(item))),
        Value::Map(entries) if is_list => {
            let items = entries.into_iter().find(|entry| entry.key == "items");
            match items.map(|items| (items.position, items.value.value)) {
                Some((_, Value::List(items))) => items.into_iter().for_each(|item| sink(Ok(item))),
                Some((position, _)) => sink(Err(Problem::syntax(position, "`items` must be a list of documents"))),
                None => sink(Err(Problem::syntax(node.position, "`kind: List` needs `items`: a list of documents"))),
            }
        }
        value => sink(Ok(Node::new(node.position, value))),
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    lines_before: u32,
    anchors: BTreeMap<usize, Node<'a>>,
    /// Values copied for anchors and aliases so far, and bytes of text in them; bounded, or a few lines could grow to
    /// gigabytes.
    copied: Size,
    /// Values read so far: the difference before and after one is its size.
    read: Size,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, lines_before: u32) -> Self {
        let mut options = granit_parser::Options::default();
        options.set_emit_comments(false);
        let parser = Parser::new_from_str_with_options(text, options);
        Reader { parser, lines_before, anchors: BTreeMap::new(), copied: Size::default(), read: Size::default() }
    }

    /// The next document of this piece.
    fn document(&mut self) -> Result<Option<Node<'a>>, Problem> {
        loop {
            match self.next()? {
                Some((Event::DocumentStart(..), _)) => break,
                Some((Event::StreamEnd, _)) | None => return Ok(None),
                Some(_) => {}
            }
        }
        let (event, span) = self.event()?;
        self.value(event, span, 1).map(Some)
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Problem> {
        self.parser.next_event().transpose().map_err(|error| self.broken(&error))
    }

    fn event(&mut self) -> Result<(Event<'a>, Span), Problem> {
        let position = Position { line: self.lines_before.saturating_add(1), column: 1 };
        self.next()?.ok_or_else(|| Problem::syntax(position, "not YAML: the document ends too early"))
    }

    fn value(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node<'a>, Problem> {
        let position = self.position(&span.start);
        let before = self.read;
        self.read.nodes += 1;
        let deep = matches!(event, Event::SequenceStart(..) | Event::MappingStart(..)) && depth > DEPTH_MAX;
        if deep {
            return Err(Problem::new(position, ProblemKind::TooDeep));
        }
        let (value, anchor) = match event {
            Event::Alias(id) => return self.alias(id, position),
            Event::Scalar(text, style, anchor, tag) => {
                self.read.bytes += text.len();
                (scalar(text, style, tag.as_deref(), position)?, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(tag.as_deref(), position)?;
                (self.list(depth)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.as_deref(), position)?;
                (self.map(depth)?, anchor)
            }
            _ => return Err(Problem::syntax(position, "not YAML: expected a value")),
        };
        let node = Node::new(position, value);
        if anchor != 0 {
            let size = Size { nodes: self.read.nodes - before.nodes, bytes: self.read.bytes - before.bytes };
            self.count_copies(size, position)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, position: Position) -> Result<Node<'a>, Problem> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(Problem::syntax(position, "an alias inside the value that it names has no end"));
        };
        let size = size(node);
        let mut node = node.clone();
        node.position = position;
        self.read.add(size);
        self.count_copies(size, position)?;
        Ok(node)
    }

    /// What aliases stand for may be no longer than what a document may write out.
    fn count_copies(&mut self, more: Size, position: Position) -> Result<(), Problem> {
        self.copied.add(more);
        if self.copied.nodes > ALIAS_NODES_MAX || self.copied.bytes > DOCUMENT_BYTES_MAX {
            return Err(Problem::new(position, ProblemKind::TooManyAliases));
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<Value<'a>, Problem> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.value(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value<'a>, Problem> {
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.event()?;
            let position = self.position(&span.start);
            let (key, plain) = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, ..) => (text, style == ScalarStyle::Plain),
                _ => return Err(Problem::syntax(position, "a key must be a plain text")),
            };
            let (event, span) = self.event()?;
            let value = self.value(event, span, depth + 1)?;
            if plain && key == "<<" {
                merged.push(value);
            } else {
                entries.push(Entry { position, key, value });
            }
        }
        check_keys(&entries)?;
        if !merged.is_empty() {
            merge(&mut entries, merged)?;
        }
        Ok(Value::Map(entries))
    }

    fn position(&self, marker: &Marker) -> Position {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX - 1);
        Position { line: count(marker.line()).saturating_add(self.lines_before), column: count(marker.col()) + 1 }
    }

    fn broken(&self, error: &ScanError) -> Problem {
        let position = self.position(error.marker());
        match error.kind() {
            granit_parser::ErrorKind::RecursionLimitExceeded => Problem::new(position, ProblemKind::TooDeep),
            _ => Problem::syntax(position, format!("not YAML: {}", shorten(&error.info()))),
        }
    }
}

/// `<<`: adds the entries of other maps for keys that are not there. The first one given wins.
fn merge<'a>(entries: &mut Vec<Entry<'a>>, merged: Vec<Node<'a>>) -> Result<(), Problem> {
    let mut present: BTreeSet<Cow<'a, str>> = entries.iter().map(|entry| entry.key.clone()).collect();
    for value in merged {
        let maps = match value.value {
            Value::List(maps) => maps,
            map => vec![Node::new(value.position, map)],
        };
        for map in maps {
            let Value::Map(more) = map.value else {
                let message = "`<<` takes a map, or a list of maps, such as `<<: *defaults`";
                return Err(Problem::syntax(map.position, message));
            };
            entries.extend(more.into_iter().filter(|entry| present.insert(entry.key.clone())));
        }
    }
    Ok(())
}

/// How much a value holds.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    /// Of texts, keys included.
    bytes: usize,
}

impl Size {
    fn add(&mut self, more: Size) {
        self.nodes += more.nodes;
        self.bytes += more.bytes;
    }
}

fn size(node: &Node<'_>) -> Size {
    let mut sum = Size { nodes: 1, bytes: 0 };
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| sum.add(size(item))),
        Value::Map(entries) => {
            for entry in entries {
                sum.bytes += entry.key.len();
                sum.add(size(&entry.value));
            }
        }
        Value::Text(text) | Value::Number(text) => sum.bytes += text.len(),
        Value::Null | Value::Bool(_) => {}
    }
    sum
}

fn refuse_tag(tag: Option<&Tag>, position: Position) -> Result<(), Problem> {
    match tag {
        Some(tag) => {
            let message = format!("the tag `{}` is not supported; write the plain value", shorten(&tag.original()));
            Err(Problem::syntax(position, message))
        }
        None => Ok(()),
    }
}

/// A scalar by the core schema of YAML 1.2: `yes` and `on` are texts, not truths.
fn scalar<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    position: Position,
) -> Result<Value<'a>, Problem> {
    if tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str")) {
        return Ok(Value::Text(text));
    }
    refuse_tag(tag, position)?;
    if style != ScalarStyle::Plain {
        return Ok(Value::Text(text));
    }
    Ok(match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number if is_number(number) => Value::Number(text),
        _ => Value::Text(text),
    })
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.'))
        && crate::quantity::Decimal::parse(text).is_some_and(|decimal| decimal.rest.is_empty())
}
