//! Events.

use super::Style;
use super::times::utc;
use ohm_wire::api::EventView;

/// One line: when, at which log entry, what.
pub(crate) fn event_line(event: &EventView, style: &Style) -> String {
    let (dim, plain) = if style.color { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
    format!("{dim}{} {:>8}{plain}  {}\n", utc(event.at_ms), event.index, event.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;

    #[test]
    fn an_event_is_a_line() {
        let event =
            EventView { index: 42, at_ms: 3_600_000, message: "job a submitted".into(), ..EventView::default() };
        assert_eq!(event_line(&event, &PLAIN), "1970-01-01 01:00:00       42  job a submitted\n");
    }
}
