//! Times: how long something took, how long ago it was, and when, in UTC.

/// `ms` in its largest unit, such as `3m` or `2d`.
pub(crate) fn length(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 if ms > 0 => format!("{ms}ms"),
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long ago `at_ms` was; `-` for never. What is stamped a moment ahead of us was just now.
pub(crate) fn age(now_ms: u64, at_ms: u64) -> String {
    if at_ms == 0 { "-".to_string() } else { length(now_ms.saturating_sub(at_ms)) }
}

/// `ms` since 1970 as `2026-11-21 09:50:19`.
pub(crate) fn utc(ms: u64) -> String {
    let (days, second) = (ms / 86_400_000, ms / 1000 % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The date `days` after 1970-01-01, counted in eras of 400 years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        for (ms, expected) in [
            (0, "0s"),
            (7, "7ms"),
            (119_999, "119s"),
            (120_000, "2m"),
            (7_200_000, "2h"),
            (86_400_000, "24h"),
            (172_800_000, "2d"),
        ] {
            assert_eq!(length(ms), expected);
        }
        assert_eq!(age(5000, 0), "-");
        assert_eq!(age(5000, 6000), "0s");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_399_000), "2000-02-28 23:59:59");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_795_254_619_123), "2026-11-21 09:50:19");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00");
    }
}
