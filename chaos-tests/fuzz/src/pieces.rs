//! Inputs that are several things one after another: each a byte that says what it is, a length, and bytes.

/// The parts of `input`: what each is, and its bytes. The last one may be cut short.
pub(crate) fn pieces(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [kind, low, high, rest @ ..] = input else { return None };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        input = rest;
        Some((*kind, piece))
    })
}

/// Appends a part that [`pieces`] reads back.
pub(crate) fn push_piece(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("parts of seeds are short");
    out.push(kind);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_a_cut_one_is_short() {
        let mut bytes = Vec::new();
        push_piece(&mut bytes, 7, b"one");
        push_piece(&mut bytes, 8, b"");
        push_piece(&mut bytes, 9, b"three");
        assert_eq!(pieces(&bytes).collect::<Vec<_>>(), [(7, &b"one"[..]), (8, b""), (9, b"three")]);
        assert_eq!(pieces(&bytes[..bytes.len() - 2]).last(), Some((9, &b"thr"[..])));
        assert_eq!(pieces(&[1, 2]).count(), 0);
    }
}
