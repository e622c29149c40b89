//! The last events, for people who ask what happened. They are kept in chunks that readers share: whoever asks for all
//! of them costs the replica as little as whoever asks for the last one.

use ohm_cell::Cell;
use ohm_model::{Event, Index, JobId, Subject};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Events of one chunk. The last one is copied when it grows while a reader has it.
const CHUNK_EVENTS: usize = 256;

/// A bounded memory of events; the oldest ones go first.
#[derive(Clone, Debug)]
pub struct EventRing {
    /// Full but for the last one.
    chunks: VecDeque<Arc<Vec<Event>>>,
    limit: usize,
    /// How many of the first chunk were dropped.
    front: usize,
    count: usize,
    dropped: u64,
    dropped_through: Index,
}

/// The events after some entry, and what is known of those before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// All events that there were, also those before the page.
    chunks: Vec<Arc<Vec<Event>>>,
    /// Where the page begins, as a chunk and a place in it.
    start: (usize, usize),
    count: u64,
    /// How many came before them since the process started. Whoever has seen fewer lacks the difference.
    pub before: u64,
    /// How many were dropped since the process started.
    pub dropped: u64,
    /// The entry of the last event that was dropped; 0 when none was.
    pub dropped_through: Index,
}

impl EventPage {
    /// The events, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        let (chunk, place) = self.start;
        let first = self.chunks.get(chunk).and_then(|chunk| chunk.get(place..)).unwrap_or_default();
        first.iter().chain(self.chunks.iter().skip(chunk + 1).flat_map(|chunk| chunk.iter()))
    }

    /// How many events there were up to the end of this page.
    pub fn end(&self) -> u64 {
        self.before + self.count
    }

    /// The names of the jobs whose runs are told of and which `cell` knows no more: events of runs say only a number.
    /// `earlier`, which was seen before the page, may know them; what it does not know either, events about the job
    /// as a whole do.
    pub fn names_of_forgotten(&self, earlier: &Cell, cell: &Cell) -> BTreeMap<JobId, String> {
        let (mut names, mut forgotten) = (BTreeMap::new(), BTreeSet::new());
        for event in self.events() {
            let Subject::Run { job, .. } = event.kind.subject() else { continue };
            if cell.jobs().get(job).is_none() {
                forgotten.insert(job);
            }
        }
        forgotten.retain(|job| match earlier.jobs().get(*job) {
            Some(found) => names.insert(*job, found.spec.name.clone()).is_some(),
            None => true,
        });
        for event in self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev()) {
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

impl EventRing {
    /// A ring of at most `limit` events.
    pub fn new(limit: usize) -> Self {
        EventRing { chunks: VecDeque::new(), limit, front: 0, count: 0, dropped: 0, dropped_through: Index(0) }
    }

    /// Adds events, dropping the oldest ones beyond the limit.
    pub fn extend(&mut self, events: &[Event]) {
        for event in events {
            match self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK_EVENTS) {
                Some(chunk) => Arc::make_mut(chunk).push(event.clone()),
                None => self.chunks.push_back(Arc::new(vec![event.clone()])),
            }
        }
        self.count += events.len();
        while self.count > self.limit {
            self.drop_oldest();
        }
    }

    /// The events of entries after `index`.
    pub fn page(&self, index: Index) -> EventPage {
        let is_before = |event: &Event| event.index <= index;
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        let place = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(is_before));
        // What was dropped of the first chunk is there for the names alone.
        let place = if chunk == 0 { place.max(self.front) } else { place };
        let skipped = (self.chunks.iter().take(chunk).map(|chunk| chunk.len()).sum::<usize>() + place) - self.front;
        EventPage {
            chunks: self.chunks.iter().cloned().collect(),
            start: (chunk, place),
            count: (self.count - skipped) as u64,
            before: self.dropped + skipped as u64,
            dropped: self.dropped,
            dropped_through: self.dropped_through,
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.chunks.front() else { return };
        self.dropped_through = oldest.get(self.front).map_or(self.dropped_through, |event| event.index);
        self.dropped += 1;
        self.count -= 1;
        self.front += 1;
        if self.front >= oldest.len() {
            self.chunks.pop_front();
            self.front = 0;
        }
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
        let names = |ring: &EventRing| ring.page(Index(1)).names_of_forgotten(&Cell::new(), &Cell::new());
        assert_eq!(names(&ring), [(job, "train".to_string())].into(), "known from what came before the page");
        let more: Vec<Event> = (4..4 + CHUNK_EVENTS as u64).map(|index| started(job, index)).collect();
        ring.extend(&more);
        assert!(names(&ring).is_empty(), "what named it was dropped");
    }

    #[test]
    fn what_a_reader_lacks_can_be_counted() {
        let entry = |index, count| {
            let event = Event { index: Index(index), at_ms: 1, kind: EventKind::JobForgotten { name: "a".into() } };
            vec![event; count]
        };
        let mut ring = EventRing::new(4);
        ring.extend(&entry(1, 2));
        let count = |page: &EventPage| page.events().count();
        let seen = ring.page(Index(0));
        assert_eq!((count(&seen), seen.before, seen.dropped, seen.end()), (2, 0, 0, 2));
        ring.extend(&entry(2, 3));
        assert_eq!(ring.page(Index(1)).before, seen.end(), "what was dropped had been seen");
        ring.extend(&entry(3, 3));
        let next = ring.page(Index(1));
        assert_eq!((count(&next), next.before - seen.end(), next.dropped_through), (4, 2, Index(2)));
        assert_eq!(ring.page(Index(3)).end(), 8);
    }
    /// A page of every start, against the same events in one list, as the ring grows.
    #[test]
    fn pages_are_what_a_list_would_give() {
        let (mut ring, mut all) = (EventRing::new(2 * CHUNK_EVENTS + 7), Vec::new());
        let mut held = Vec::new();
        for index in 1..=1500_u64 {
            let kind = EventKind::JobForgotten { name: format!("j{index}") };
            let events = vec![Event { index: Index(index), at_ms: 1, kind }; 1 + index as usize % 3];
            ring.extend(&events);
            all.extend(events);
            let after = Index(index * 7919 % (index + 5));
            let oldest = all.len().saturating_sub(ring.limit);
            let start = all.partition_point(|event| event.index <= after).max(oldest);
            let page = ring.page(after);
            let expected: Vec<Event> = all[start..].to_vec();
            assert_eq!(page.events().cloned().collect::<Vec<_>>(), expected);
            assert!(page.events().rev().eq(expected.iter().rev()));
            assert_eq!((page.before, page.end()), (start as u64, all.len() as u64));
            let dropped = all[..oldest].last().map_or(Index(0), |event| event.index);
            assert_eq!((page.dropped, page.dropped_through), (oldest as u64, dropped));
            held.push((page, expected));
        }
        assert!(held.iter().all(|(page, expected)| page.events().eq(expected)), "what was read stays as it was");
    }
}
