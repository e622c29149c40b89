//! Sentences as wide as the terminal at most.

/// `text` on lines of at most `width` characters, broken at spaces; all lines but the first begin with `indent` spaces.
/// Without a width nothing is broken, nor is a word that is longer than a line.
pub(crate) fn wrapped(text: &str, width: Option<u16>, indent: usize) -> String {
    let Some(width) = width.map(usize::from) else { return text.to_string() };
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width, indent)).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, width: usize, indent: usize) -> String {
    if line.chars().count() <= width {
        return line.to_string();
    }
    let (mut wrapped, mut column) = (String::new(), 0);
    // Runs of spaces stay as they are, since they line things up.
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if column > indent && column + length > width {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        }
        wrapped.push_str(word);
        column += word.chars().count();
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces_and_nowhere_else() {
        for (text, width, indent, expected) in [
            ("one two three", None, 0, "one two three"),
            ("one two three", Some(13), 0, "one two three"),
            ("one two three", Some(8), 0, "one two\nthree"),
            ("Reason:    one two three", Some(18), 11, "Reason:    one two\n           three"),
            ("a-word-longer-than-all-that and more", Some(10), 2, "a-word-longer-than-all-that\n  and more"),
            ("a b\nc d e f", Some(5), 0, "a b\nc d e\nf"),
            ("", Some(5), 0, ""),
        ] {
            assert_eq!(wrapped(text, width, indent), expected, "{text:?} {width:?}");
        }
    }
}
