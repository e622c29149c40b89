//! Numbers of things.

/// `count` and the word for one, in the plural where it is not one.
pub(crate) fn counted(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
