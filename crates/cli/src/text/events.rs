//! Events.

use super::Style;
use super::times::utc;
use super::wrap::wrapped;
use ohm_wire::api::EventView;

/// One line: when, at which log entry, what.
pub(crate) fn event_line(event: &EventView, style: &Style) -> String {
    let (dim, plain) = if style.color { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
    // Colour takes no room.
    let head = format!("{} {:>8}  ", utc(event.at_ms), event.index);
    let line = wrapped(&format!("{head}{}", event.message), style.width, head.len());
    let message = line.get(head.len()..).unwrap_or_default();
    format!("{dim}{}{plain}  {message}\n", head.trim_end())
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
        let narrow = Style { width: Some(40), ..PLAIN };
        let indented = format!("1970-01-01 01:00:00       42  job a\n{}submitted\n", " ".repeat(30));
        assert_eq!(event_line(&event, &narrow), indented);
    }
}
