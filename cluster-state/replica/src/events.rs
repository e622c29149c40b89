//! The last events, for people who ask what happened.

use ohm_model::{Event, Index};
use std::collections::VecDeque;

/// A bounded memory of events; the oldest ones go first.
#[derive(Clone, Debug)]
pub struct EventRing {
    events: VecDeque<Event>,
    limit: usize,
    dropped: u64,
}

impl EventRing {
    /// A ring of at most `limit` events.
    pub fn new(limit: usize) -> Self {
        EventRing { events: VecDeque::new(), limit, dropped: 0 }
    }

    /// Adds events, dropping the oldest ones beyond the limit.
    pub fn extend(&mut self, events: &[Event]) {
        self.events.extend(events.iter().cloned());
        while self.events.len() > self.limit {
            self.events.pop_front();
            self.dropped += 1;
        }
    }

    /// The events of entries after `index`, oldest first.
    pub fn after(&self, index: Index) -> impl Iterator<Item = &Event> {
        let start = self.events.partition_point(|event| event.index <= index);
        self.events.range(start..)
    }

    /// How many were dropped since the process started.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
