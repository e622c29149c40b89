//! How fast a trace goes by.

use super::trace::TracePod;
use std::str::FromStr;

/// How fast a trace goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// Pods arrive one after another without a pause, and never end.
    Max,
    /// Pods arrive and leave at their times, divided by this.
    Factor(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        factor.map(Speed::Factor).ok_or_else(|| "`max`, or a number above 0, such as 10000".to_string())
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Speed::Max => f.write_str("max"),
            Speed::Factor(factor) => write!(f, "{factor}"),
        }
    }
}

impl Speed {
    /// How long `seconds` of the trace take, in milliseconds; nothing at full speed.
    pub(super) fn scaled_ms(self, seconds: u64) -> Option<u64> {
        match self {
            Speed::Max => None,
            // Larger values stay at the largest.
            Speed::Factor(factor) => Some((seconds as f64 * 1000.0 / factor) as u64),
        }
    }

    /// How long `pod` lasts, in milliseconds, at least one; nothing when it never ends.
    pub(super) fn duration_ms(self, pod: &TracePod) -> Option<u64> {
        self.scaled_ms(pod.deleted_s.saturating_sub(pod.created_s)).map(|duration_ms| duration_ms.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_or_refused_with_an_example() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("2.5".parse(), Ok(Speed::Factor(2.5)));
        for wrong in ["", "0", "-1", "fast", "inf", "NaN"] {
            assert!(wrong.parse::<Speed>().unwrap_err().contains("such as 10000"), "{wrong}");
        }
    }
}
