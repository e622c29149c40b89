//! From bytes to trees: which of the two languages a file is in, and one verdict for each document in it.

mod json;
mod scan;
mod sink;
mod yaml;

use crate::error::{Position, Problem, ProblemKind};
pub(crate) use scan::Place;
pub(crate) use sink::{Reading, Resume, Sink};

/// Where the documents of a file may be cut in two halves; see [`read_tail`].
pub(crate) fn middle(file_name: &str, bytes: &[u8]) -> Option<usize> {
    if is_json(file_name, bytes) { json::middle(bytes) } else { None }
}

/// Reads the documents of a list from byte `at` to the end of the list; where that is.
pub(crate) fn read_tail<'a>(bytes: &'a [u8], at: usize, sink: Sink<'_, 'a>) -> Option<Place> {
    json::read_tail(bytes, at, sink)
}

/// Reads every document of a file into `sink`. `.json` files are JSON, `.yaml` and `.yml` files YAML; any other name is
/// JSON when the first character opens an object or a list.
pub(crate) fn read<'a>(file_name: &str, bytes: &'a [u8], reading: Reading<'_, '_, 'a>) {
    let Reading { sink, resume, is_over } = reading;
    const FIRST: Position = Position { line: 1, column: 1 };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        sink(Err(Problem::new(FIRST, ProblemKind::Encoding("this looks like UTF-16".to_string()))));
        return;
    }
    let found = match is_json(file_name, bytes) {
        true => json::read(bytes, sink, resume, is_over),
        false => yaml::read(bytes, sink, is_over),
    };
    if !found {
        sink(Err(Problem::new(FIRST, ProblemKind::Empty)));
    }
}

fn is_json(file_name: &str, bytes: &[u8]) -> bool {
    let extension = file_name.rsplit_once('.').map_or("", |(_, extension)| extension);
    if ["yaml", "yml"].iter().any(|yaml| extension.eq_ignore_ascii_case(yaml)) {
        return false;
    }
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    extension.eq_ignore_ascii_case("json") || matches!(first, Some(b'{' | b'['))
}
