//! The words of one line.

/// What is left to read of a line.
pub(crate) struct Words<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Words { words: line.split_whitespace().peekable() }
    }

    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    pub(crate) fn peek(&mut self) -> Option<&'a str> {
        self.words.peek().copied()
    }

    /// The next word, which says `what`.
    pub(crate) fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    /// Takes the next word if it is this one.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.next() {
            Some(found) if found == word => Ok(()),
            Some(found) => Err(format!("\"{word}\" belongs where \"{found}\" stands")),
            None => Err(format!("\"{word}\" is missing")),
        }
    }

    pub(crate) fn number(&mut self, what: &str) -> Result<u64, String> {
        let word = self.word(what)?;
        word.parse().map_err(|_| format!("\"{word}\" is not {what}: a whole number belongs here"))
    }

    /// A time such as `1500ms`, `5s` or `2m`.
    pub(crate) fn time_ms(&mut self) -> Result<u64, String> {
        let word = self.word("a time")?;
        signed_ms(word).and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| wrong_time(word))
    }

    /// A time that may be negative.
    pub(crate) fn span_ms(&mut self) -> Result<i64, String> {
        let word = self.word("a time")?;
        signed_ms(word).ok_or_else(|| wrong_time(word))
    }

    /// Everything that is left, in one piece.
    pub(crate) fn rest(&mut self) -> String {
        self.words.by_ref().collect::<Vec<_>>().join(" ")
    }

    /// Nothing may be left.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("\"{word}\" does not belong here; the line is over before it")),
        }
    }
}

fn wrong_time(word: &str) -> String {
    format!("\"{word}\" is no time: write a number with ms, s, m or h, such as 5s")
}

fn signed_ms(word: &str) -> Option<i64> {
    let split = word.find(|character: char| character.is_ascii_alphabetic())?;
    let (number, unit) = word.split_at(split);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit_ms)
}
