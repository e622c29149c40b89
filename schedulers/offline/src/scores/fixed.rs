//! Numbers with a fraction, as whole multiples of 2^-40: the same on every machine.

/// How many bits are behind the point.
pub(super) const BITS: u32 = 40;
/// One.
pub(super) const ONE: i128 = 1 << BITS;

/// Bits behind the point within [`ln`].
const INNER_BITS: u32 = 60;
/// The natural logarithm of 2, with so many bits.
const LN_2: u128 = 799_144_290_325_165_979;

/// The natural logarithm of `number`; of 0 and 1 nothing.
pub(super) fn ln(number: u64) -> i128 {
    if number < 2 {
        return 0;
    }
    let whole = number.ilog2();
    // What is left is in 1..2. Squared, it tells one more bit of its logarithm.
    let mut rest = (u128::from(number) << INNER_BITS) >> whole;
    let mut log_2 = u128::from(whole) << INNER_BITS;
    for bit in (0..INNER_BITS).rev() {
        rest = (rest * rest) >> INNER_BITS;
        if rest >= 2 << INNER_BITS {
            rest >>= 1;
            log_2 |= 1 << bit;
        }
    }
    // At most 2^66 times 2^60.
    ((log_2 * LN_2) >> (2 * INNER_BITS - BITS)) as i128
}

/// `part` of `whole`, which is above zero.
pub(super) fn ratio(part: i64, whole: i64) -> i128 {
    let whole = i128::from(whole);
    (i128::from(part) * ONE + whole / 2) / whole
}

/// The standard deviation of these values of 0 to 1; of none it is zero.
pub(super) fn deviation(values: &[i128]) -> i128 {
    let count = values.len() as i128;
    if count == 0 {
        return 0;
    }
    let mean = values.iter().sum::<i128>() / count;
    let squares: i128 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / count).isqrt()
}

/// The nearest whole number.
pub(super) fn rounded(value: i128) -> i64 {
    i64::try_from((value + ONE / 2) >> BITS).unwrap_or(i64::MAX)
}

/// The whole number at or below. What is a hair below a whole number is taken for that number: no calculation here is
/// more exact than that.
pub(super) fn truncated(value: i128) -> i64 {
    const HAIR: i128 = ONE >> 26;
    i64::try_from((value + HAIR) >> BITS).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_books() {
        // Multiples of 10^-9.
        for (number, expected) in [
            (1, 0),
            (2, 693_147_180),
            (3, 1_098_612_288),
            (7, 1_945_910_149),
            (5_002, 8_517_593_111),
            (u64::MAX, 44_361_419_555),
        ] {
            let found = (ln(number) * 1_000_000_000) >> BITS;
            assert!((found - expected).abs() <= 1, "{number}: {found}");
        }
    }

    #[test]
    fn deviations_are_of_the_whole_population() {
        assert_eq!(truncated(100 * deviation(&[ratio(3, 4), ratio(1, 2)])), 12);
        assert_eq!(truncated(1000 * deviation(&[0, ONE, ONE])), 471, "the root of 2/9");
        assert_eq!(deviation(&[ratio(1, 3), ratio(2, 6)]), 0);
        assert_eq!(truncated(100 * ONE - 100 * deviation(&[ratio(7, 10), ratio(4, 10)])), 85);
    }

    #[test]
    fn halves_are_rounded_up() {
        assert_eq!((rounded(ONE / 2), rounded(ONE / 2 - 1), rounded(3 * ONE)), (1, 0, 3));
    }
}
