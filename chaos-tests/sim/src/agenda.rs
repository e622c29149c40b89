//! What happens next, in virtual time: ordered by time, then by the order in which it was put down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of events by time. Equal times keep the order of insertion, so a run is fully determined by its inputs.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    /// Time, tie, and the slot of the event: events are large and stay where they are while the heap is ordered.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<E>>,
    empty: Vec<usize>,
    now_ms: u64,
    next_tie: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Agenda { heap: BinaryHeap::new(), slots: Vec::new(), empty: Vec::new(), now_ms: 0, next_tie: 0 }
    }
}

impl<E> Agenda<E> {
    /// The time of the last event taken.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Puts `event` down for `at_ms`, or for now when that has passed.
    pub(crate) fn at(&mut self, at_ms: u64, event: E) {
        let slot = match self.empty.pop() {
            Some(slot) => {
                self.slots[slot] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                self.slots.len() - 1
            }
        };
        self.heap.push(Reverse((at_ms.max(self.now_ms), self.next_tie, slot)));
        self.next_tie += 1;
    }

    /// Puts `event` down for `delay_ms` from now.
    pub(crate) fn after(&mut self, delay_ms: u64, event: E) {
        self.at(self.now_ms.saturating_add(delay_ms), event);
    }

    /// Takes the next event that is not after `until_ms`; time moves to it.
    pub(crate) fn next(&mut self, until_ms: u64) -> Option<E> {
        if self.heap.peek().is_none_or(|Reverse((at_ms, _, _))| *at_ms > until_ms) {
            self.now_ms = self.now_ms.max(until_ms);
            return None;
        }
        let Reverse((at_ms, _, slot)) = self.heap.pop()?;
        self.now_ms = at_ms;
        self.empty.push(slot);
        self.slots[slot].take()
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
