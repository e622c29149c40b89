//! The range of scores, and how counts are brought into it.

/// The largest score of a node.
pub(super) const SCORE_MAX: i64 = 100;

/// Raw values as parts of the largest one, in hundredths. All zero stays so.
pub(super) fn normalised(raw: &[i64]) -> Vec<i64> {
    let most = raw.iter().copied().max().unwrap_or(0);
    raw.iter().map(|value| if most > 0 { value * SCORE_MAX / most } else { 0 }).collect()
}

/// The same where less is better.
pub(super) fn normalised_reversed(raw: &[i64]) -> Vec<i64> {
    normalised(raw).into_iter().map(|score| SCORE_MAX - score).collect()
}
