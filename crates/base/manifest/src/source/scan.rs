//! A cursor over the bytes of a JSON file that knows its line and column.
//!
//! Why not `serde_json` here: it tells no place for a value that parsed well but means nonsense, and it hands fractions
//! over as floats. A test holds this reader against `serde_json` on mutated documents.

use crate::DOCUMENT_BYTES_MAX;
use crate::error::{Position, Problem, ProblemKind};
use std::borrow::Cow;

/// How often, on average, a byte may be stepped over in search of the end of a broken document.
const SKIPS_PER_BYTE: usize = 4;

/// Where the cursor stands. Copied to come back to a document's start.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(super) at: usize,
    line: u32,
    line_start: usize,
    /// Bytes of this line that begin no character, so that columns count characters.
    continuations: usize,
}

/// Reads tokens.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    pub(super) place: Place,
    /// Where the document that is being read begins; its length is bounded from there.
    pub(super) document_start: usize,
    /// How many more bytes may be stepped over in search of the ends of broken documents. Each search may run to the
    /// end of the file, so without a bound a file of broken beginnings would take time that grows with its square.
    skip_budget: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let place = Place { at: 0, line: 1, line_start: 0, continuations: 0 };
        Scanner { bytes, place, document_start: 0, skip_budget: bytes.len().saturating_mul(SKIPS_PER_BYTE) }
    }

    /// A scanner that has come to byte `at` of `bytes`.
    pub(super) fn starting_at(bytes: &'a [u8], at: usize) -> Self {
        let before = bytes.get(..at).unwrap_or(bytes);
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let newlines = before.iter().filter(|byte| **byte == b'\n').count();
        let continuations = before[line_start..].iter().filter(|byte| **byte & 0xc0 == 0x80).count();
        let line = u32::try_from(newlines).unwrap_or(u32::MAX - 1) + 1;
        let mut scanner = Scanner::new(bytes);
        scanner.place = Place { at, line, line_start, continuations };
        scanner
    }

    /// The byte under the cursor, after white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.place.at) {
            match byte {
                b' ' | b'\t' | b'\r' => self.place.at += 1,
                b'\n' => self.line_break(),
                _ => return Some(byte),
            }
        }
        None
    }

    /// Whether the cursor, after white space, stands on a line that begins with `---`, as between documents of YAML;
    /// then steps over it.
    pub(super) fn take_separator(&mut self) -> bool {
        self.peek();
        let rest = self.bytes.get(self.place.at..).unwrap_or_default();
        let is_alone = rest.get(3).is_none_or(u8::is_ascii_whitespace);
        let found = self.place.at == self.place.line_start && rest.starts_with(b"---") && is_alone;
        self.place.at += if found { 3 } else { 0 };
        found
    }

    /// Whether the byte under the cursor, after white space, is `byte`; then steps over it.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.place.at += usize::from(found);
        found
    }

    pub(super) fn position(&self) -> Position {
        let Place { at, line, line_start, continuations } = self.place;
        Position { line, column: u32::try_from(at - line_start - continuations).unwrap_or(u32::MAX - 1) + 1 }
    }

    pub(super) fn check_length(&self) -> Result<(), Problem> {
        if self.place.at - self.document_start > DOCUMENT_BYTES_MAX {
            return Err(Problem::new(self.position(), ProblemKind::TooLarge { bytes: None, listed: false }));
        }
        Ok(())
    }

    pub(super) fn unexpected(&mut self, wanted: &str) -> Problem {
        let found = self.peek();
        let position = self.position();
        let found = match found {
            None => "the file ends".to_string(),
            Some(byte) if byte.is_ascii_graphic() => format!("there is `{}`", char::from(byte)),
            Some(byte) => format!("there is the byte {byte:#04x}"),
        };
        Problem::syntax(position, format!("not JSON: expected {wanted}, but {found}"))
    }

    /// Steps over `word`, which is one of the three words of JSON.
    pub(super) fn word(&mut self, word: &'static str) -> Result<(), Problem> {
        let rest = self.bytes.get(self.place.at..).unwrap_or_default();
        let ends = !rest.get(word.len()).is_some_and(u8::is_ascii_alphanumeric);
        if rest.starts_with(word.as_bytes()) && ends {
            self.place.at += word.len();
            return Ok(());
        }
        Err(self.unexpected("a value"))
    }

    /// A number, as it is written.
    pub(super) fn number(&mut self) -> Result<&'a str, Problem> {
        let start = self.place.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let Some(length) = number_length(rest) else {
            return Err(Problem::syntax(self.position(), "not JSON: expected a number such as 0, -1 or 1.5e3"));
        };
        self.place.at += length;
        Ok(std::str::from_utf8(&rest[..length]).unwrap_or_default())
    }

    /// A string, without its quotes and escapes. The cursor stands on the opening quote.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Problem> {
        self.place.at += 1;
        let first = self.run()?;
        if self.bytes.get(self.place.at) == Some(&b'"') {
            self.place.at += 1;
            return Ok(Cow::Borrowed(first));
        }
        let mut text = first.to_string();
        loop {
            match self.bytes.get(self.place.at) {
                Some(b'"') => {
                    self.place.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => text.push_str(self.run()?),
            }
        }
    }

    /// Plain characters up to a quote or a backslash.
    fn run(&mut self) -> Result<&'a str, Problem> {
        let bytes = self.bytes;
        let rest = bytes.get(self.place.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20);
        let run = &rest[..length.unwrap_or(rest.len())];
        let text = std::str::from_utf8(run).map_err(|error| {
            self.place.at += error.valid_up_to();
            Problem::new(self.position(), ProblemKind::Encoding("there is a byte that is not UTF-8".to_string()))
        })?;
        self.place.at += run.len();
        if !text.is_ascii() {
            self.place.continuations += text.bytes().filter(|byte| byte & 0xc0 == 0x80).count();
        }
        match length.map(|length| rest[length]) {
            Some(b'"' | b'\\') => Ok(text),
            Some(_) => {
                Err(Problem::syntax(self.position(), "not JSON: a control character in a string; write `\\n`, `\\t` …"))
            }
            None => Err(Problem::syntax(self.position(), "not JSON: the file ends inside a string")),
        }
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let position = self.position();
        self.place.at += 2;
        let character = match self.bytes.get(self.place.at - 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => match self.unicode() {
                Some(character) => character,
                None => return Err(Problem::syntax(position, "not JSON: `\\u` needs four hex digits of a character")),
            },
            _ => return Err(Problem::syntax(position, "not JSON: unknown escape; a backslash is written `\\\\`")),
        };
        Ok(character)
    }

    /// One character from one or, above the basic plane, two groups of four hex digits.
    fn unicode(&mut self) -> Option<char> {
        let high = self.hex()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        if self.bytes.get(self.place.at..self.place.at + 2) != Some(b"\\u".as_slice()) {
            return None;
        }
        self.place.at += 2;
        let low = self.hex()?;
        if !(0xdc00..0xe000).contains(&low) {
            return None;
        }
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.place.at..self.place.at + 4)?;
        let value = digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))?;
        self.place.at += 4;
        Some(value)
    }

    /// Steps from the start of a broken value over its end, as far as brackets and quotes can tell; whether there is
    /// one.
    pub(super) fn skip_value(&mut self) -> bool {
        let start = self.place.at;
        let found = self.skip_to_end(start.saturating_add(self.skip_budget));
        self.skip_budget = self.skip_budget.saturating_sub(self.place.at - start);
        found
    }

    fn skip_to_end(&mut self, limit: usize) -> bool {
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            if self.place.at >= limit {
                return false;
            }
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return true,
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => return true,
                b'"' if !self.skip_string() => return false,
                b'"' => {}
                _ => {}
            }
            self.place.at += usize::from(byte != b'"');
            if depth == 0 && matches!(byte, b'}' | b']') {
                return true;
            }
        }
        false
    }

    fn skip_string(&mut self) -> bool {
        self.place.at += 1;
        while let Some(&byte) = self.bytes.get(self.place.at) {
            match byte {
                b'"' => {
                    self.place.at += 1;
                    return true;
                }
                b'\\' => self.place.at += 1,
                b'\n' => {
                    // No string spans lines: the quote that should have closed it is missing.
                    return false;
                }
                _ => {}
            }
            self.place.at += 1;
        }
        false
    }

    /// Steps to the next line that opens a document; whether there is one.
    pub(super) fn skip_to_next_document(&mut self) -> bool {
        while let Some(&byte) = self.bytes.get(self.place.at) {
            if byte != b'\n' {
                self.place.at += 1;
                continue;
            }
            self.line_break();
            if matches!(self.bytes.get(self.place.at), Some(b'{' | b'[')) {
                return true;
            }
        }
        false
    }

    fn line_break(&mut self) {
        self.place.at += 1;
        self.place.line = self.place.line.saturating_add(1);
        self.place.line_start = self.place.at;
        self.place.continuations = 0;
    }
}

/// How many bytes the number at the start of `bytes` takes.
fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits_from = |start: usize| {
        let count = bytes.get(start..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(start + count)
    };
    let start = usize::from(bytes.first() == Some(&b'-'));
    let mut end = digits_from(start)?;
    if bytes[start] == b'0' && end > start + 1 {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        end = digits_from(end + 1)?;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        end = digits_from(end + 1 + sign)?;
    }
    Some(end)
}
