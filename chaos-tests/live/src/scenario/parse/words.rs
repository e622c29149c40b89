//! Sentences word by word.

use crate::scenario::Shape;

pub(super) type Parsed<T> = Result<T, String>;

/// The words of a sentence, taken from the front.
pub(super) struct Words<'t> {
    words: Vec<&'t str>,
    next: usize,
}

impl<'t> Words<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Words { words: text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect(), next: 0 }
    }

    pub(super) fn peek(&self) -> &'t str {
        self.words.get(self.next).copied().unwrap_or("")
    }

    pub(super) fn take(&mut self, wanted: &str) -> Parsed<&'t str> {
        let word = self.words.get(self.next).copied().ok_or_else(|| format!("ends where {wanted} is due"))?;
        self.next += 1;
        Ok(word)
    }

    pub(super) fn expect(&mut self, wanted: &str) -> Parsed<()> {
        match self.take(&format!("\"{wanted}\""))? {
            word if word == wanted => Ok(()),
            word => Err(format!("\"{word}\" where \"{wanted}\" is due")),
        }
    }

    /// Takes the next word if it is this one.
    pub(super) fn skip(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        self.next += usize::from(found);
        found
    }

    pub(super) fn number(&mut self, most: usize) -> Parsed<usize> {
        let word = self.take("a number")?;
        let number = word.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("\"{word}\" where a number from 1 to {most} is due"))
    }

    pub(super) fn duration(&mut self) -> Parsed<u64> {
        duration_ms(self.take("a time such as 4s or 300ms")?)
    }

    pub(super) fn process(&mut self, cell: &Shape) -> Parsed<String> {
        let word = self.take("a process")?;
        let known = cell.processes();
        match known.iter().any(|name| name == word) {
            true => Ok(word.to_string()),
            false => Err(format!("there is no process {word}; this cell has {}", known.join(", "))),
        }
    }

    pub(super) fn end(&self) -> Parsed<()> {
        match self.peek() {
            "" => Ok(()),
            word => Err(format!("\"{word}\" is too much")),
        }
    }
}

/// Reads `300ms`, `4s` or `2min`.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];
    let split = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..split].parse::<u64>().ok();
    let unit = units.iter().find(|(unit, _)| *unit == &text[split..]);
    match (number, unit) {
        (Some(number), Some((_, unit_ms))) if number <= 1_000_000 => Ok(number * unit_ms),
        _ => Err(format!("\"{text}\" where a time such as 300ms, 4s or 2min is due")),
    }
}
