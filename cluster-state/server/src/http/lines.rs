//! Lines out of a stream of pieces, without ever keeping more than a bounded part of it.

use ohm_manifest::DOCUMENT_BYTES_MAX;

/// Longest line: a document of the greatest length and some space around it.
pub(super) const LINE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 4096;
/// Complete lines are handed out when so many bytes of them have come together, or the stream ends.
const HANDED_OUT: usize = 256 << 10;

/// Collects pieces and hands out complete lines.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    complete: Vec<(u64, Result<Vec<u8>, usize>)>,
    complete_bytes: usize,
    partial: Vec<u8>,
    partial_length: usize,
    lines: u64,
}

/// Complete lines, blank ones left out.
#[derive(Debug)]
pub(super) struct Lines(Vec<(u64, Result<Vec<u8>, usize>)>);

impl Lines {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `take` with the number of each line, from 1, and its bytes; of a line that was too long, its length.
    pub(super) fn each(self, mut take: impl FnMut(u64, Result<&[u8], usize>)) {
        for (number, line) in &self.0 {
            take(*number, line.as_deref().map_err(|length| *length));
        }
    }
}

impl LineReader {
    /// Takes the next piece, or the end of the stream. Returns lines once enough have come together.
    pub(super) fn push(&mut self, piece: Option<&[u8]>) -> Lines {
        match piece {
            Some(piece) => {
                let mut parts = piece.split(|byte| *byte == b'\n').peekable();
                while let Some(part) = parts.next() {
                    self.extend(part);
                    if parts.peek().is_some() {
                        self.complete_line();
                    }
                }
            }
            None => self.complete_line(),
        }
        if piece.is_none() || self.complete_bytes >= HANDED_OUT {
            self.complete_bytes = 0;
            return Lines(std::mem::take(&mut self.complete));
        }
        Lines(Vec::new())
    }

    fn extend(&mut self, part: &[u8]) {
        self.partial_length = self.partial_length.saturating_add(part.len());
        if self.partial_length <= LINE_BYTES_MAX {
            self.partial.extend_from_slice(part);
        } else {
            self.partial = Vec::new();
        }
    }

    fn complete_line(&mut self) {
        self.lines += 1;
        let length = std::mem::take(&mut self.partial_length);
        let line = std::mem::take(&mut self.partial);
        if length > LINE_BYTES_MAX {
            self.complete.push((self.lines, Err(length)));
        } else if !line.iter().all(u8::is_ascii_whitespace) {
            self.complete_bytes += length;
            self.complete.push((self.lines, Ok(line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(u64, Result<usize, usize>)> {
        let mut reader = LineReader::default();
        let mut found = Vec::new();
        for piece in pieces.iter().map(|piece| Some(*piece)).chain([None]) {
            let lines = reader.push(piece);
            lines.each(|number, line| found.push((number, line.map(<[u8]>::len))));
        }
        found
    }

    #[test]
    fn lines_come_out_whole_whatever_pieces_they_came_in() {
        let expected = [(1, Ok(3)), (3, Ok(2)), (4, Ok(1))];
        assert_eq!(read(&[b"abc\n\nde\nf"]), expected);
        assert_eq!(read(&[b"a", b"bc", b"\n", b"\n", b"d", b"e\nf"]), expected);
        assert_eq!(read(&[b"abc\n  \r\nde\nf\n"]), expected);
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn a_line_without_end_is_counted_and_not_kept() {
        let piece = vec![b'x'; LINE_BYTES_MAX];
        let mut reader = LineReader::default();
        for _ in 0..10 {
            assert!(reader.push(Some(&piece)).is_empty());
            assert!(reader.partial.len() <= LINE_BYTES_MAX);
        }
        let mut found = Vec::new();
        reader.push(Some(b"\nshort")).each(|number, line| found.push((number, line.map(<[u8]>::len))));
        reader.push(None).each(|number, line| found.push((number, line.map(<[u8]>::len))));
        assert_eq!(found, [(1, Err(10 * LINE_BYTES_MAX)), (2, Ok(5))]);
    }
}
