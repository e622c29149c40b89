//! The last events, for people who ask what happened.

use ohm_model::{Event, Index};
use std::collections::VecDeque;

/// A bounded memory of events; the oldest ones go first.
#[derive(Clone, Debug)]
pub struct EventRing {
    events: VecDeque<Event>,
    limit: usize,
    dropped: u64,
    dropped_through: Index,
}

/// The events after some entry, and what is known of those before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// How many came before them since the process started. Whoever has seen fewer lacks the difference.
    pub before: u64,
    /// How many were dropped since the process started.
    pub dropped: u64,
    /// The entry of the last event that was dropped; 0 when none was.
    pub dropped_through: Index,
}

impl EventPage {
    /// How many events there were up to the end of this page.
    pub fn end(&self) -> u64 {
        self.before + self.events.len() as u64
    }
}

impl EventRing {
    /// A ring of at most `limit` events.
    pub fn new(limit: usize) -> Self {
        EventRing { events: VecDeque::new(), limit, dropped: 0, dropped_through: Index(0) }
    }

    /// Adds events, dropping the oldest ones beyond the limit.
    pub fn extend(&mut self, events: &[Event]) {
        self.events.extend(events.iter().cloned());
        while self.events.len() > self.limit {
            self.dropped_through = self.events.pop_front().map_or(self.dropped_through, |event| event.index);
            self.dropped += 1;
        }
    }

    /// The events of entries after `index`.
    pub fn page(&self, index: Index) -> EventPage {
        let start = self.events.partition_point(|event| event.index <= index);
        EventPage {
            events: self.events.range(start..).cloned().collect(),
            before: self.dropped + start as u64,
            dropped: self.dropped,
            dropped_through: self.dropped_through,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::EventKind;

    #[test]
    fn what_a_reader_lacks_can_be_counted() {
        let entry = |index, count| {
            let event = Event { index: Index(index), at_ms: 1, kind: EventKind::JobForgotten { name: "a".into() } };
            vec![event; count]
        };
        let mut ring = EventRing::new(4);
        ring.extend(&entry(1, 2));
        let seen = ring.page(Index(0));
        assert_eq!((seen.events.len(), seen.before, seen.dropped, seen.end()), (2, 0, 0, 2));
        ring.extend(&entry(2, 3));
        assert_eq!(ring.page(Index(1)).before, seen.end(), "what was dropped had been seen");
        ring.extend(&entry(3, 3));
        let next = ring.page(Index(1));
        assert_eq!((next.events.len(), next.before - seen.end(), next.dropped_through), (4, 2, Index(2)));
        assert_eq!(ring.page(Index(3)).end(), 8);
    }
}
