//! Points in time as RFC 3339 writes them.

/// Microseconds in a second.
const SECOND_US: i64 = 1_000_000;

/// Microseconds since 1970 of a time such as `2026-01-31T12:00:00Z` or `2026-01-31T12:00:00.5+02:00`. Digits after the
/// sixth behind the point are cut off.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, digits: usize| {
        let part = bytes.get(from..from + digits)?;
        part.iter().try_fold(0i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let divided = [(4, &b"-"[..]), (7, b"-"), (10, b"Tt"), (13, b":"), (16, b":")];
    let is_time = divided.into_iter().all(|(at, wanted)| is(at, wanted)) && hour < 24 && minute < 60 && second <= 60;
    if !is_time || !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let digits = if is(19, b".") { bytes[20..].iter().take_while(|byte| byte.is_ascii_digit()).count() } else { 0 };
    let zone = if is(19, b".") { 20 + digits } else { 19 };
    if is(19, b".") && digits == 0 {
        return None;
    }
    let fraction = number(20, digits.min(6)).filter(|_| digits > 0).unwrap_or(0);
    let fraction = fraction * 10i64.pow(6 - digits.min(6) as u32);
    let east = match bytes.get(zone)? {
        b'Z' | b'z' if bytes.len() == zone + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == zone + 6 && is(zone + 3, b":") => {
            let (hours, minutes) = (number(zone + 1, 2)?, number(zone + 4, 2)?);
            let east = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            if *sign == b'+' { east } else { -east }
        }
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - east;
    Some(seconds * SECOND_US + fraction)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Leap days of all years before this one; there is a year 0, and it is a leap year.
    let leaps = |year: i64| if year == 0 { 0 } else { (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 + 1 };
    let years = year * 365 + leaps(year) - (1970 * 365 + leaps(1970));
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        const DAY_US: i64 = 86_400 * SECOND_US;
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.5Z", -500_000),
            ("1970-01-02t01:00:00.0000019+01:00", DAY_US + 1),
            ("1970-01-01T00:00:00-00:30", 1800 * SECOND_US),
            ("2000-03-01T00:00:00Z", 11_017 * DAY_US),
            ("2026-01-01T00:00:01z", 1_767_225_601 * SECOND_US),
            ("2016-12-31T23:59:60Z", 1_483_228_800 * SECOND_US),
            ("0000-01-01T00:00:00Z", -719_528 * DAY_US),
            ("9999-12-31T00:00:00Z", 2_932_896 * DAY_US),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00Zulu",
            "2026-01-01T00:00:00é",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
