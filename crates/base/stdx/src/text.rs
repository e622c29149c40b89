//! Text on its way to a terminal or into a message: one that comes from elsewhere may hold characters that move the
//! cursor, change colours or turn the reading direction.

use std::borrow::Cow;

/// Longest piece of somebody's text that a message repeats.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Whether `character` shows nothing by itself and may change what is shown of others: control characters, marks of
/// direction, line separators, tags. Joiners are not among them: scripts need them.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` with every hidden character written out: `\n`, `\t`, `\u{1b}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// `text` on one line, without hidden characters, cut to a bearable length.
pub fn shorten(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARACTERS_MAX)
        .map(|character| if is_hidden(character) { '\u{fffd}' } else { character })
        .collect();
    if text.chars().nth(SHOWN_CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_written_out() {
        for (text, expected) in [
            ("plain, naïve, 日本語, 👩\u{200d}🔧", "plain, naïve, 日本語, 👩\u{200d}🔧"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\x1b[2Jgone\x07", "\\u{1b}[2Jgone\\u{7}"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("ab\u{202e}dc\u{2028}", "ab\\u{202e}dc\\u{2028}"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }

    #[test]
    fn shown_text_is_one_short_line() {
        assert_eq!(shorten("a\nb"), "a\u{fffd}b");
        assert_eq!(shorten(&"é".repeat(61)).chars().count(), 61);
    }
}
