//! Kubernetes quantities (`500m`, `64Gi`, `1e3`, `0.1Gi`) as exact integers.
//!
//! A quantity is a decimal number and a suffix. It is kept as mantissa, power of ten and power of two until the target
//! unit is known, so nothing is rounded twice and no float is involved.

use crate::text::{alternatives, shorten};
use ohm_model::UnitKind;

/// Which way an amount that is no whole number of units goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up: what is asked for or used.
    Up,
    /// Down: what is there.
    Down,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number at the start.
    #[error("`{0}` is not a quantity; write a number and a unit, such as `2`, `500m` or `64Gi`")]
    NotANumber(String),
    /// Below zero.
    #[error("`{0}` is negative; a quantity is 0 or more")]
    Negative(String),
    /// A number, and then something that is no unit.
    #[error("`{unit}` in `{text}` is no unit; write {instead}")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What follows the number.
        unit: String,
        /// What would be right.
        instead: String,
    },
    /// More than 64 bits can count.
    #[error("`{text}` is out of range; at most {most} can be counted")]
    OutOfRange {
        /// The whole text.
        text: String,
        /// The bound, in the unit counted.
        most: &'static str,
    },
}

/// Units by suffix: power of ten, power of two.
const UNITS: [(&str, i32, u32); 16] = [
    ("n", -9, 0),
    ("u", -6, 0),
    ("m", -3, 0),
    ("", 0, 0),
    ("k", 3, 0),
    ("M", 6, 0),
    ("G", 9, 0),
    ("T", 12, 0),
    ("P", 15, 0),
    ("E", 18, 0),
    ("Ki", 0, 10),
    ("Mi", 0, 20),
    ("Gi", 0, 30),
    ("Ti", 0, 40),
    ("Pi", 0, 50),
    ("Ei", 0, 60),
];

/// Powers of ten beyond this are out of range in every unit.
const EXPONENT_MAX: i32 = 36;

/// The amount that `text` states, in the unit of `kind`.
pub fn parse(text: &str, kind: UnitKind, rounding: Rounding) -> Result<i64, QuantityError> {
    read(text, kind, |decimal, ten, two| decimal.scaled(ten, two, rounding))
}

/// As [`parse`], rounded down, for what may be without bound: more than can be counted is as much as can be.
pub(crate) fn parse_bound(text: &str, kind: UnitKind) -> Result<i64, QuantityError> {
    read(text, kind, |decimal, ten, two| {
        let is_beyond = || decimal.is_beyond(ten, two).then_some(i64::MAX);
        decimal.scaled(ten, two, Rounding::Down).or_else(is_beyond)
    })
}

/// `count` gets the number and the powers of ten and two that its unit stands for.
fn read(
    text: &str,
    kind: UnitKind,
    count: impl FnOnce(&Decimal<'_>, i32, u32) -> Option<i64>,
) -> Result<i64, QuantityError> {
    let unit_exponent = if kind == UnitKind::Milli { 3 } else { 0 };
    let decimal = Decimal::parse(text).ok_or_else(|| QuantityError::NotANumber(shorten(text)))?;
    if decimal.negative && decimal.mantissa != 0 {
        return Err(QuantityError::Negative(shorten(text)));
    }
    let Some((_, ten, two)) = UNITS.iter().find(|(suffix, _, _)| *suffix == decimal.rest) else {
        let (text, unit) = (shorten(text), shorten(decimal.rest));
        return Err(QuantityError::UnknownUnit { text, unit, instead: right_unit(decimal.rest) });
    };
    count(&decimal, ten + unit_exponent, *two).ok_or_else(|| QuantityError::OutOfRange {
        text: shorten(text),
        most: if kind == UnitKind::Milli { "9223372036854775807 thousandths" } else { "9223372036854775807" },
    })
}

fn right_unit(unit: &str) -> String {
    let bare = unit.trim_end_matches(['b', 'B']);
    let first = bare.get(..1).unwrap_or("");
    match first {
        "k" | "K" => alternatives(&["Ki", "k"]),
        "m" | "M" if !bare.is_empty() => alternatives(&["Mi", "M", "m"]) + " (a thousandth)",
        "g" | "G" => alternatives(&["Gi", "G"]),
        "t" | "T" => alternatives(&["Ti", "T"]),
        "p" | "P" => alternatives(&["Pi", "P"]),
        _ => "no unit, or one of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei".to_string(),
    }
}

/// A decimal number at the start of a text, and what follows it.
pub(crate) struct Decimal<'a> {
    negative: bool,
    mantissa: i128,
    exponent: i32,
    /// What follows the number.
    pub(crate) rest: &'a str,
}

impl<'a> Decimal<'a> {
    /// Reads `[+-]digits[.digits][e[+-]digits]`; nothing without a digit or with more of them than can be counted.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let (exponent, rest) = exponent(rest)?;
        let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        Some(Decimal { negative, mantissa, exponent, rest })
    }

    /// The number times 10^`ten` times 2^`two`, rounded to a whole one; nothing when it does not fit.
    pub(crate) fn scaled(&self, ten: i32, two: u32, rounding: Rounding) -> Option<i64> {
        if self.mantissa == 0 {
            return Some(0);
        }
        let exponent = self.exponent.checked_add(ten)?;
        if self.negative || exponent.abs() > EXPONENT_MAX {
            return None;
        }
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        let binary = self.mantissa.checked_mul(1i128 << two)?;
        let value = match exponent {
            0.. => binary.checked_mul(power)?,
            _ if rounding == Rounding::Up => binary.checked_add(power - 1)? / power,
            _ => binary / power,
        };
        i64::try_from(value).ok()
    }

    /// Whether a number that [`Decimal::scaled`] cannot give is too large, and not merely written with more digits than
    /// can be worked with.
    fn is_beyond(&self, ten: i32, two: u32) -> bool {
        let exponent = self.exponent.saturating_add(ten);
        // 2^10 is more than 10^3, so this is the number of digits at least.
        let digits = self.mantissa.checked_ilog10().map(|log| (log + two / 10 * 3) as i32);
        exponent >= 0 || digits.is_some_and(|digits| exponent.saturating_add(digits) >= 19)
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// An exponent and what follows; `E` alone is the unit exa, not an exponent.
fn exponent(text: &str) -> Option<(i32, &str)> {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return Some((0, text)) };
    let negative = after.starts_with('-');
    let (number, rest) = digits(after.strip_prefix(['-', '+']).unwrap_or(after));
    if number.is_empty() {
        return Some((0, text));
    }
    let exponent: i32 = number.parse().ok()?;
    Some((if negative { -exponent } else { exponent }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_rounded_once() {
        for (text, kind, up, down) in [
            ("500m", UnitKind::Milli, 500, 500),
            ("8", UnitKind::Milli, 8000, 8000),
            ("1.5", UnitKind::Milli, 1500, 1500),
            ("0.1", UnitKind::Milli, 100, 100),
            ("100u", UnitKind::Milli, 1, 0),
            ("1e3", UnitKind::Whole, 1000, 1000),
            ("1E3", UnitKind::Whole, 1000, 1000),
            ("2E", UnitKind::Whole, 2_000_000_000_000_000_000, 2_000_000_000_000_000_000),
            ("64Gi", UnitKind::Whole, 64 << 30, 64 << 30),
            ("0.1Gi", UnitKind::Whole, 107_374_183, 107_374_182),
            ("1.000000000000000000000000000000Ki", UnitKind::Whole, 1024, 1024),
            ("500m", UnitKind::Whole, 1, 0),
            ("1e-3", UnitKind::Milli, 1, 1),
            ("0e99", UnitKind::Whole, 0, 0),
            ("-0", UnitKind::Whole, 0, 0),
            ("+5k", UnitKind::Whole, 5000, 5000),
            (".5", UnitKind::Milli, 500, 500),
            ("9223372036854775807", UnitKind::Whole, i64::MAX, i64::MAX),
        ] {
            assert_eq!(parse(text, kind, Rounding::Up), Ok(up), "{text} up");
            assert_eq!(parse(text, kind, Rounding::Down), Ok(down), "{text} down");
        }
    }

    #[test]
    fn more_than_can_be_counted_is_no_bound() {
        for (text, kind, expected) in [
            ("100u", UnitKind::Milli, Some(0)),
            ("9223372036854775807", UnitKind::Whole, Some(i64::MAX)),
            ("9223372036854775808", UnitKind::Whole, Some(i64::MAX)),
            ("9223372036854775808", UnitKind::Milli, Some(i64::MAX)),
            ("9.5E", UnitKind::Whole, Some(i64::MAX)),
            ("16Ei", UnitKind::Whole, Some(i64::MAX)),
            ("12.345678901234567890123456789012345678Ei", UnitKind::Whole, Some(i64::MAX)),
            ("1e400", UnitKind::Whole, Some(i64::MAX)),
            ("1e-400", UnitKind::Whole, None),
            ("0.12345678901234567890123456789012345678Ei", UnitKind::Whole, None),
            ("-1e400", UnitKind::Whole, None),
            ("64GB", UnitKind::Whole, None),
        ] {
            assert_eq!(parse_bound(text, kind).ok(), expected, "{text}");
        }
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (text, expected) in [
            ("", "`` is not a quantity; write a number and a unit, such as `2`, `500m` or `64Gi`"),
            ("lots", "`lots` is not a quantity; write a number and a unit, such as `2`, `500m` or `64Gi`"),
            ("-1", "`-1` is negative; a quantity is 0 or more"),
            ("64GB", "`GB` in `64GB` is no unit; write `Gi` or `G`"),
            ("64K", "`K` in `64K` is no unit; write `Ki` or `k`"),
            (
                "1 Gi",
                "` Gi` in `1 Gi` is no unit; write no unit, or one of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei",
            ),
            (
                "9223372036854775808",
                "`9223372036854775808` is out of range; at most 9223372036854775807 can be counted",
            ),
            ("16Ei", "`16Ei` is out of range; at most 9223372036854775807 can be counted"),
            ("1e400", "`1e400` is out of range; at most 9223372036854775807 can be counted"),
        ] {
            assert_eq!(parse(text, UnitKind::Whole, Rounding::Up).unwrap_err().to_string(), expected);
        }
    }
}
