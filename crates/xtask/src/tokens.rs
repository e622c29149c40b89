//! Rust text cut into tokens: enough to look past comments and strings without a whole parser.
//!
//! Comments vanish, strings and characters become one [`Kind::Text`] token without content, so a rule that looks for a
//! word can neither be fooled by prose nor miss code that shares a line with it.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword; raw identifiers lose their `r#`.
    Word,
    /// A number without a fraction, exponent or float suffix.
    Integer,
    /// A number with one of those.
    Float,
    /// A string, byte string, C string or character; its content is dropped.
    Text,
    /// A lifetime or loop label, without its quote.
    Lifetime,
    /// `::`, `..`, or one character of punctuation.
    Symbol,
}

/// One token and the line (from 1) it starts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its text; empty for [`Kind::Text`].
    pub(crate) text: String,
    /// Where it starts.
    pub(crate) line: usize,
}

impl Token {
    /// Whether this is the given identifier, keyword or symbol.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Symbol) && self.text == text
    }
}

/// Cuts Rust source text into tokens.
pub(crate) fn tokenise(text: &str) -> Vec<Token> {
    let mut reader = Reader { characters: text.chars().collect(), position: 0, line: 1, tokens: Vec::new() };
    while reader.step() {}
    reader.tokens
}

/// A position in the text and what was read so far.
struct Reader {
    characters: Vec<char>,
    position: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Reader {
    /// The character `ahead` places further on, or NUL past the end.
    fn peek(&self, ahead: usize) -> char {
        self.characters.get(self.position + ahead).copied().unwrap_or('\0')
    }

    /// Moves on by one character and counts lines.
    fn advance(&mut self) {
        if self.peek(0) == '\n' {
            self.line += 1;
        }
        self.position += 1;
    }

    /// Moves on while `keep` holds and returns what was passed.
    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let start = self.position;
        while self.position < self.characters.len() && keep(self.peek(0)) {
            self.advance();
        }
        self.characters[start..self.position].iter().collect()
    }

    fn push(&mut self, kind: Kind, text: String, line: usize) {
        self.tokens.push(Token { kind, text, line });
    }

    /// Reads one token or passes one space or comment; false at the end of the text.
    fn step(&mut self) -> bool {
        if self.position >= self.characters.len() {
            return false;
        }
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => drop(self.take_while(|character| character != '\n')),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            (first, _) if first.is_whitespace() => self.advance(),
            (first, _) if first.is_ascii_digit() => self.number(),
            (first, _) if is_word_start(first) => self.word_or_prefixed_string(),
            _ => self.symbol(),
        }
        true
    }

    /// Passes a block comment, which may hold others.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.position < self.characters.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.advance();
                    continue;
                }
            }
            self.advance();
            self.advance();
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads a string with escapes; the position is on its opening quote.
    fn string(&mut self) {
        self.until_closing('"');
    }

    /// Passes an opening quote and everything up to its unescaped partner.
    fn until_closing(&mut self, quote: char) {
        let line = self.line;
        self.advance();
        while self.position < self.characters.len() && self.peek(0) != quote {
            if self.peek(0) == '\\' {
                self.advance();
            }
            self.advance();
        }
        self.advance();
        self.push(Kind::Text, String::new(), line);
    }

    /// Reads a character or a lifetime: `'a'` against `'a`.
    fn quote(&mut self) {
        if self.peek(1) == '\\' || self.peek(2) == '\'' {
            self.until_closing('\'');
            return;
        }
        let line = self.line;
        self.advance();
        let name = self.take_while(is_word_part);
        self.push(Kind::Lifetime, name, line);
    }

    /// Reads a word, or one of the strings that start with a letter: `r"…"`, `br#"…"#`, `b'…'`, `c"…"`, and `r#word`.
    fn word_or_prefixed_string(&mut self) {
        let line = self.line;
        let word = self.take_while(is_word_part);
        let raw = matches!(word.as_str(), "r" | "br" | "cr");
        let plain = matches!(word.as_str(), "b" | "c");
        let marks = self.characters[self.position..].iter().take_while(|character| **character == '#').count();
        if raw && self.peek(marks) == '"' {
            self.raw_string(marks);
        } else if plain && self.peek(0) == '"' {
            self.string();
        } else if word == "b" && self.peek(0) == '\'' {
            self.until_closing('\'');
        } else if word == "r" && marks == 1 && is_word_start(self.peek(1)) {
            self.advance();
            let name = self.take_while(is_word_part);
            self.push(Kind::Word, name, line);
        } else {
            self.push(Kind::Word, word, line);
        }
    }

    /// Passes a raw string; the position is on the first of its `marks` hash signs.
    fn raw_string(&mut self, marks: usize) {
        let line = self.line;
        (0..=marks).for_each(|_| self.advance());
        while self.position < self.characters.len() {
            let closes = self.peek(0) == '"' && (1..=marks).all(|ahead| self.peek(ahead) == '#');
            self.advance();
            if closes {
                (0..marks).for_each(|_| self.advance());
                break;
            }
        }
        self.push(Kind::Text, String::new(), line);
    }

    /// Reads a number. After a dot it is the index of a tuple field: `pair.0.1` holds no float.
    fn number(&mut self) {
        let line = self.line;
        let tuple_index = self.tokens.last().is_some_and(|last| last.is("."));
        if tuple_index || (self.peek(0) == '0' && matches!(self.peek(1), 'x' | 'o' | 'b')) {
            let text = self.take_while(if tuple_index { is_digit } else { is_word_part });
            self.push(Kind::Integer, text, line);
            return;
        }
        let mut text = self.take_while(is_digit);
        let mut float = false;
        if self.peek(0) == '.' && self.peek(1) != '.' && !is_word_start(self.peek(1)) {
            float = true;
            self.advance();
            text.push('.');
            text.push_str(&self.take_while(is_digit));
        }
        let exponent_digit = if matches!(self.peek(1), '+' | '-') { self.peek(2) } else { self.peek(1) };
        if matches!(self.peek(0), 'e' | 'E') && exponent_digit.is_ascii_digit() {
            float = true;
            self.advance();
            self.advance();
        }
        let suffix = self.take_while(is_word_part);
        float |= suffix.ends_with("f32") || suffix.ends_with("f64");
        text.push_str(&suffix);
        self.push(if float { Kind::Float } else { Kind::Integer }, text, line);
    }

    fn symbol(&mut self) {
        let line = self.line;
        let first = self.peek(0);
        let double = matches!((first, self.peek(1)), (':', ':') | ('.', '.'));
        self.advance();
        if double {
            self.advance();
        }
        self.push(Kind::Symbol, String::from(first).repeat(if double { 2 } else { 1 }), line);
    }
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || character == '_'
}

fn is_word_start(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn is_word_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokenise(text).into_iter().filter(|token| token.kind == Kind::Word).map(|token| token.text).collect()
    }

    fn kinds(text: &str) -> Vec<Kind> {
        tokenise(text).into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn comments_and_strings_hold_no_words() {
        assert_eq!(words("a // b\n c /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r###"a "b \" c" d r#"e " f"# g b"h" br##"i "# j"## k c"l""###), ["a", "d", "g", "k"]);
        assert_eq!(words("let quote = '\"'; after"), ["let", "quote", "after"]);
        assert_eq!(words(r"let slash = '\''; after; b'\'' more"), ["let", "slash", "after", "more"]);
    }

    #[test]
    fn lifetimes_are_not_characters() {
        assert_eq!(words("fn f<'a>(x: &'a str, y: char) { 'x' }"), ["fn", "f", "x", "str", "y", "char"]);
        assert_eq!(words("r#match r#\"text\"#"), ["match"]);
    }

    #[test]
    fn floats_are_told_from_ranges_methods_and_tuple_fields() {
        for float in ["1.5", "1.", "2e3", "2E-3", "1f64", "1_000.0_f32", "7f32"] {
            assert_eq!(kinds(float), [Kind::Float], "{float}");
        }
        for text in ["1..2", "1.max(2)", "pair.0.1", "0xE5", "0b1", "1_000_u64", "0..=9", "1usize"] {
            assert!(!kinds(text).contains(&Kind::Float), "{text}");
        }
        assert!(kinds("0..1.5").contains(&Kind::Float));
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let tokens = tokenise("\"one\ntwo\" /* three\n */ word");
        assert_eq!(tokens.last().map(|token| (token.text.as_str(), token.line)), Some(("word", 3)));
    }
}
