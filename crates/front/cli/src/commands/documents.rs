//! Job files on their way to the server. They are not parsed here: the server says the same to every client.

use std::path::Path;

/// A YAML file longer than this goes in several parts, each of whole documents.
pub(crate) const PART_BYTES: usize = 8 << 20;

/// What a file holds, as a content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// YAML.
    Yaml,
    /// JSON: one document, several, or a list.
    Json,
    /// One JSON document per line; may be of any length.
    Lines,
}

impl Language {
    /// By the name of the file, or by its first character under any other name.
    pub(crate) fn of(path: &Path, bytes: &[u8]) -> Self {
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        match extension.as_deref().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml") => Language::Yaml,
            Some("json") => Language::Json,
            Some("ndjson" | "jsonl") => Language::Lines,
            _ => match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'{' | b'[') => Language::Json,
                _ => Language::Yaml,
            },
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Language::Yaml => "application/yaml",
            Language::Json => "application/json",
            Language::Lines => "application/x-ndjson",
        }
    }
}

/// A piece of a file, of whole documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'f> {
    /// How many lines of the file come before it.
    pub(crate) lines_before: u64,
    /// Its content.
    pub(crate) bytes: &'f [u8],
}

/// Cuts YAML before a line that begins a document, as soon as a part has `limit` bytes. No YAML value can hold such a
/// line.
pub(crate) fn parts(bytes: &[u8], limit: usize) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut lines_before, mut lines, mut at) = (0, 0, 0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if at - start >= limit && begins_document(line) {
            parts.push(Part { lines_before, bytes: &bytes[start..at] });
            (start, lines_before) = (at, lines);
        }
        at += line.len();
        lines += 1;
    }
    parts.push(Part { lines_before, bytes: &bytes[start..] });
    parts
}

fn begins_document(line: &[u8]) -> bool {
    line.strip_prefix(b"---").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cut_between_documents_only() {
        let file = b"a: 1\n---\nb: 2\n---- no marker\n--- # c\nc: 3\n---";
        let cut = |limit| {
            let parts = parts(file, limit);
            let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes).copied().collect();
            assert_eq!(whole, file);
            parts.iter().map(|part| part.lines_before).collect::<Vec<_>>()
        };
        assert_eq!(cut(1000), [0]);
        assert_eq!(cut(1), [0, 1, 4, 6]);
        assert_eq!(cut(10), [0, 4, 6]);
        assert_eq!(parts(b"", 1), [Part { lines_before: 0, bytes: b"" }]);
    }

    #[test]
    fn the_language_follows_the_name_then_the_content() {
        for (path, content, expected) in [
            ("a.yaml", "{}", Language::Yaml),
            ("a.YML", "[", Language::Yaml),
            ("a.json", "a", Language::Json),
            ("a.jsonl", "", Language::Lines),
            ("-", " \n{}", Language::Json),
            ("jobs", "kind: Job", Language::Yaml),
        ] {
            assert_eq!(Language::of(Path::new(path), content.as_bytes()), expected, "{path}");
        }
    }
}
