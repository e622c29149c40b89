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

/// The events as a story for people: what one line of a repair says is not said again task by task, and tasks that
/// start together on one node are one line.
pub(crate) fn story(events: &[EventView]) -> Vec<EventView> {
    let mut lines: Vec<EventView> = Vec::new();
    for event in events.iter().filter(|event| !is_told(events, event)) {
        match lines.last_mut() {
            Some(last) if goes_on(last, event) => join(last, event),
            _ => lines.push(event.clone()),
        }
    }
    lines
}

/// Whether a line about the whole job says it, too.
fn is_told(events: &[EventView], event: &EventView) -> bool {
    let teller = match event.kind.as_str() {
        "ended" if event.exit == "node lost" && event.stop_cause.is_empty() => "tasksLost",
        "placed" => "repairCommitted",
        _ => return false,
    };
    let same = |other: &&EventView| other.index == event.index && other.job == event.job;
    let told: u32 = events.iter().filter(same).filter(|other| other.kind == teller).map(|other| other.count).sum();
    let placed = events.iter().filter(same).filter(|other| other.kind == "placed").map(|other| other.count).sum();
    told > 0 && (teller == "tasksLost" || told >= placed)
}

fn goes_on(last: &EventView, event: &EventView) -> bool {
    let next = last.task.map(|task| task + last.count.max(1));
    last.kind == "started"
        && event.kind == "started"
        && (last.index, &last.job, &last.group, &last.node) == (event.index, &event.job, &event.group, &event.node)
        && next == event.task
}

fn join(last: &mut EventView, event: &EventView) {
    let (first, end) = (last.task.unwrap_or(0), event.task.unwrap_or(0));
    last.count = last.count.max(1) + 1;
    last.message = format!("tasks {first} to {end} of {} run on {}", last.job, last.node);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_a_story_of_a_few_lines() {
        let event = |index, kind: &str, task, count, message: &str| EventView {
            index,
            kind: kind.into(),
            job: "t".into(),
            node: "n2".into(),
            task,
            count,
            message: message.into(),
            ..EventView::default()
        };
        let ended = |task| EventView { exit: "node lost".into(), ..event(1, "ended", Some(task), 0, "over") };
        let events = [
            event(1, "nodeHealth", None, 0, "node n1 is lost"),
            ended(4),
            ended(5),
            event(1, "tasksLost", None, 2, "job t lost 2 tasks"),
            event(2, "placed", Some(4), 2, "placed"),
            event(2, "repairCommitted", None, 2, "job t is repaired"),
            event(3, "started", Some(4), 0, "task 4 of t runs on n2"),
            event(3, "started", Some(5), 0, "task 5 of t runs on n2"),
            event(3, "repaired", None, 2, "job t is whole again"),
        ];
        let lines: Vec<String> = story(&events).into_iter().map(|event| event.message).collect();
        let expected = [
            "node n1 is lost",
            "job t lost 2 tasks",
            "job t is repaired",
            "tasks 4 to 5 of t run on n2",
            "job t is whole again",
        ];
        assert_eq!(lines, expected);
    }
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
