//! Usage that is forgotten by half in each half-life, in integers alone, so that all copies agree.
//!
//! ```text
//! consumed(t) = consumed(0) · 2^(−t/H) + usage · (1 − 2^(−t/H))        while `usage` is in use all the time
//! ```
//! It is worked out where usage changes, not sampled, and amounts have [`FRACTION`] bits below their unit: of a
//! half-life of a week, a millisecond counts still.

/// Bits below the unit of an amount.
pub(crate) const FRACTION: u32 = 48;

/// 2^(−1/2), 2^(−1/4), and so on, in units of 2^−64.
const ROOTS: [u64; 32] = [
    0xb504_f333_f9de_6484,
    0xd744_fcca_d69d_6af4,
    0xeac0_c6e7_dd24_392f,
    0xf525_7d15_2486_cc2c,
    0xfa83_b2db_722a_033a,
    0xfd3e_0c0c_f486_c175,
    0xfe9e_115c_7b8f_884c,
    0xff4e_cb59_511e_c8a5,
    0xffa7_5652_1c8d_aed2,
    0xffd3_a751_c0f7_e10c,
    0xffe9_d2b2_f7db_2756,
    0xfff4_e91b_ff1b_8c3e,
    0xfffa_747e_a004_0664,
    0xfffd_3a3b_7814_eb54,
    0xfffe_9d1c_c60d_dab1,
    0xffff_4e8e_2587_9bfa,
    0xffff_a747_0363_f451,
    0xffff_d3a3_7dda_0313,
    0xffff_e9d1_bdf7_03af,
    0xffff_f4e8_debe_025e,
    0xffff_fa74_6f4f_a150,
    0xffff_fd3a_37a3_f8b0,
    0xffff_fe9d_1bd1_065a,
    0xffff_ff4e_8de8_45ae,
    0xffff_ffa7_46f4_1377,
    0xffff_ffd3_a37a_05e4,
    0xffff_ffe9_d1bd_01fc,
    0xffff_fff4_e8de_80c0,
    0xffff_fffa_746f_4051,
    0xffff_fffd_3a37_a025,
    0xffff_fffe_9d1b_d011,
    0xffff_ffff_4e8d_e808,
];
/// The natural logarithm of 2, in units of 2^−64.
const LN_2: u64 = 0xb172_17f7_d1cf_79ac;

/// An amount that is in use, as it is counted here.
pub(crate) fn fixed(usage: i64) -> u128 {
    (usage.max(0) as u128) << FRACTION
}

/// What `consumed` has become after so long in which `usage` was in use.
#[cfg(test)]
fn advanced(consumed: u128, usage: i64, elapsed_ms: u64, half_life_ms: u64) -> u128 {
    advanced_by(consumed, usage, left_after(elapsed_ms, half_life_ms))
}

/// What `consumed` has become when so much is `left` of what was, see [`left_after`], and `usage` was in use meanwhile.
pub(crate) fn advanced_by(consumed: u128, usage: i64, left: u128) -> u128 {
    let target = fixed(usage);
    match consumed >= target {
        true => target + part(consumed - target, left),
        false => target - part(target - consumed, left),
    }
}

/// 2^(−elapsed/half-life) in units of 2^−64; at most one. Nothing is left where the half-life is 0.
pub(crate) fn left_after(elapsed_ms: u64, half_life_ms: u64) -> u128 {
    let Some(halvings) = elapsed_ms.checked_div(half_life_ms).filter(|halvings| *halvings < 64) else { return 0 };
    let exponent = (u128::from(elapsed_ms % half_life_ms) << 64) / u128::from(half_life_ms);
    let mut left = 1u128 << 64;
    for (bit, root) in ROOTS.iter().enumerate() {
        if exponent >> (63 - bit) & 1 == 1 {
            left = (left * u128::from(*root) + (1 << 63)) >> 64;
        }
    }
    // Of what is left of the exponent, the first term of the series is enough.
    let rest = ((exponent & u128::from(u32::MAX)) * u128::from(LN_2)) >> 64;
    (left - ((left * rest) >> 64)) >> halvings
}

/// `amount` times `left`, which is in units of 2^−64, to the nearest.
fn part(amount: u128, left: u128) -> u128 {
    let (high, low) = (amount >> 64, amount & u128::from(u64::MAX));
    high * left + ((low * left + (1 << 63)) >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEEK_MS: u64 = 7 * 86_400_000;

    fn units(amount: u128) -> f64 {
        amount as f64 / (1u128 << FRACTION) as f64
    }

    fn model(consumed: f64, usage: i64, elapsed_ms: u64, half_life_ms: u64) -> f64 {
        let left = (-(elapsed_ms as f64) / half_life_ms as f64).exp2();
        consumed * left + usage as f64 * (1.0 - left)
    }

    fn assert_near(found: u128, expected: f64, scale: f64) {
        assert!((units(found) - expected).abs() <= scale * 1e-12, "{} is not {expected}", units(found));
    }

    proptest! {
        #[test]
        fn it_decays_as_real_numbers_do(
            usages in proptest::collection::vec((0i64..1 << 50, 1u64..2 * WEEK_MS), 1..20),
            half_life_ms in 1u64..4 * WEEK_MS,
        ) {
            let (mut found, mut expected, mut most) = (0, 0.0, 1.0f64);
            for (usage, elapsed_ms) in usages {
                found = advanced(found, usage, elapsed_ms, half_life_ms);
                expected = model(expected, usage, elapsed_ms, half_life_ms);
                most = most.max(usage as f64);
                assert_near(found, expected, most);
            }
        }

        #[test]
        fn it_does_not_matter_how_often_it_is_worked_out(
            (usage, from) in (0i64..1 << 62, 0i64..1 << 62),
            steps in proptest::collection::vec(1u64..100_000, 1..200),
            half_life_ms in 1_000u64..WEEK_MS,
        ) {
            let whole = advanced(fixed(from), usage, steps.iter().sum(), half_life_ms);
            let pieces = steps.iter().fold(fixed(from), |known, step| advanced(known, usage, *step, half_life_ms));
            assert_near(pieces, units(whole), usage.max(from).max(1) as f64);
        }
    }

    #[test]
    fn a_millisecond_of_a_week_counts() {
        let mut consumed = 0;
        for _ in 0..100_000 {
            consumed = advanced(consumed, 1, 1, WEEK_MS);
        }
        let expected = model(0.0, 1, 100_000, WEEK_MS);
        assert!((units(consumed) / expected - 1.0).abs() < 1e-6, "{} is not {expected}", units(consumed));
    }

    #[test]
    fn edges_are_exact() {
        let half = fixed(1 << 40);
        assert_eq!(advanced(2 * half, 0, 1_000, 1_000), half);
        assert_eq!(advanced(half, 7, 0, 1_000), half);
        assert_eq!(advanced(half, 7, 0, 0), fixed(7));
        assert_eq!(advanced(half, 7, 64_000, 1_000), fixed(7));
        assert_eq!(advanced(half, 7, u64::MAX, 1), fixed(7));
        assert_eq!(advanced(fixed(i64::MAX), i64::MAX, 5, u64::MAX), fixed(i64::MAX));
    }
}
