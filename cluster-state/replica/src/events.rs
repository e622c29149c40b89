//! The last events, for people who ask what happened.

use ohm_cell::{Cell, JobState};
use ohm_model::{Event, Index, JobId, Subject};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// The names of those jobs in the events that are over or forgotten: events of runs say only a number, and whoever
    /// looks it up later may find nothing any more.
    pub names: BTreeMap<JobId, String>,
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

    /// The events of entries after `index`, up to the last entry that `cell` has applied.
    pub fn page(&self, index: Index, cell: &Cell) -> EventPage {
        let start = self.events.partition_point(|event| event.index <= index);
        EventPage {
            events: self.events.range(start..).cloned().collect(),
            names: self.names(start, cell),
            before: self.dropped + start as u64,
            dropped: self.dropped,
            dropped_through: self.dropped_through,
        }
    }

    /// The names of the jobs whose runs are told of from `start` on, if they are over or forgotten. What is forgotten
    /// is known from events about the job as a whole.
    fn names(&self, start: usize, cell: &Cell) -> BTreeMap<JobId, String> {
        let (mut names, mut forgotten) = (BTreeMap::new(), BTreeSet::new());
        for event in self.events.range(start..) {
            let Subject::Run { job, .. } = event.kind.subject() else { continue };
            match cell.jobs().get(job) {
                Some(found) if matches!(found.state, JobState::Finished(_)) => {
                    names.entry(job).or_insert_with(|| found.spec.name.clone());
                }
                Some(_) => {}
                None => drop(forgotten.insert(job)),
            }
        }
        for event in self.events.iter().rev() {
            if forgotten.is_empty() {
                break;
            }
            if let Subject::Job { id: Some(job), name } = event.kind.subject()
                && forgotten.remove(&job)
            {
                names.insert(job, name.to_string());
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::{EventKind, Incarnation, NodeId};

    #[test]
    fn a_forgotten_job_keeps_its_name_in_what_happened() {
        let (job, other) = (JobId::new(0, 1), JobId::new(1, 1));
        let started = |job, index| {
            let kind = EventKind::Started { job, group: 0, task: 0, incarnation: Incarnation(1), node: NodeId(1) };
            Event { index: Index(index), at_ms: 1, kind }
        };
        let submitted = EventKind::JobSubmitted { job, name: "train".into() };
        let mut ring = EventRing::new(3);
        ring.extend(&[Event { index: Index(1), at_ms: 1, kind: submitted }, started(job, 2), started(other, 3)]);
        let page = ring.page(Index(1), &Cell::new());
        assert_eq!(page.names, [(job, "train".to_string())].into(), "known from what came before the page");
        ring.extend(&[started(job, 4)]);
        assert!(ring.page(Index(1), &Cell::new()).names.is_empty(), "what named it was dropped");
    }

    #[test]
    fn what_a_reader_lacks_can_be_counted() {
        let entry = |index, count| {
            let event = Event { index: Index(index), at_ms: 1, kind: EventKind::JobForgotten { name: "a".into() } };
            vec![event; count]
        };
        let mut ring = EventRing::new(4);
        ring.extend(&entry(1, 2));
        let cell = Cell::new();
        let seen = ring.page(Index(0), &cell);
        assert_eq!((seen.events.len(), seen.before, seen.dropped, seen.end()), (2, 0, 0, 2));
        ring.extend(&entry(2, 3));
        assert_eq!(ring.page(Index(1), &cell).before, seen.end(), "what was dropped had been seen");
        ring.extend(&entry(3, 3));
        let next = ring.page(Index(1), &cell);
        assert_eq!((next.events.len(), next.before - seen.end(), next.dropped_through), (4, 2, Index(2)));
        assert_eq!(ring.page(Index(3), &cell).end(), 8);
    }
}
