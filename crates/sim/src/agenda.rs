//! What happens next, in virtual time: ordered by time, then by the order in which it was put down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of events by time. Equal times keep the order of insertion, so a run is fully determined by its inputs.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Reverse<Item<E>>>,
    now_ms: u64,
    next_tie: u64,
}

#[derive(Debug)]
struct Item<E> {
    at_ms: u64,
    tie: u64,
    event: E,
}

impl<E> PartialEq for Item<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ms, self.tie) == (other.at_ms, other.tie)
    }
}

impl<E> Eq for Item<E> {}

impl<E> PartialOrd for Item<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Item<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ms, self.tie).cmp(&(other.at_ms, other.tie))
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Agenda { heap: BinaryHeap::new(), now_ms: 0, next_tie: 0 }
    }
}

impl<E> Agenda<E> {
    /// The time of the last event taken.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Puts `event` down for `at_ms`, or for now when that has passed.
    pub(crate) fn at(&mut self, at_ms: u64, event: E) {
        let item = Item { at_ms: at_ms.max(self.now_ms), tie: self.next_tie, event };
        self.next_tie += 1;
        self.heap.push(Reverse(item));
    }

    /// Puts `event` down for `delay_ms` from now.
    pub(crate) fn after(&mut self, delay_ms: u64, event: E) {
        self.at(self.now_ms.saturating_add(delay_ms), event);
    }

    /// Takes the next event that is not after `until_ms`; time moves to it.
    pub(crate) fn next(&mut self, until_ms: u64) -> Option<E> {
        if self.heap.peek().is_none_or(|Reverse(item)| item.at_ms > until_ms) {
            self.now_ms = self.now_ms.max(until_ms);
            return None;
        }
        let Reverse(item) = self.heap.pop()?;
        self.now_ms = item.at_ms;
        Some(item.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_order() {
        let mut agenda = Agenda::default();
        agenda.at(5, "late");
        agenda.at(3, "first");
        agenda.at(3, "second");
        agenda.at(9, "never");
        assert_eq!((agenda.next(6), agenda.now_ms()), (Some("first"), 3));
        agenda.after(0, "third");
        assert_eq!([agenda.next(6), agenda.next(6), agenda.next(6)], [Some("second"), Some("third"), Some("late")]);
        assert_eq!((agenda.next(6), agenda.now_ms()), (None, 6));
        agenda.at(1, "past");
        assert_eq!((agenda.next(6), agenda.now_ms()), (Some("past"), 6));
    }
}
