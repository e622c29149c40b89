//! Kin: jobs that ask for the same. If one finds no place, those behind it don't either.

use crate::rank::Rank;
use ohm_model::ResourceId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which change could let parked jobs be placed. Necessary, not sufficient: it only decides when to look again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// A node that got better has at least this much of a resource free, which is what one task asks for.
    Room {
        /// The resource.
        resource: ResourceId,
        /// What one task asks for.
        asked: i64,
    },
    /// Quota was given back somewhere in the tree with this root.
    Quota {
        /// The root of the tree.
        root: Arc<str>,
    },
    /// Tasks began, stopped or ended beside which it may, or must, stand; or a node got better.
    Neighbours,
    /// Only a change of the job itself.
    Job,
}

/// A bunch of kin.
#[derive(Clone, Debug)]
struct Bunch<N> {
    key: Arc<[u8]>,
    members: u32,
    parked: BTreeSet<Rank>,
    /// From this rank on nobody finds a place, and why. Nothing while the bunch is open or being probed.
    closed: Option<(Rank, Blocker)>,
    /// What was said about the last one that found no place.
    note: Option<N>,
}

/// How many follow one that was planned, so that each wave is twice as large as the one before.
const FOLLOWERS: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Kins<N> {
    by_key: BTreeMap<Arc<[u8]>, u32>,
    bunches: BTreeMap<u32, Bunch<N>>,
    next: u32,
    by_blocker: BTreeSet<(Blocker, u32)>,
}

impl<N> Default for Kins<N> {
    fn default() -> Self {
        Kins { by_key: BTreeMap::new(), bunches: BTreeMap::new(), next: 0, by_blocker: BTreeSet::new() }
    }
}

impl<N> Kins<N> {
    /// Counts one more member of the bunch with this key.
    pub(crate) fn join(&mut self, key: &Arc<[u8]>) -> u32 {
        let number = match self.by_key.get(key) {
            Some(&number) => number,
            None => {
                self.next += 1;
                self.by_key.insert(Arc::clone(key), self.next);
                let bunch =
                    Bunch { key: Arc::clone(key), members: 0, parked: BTreeSet::new(), closed: None, note: None };
                self.bunches.insert(self.next, bunch);
                self.next
            }
        };
        if let Some(bunch) = self.bunches.get_mut(&number) {
            bunch.members += 1;
        }
        number
    }

    /// Counts one member less; returns those to be woken in its stead. Members leave an open bunch because they were
    /// planned, so that more of them may find a place.
    pub(crate) fn leave(&mut self, number: u32, rank: Rank) -> Vec<Rank> {
        let Some(bunch) = self.bunches.get_mut(&number) else { return Vec::new() };
        bunch.parked.remove(&rank);
        bunch.members -= 1;
        if bunch.members > 0 {
            return bunch.wake(FOLLOWERS);
        }
        if let Some(bunch) = self.bunches.remove(&number) {
            self.by_key.remove(&bunch.key);
            if let Some((_, blocker)) = bunch.closed {
                self.by_blocker.remove(&(blocker, number));
            }
        }
        Vec::new()
    }

    pub(crate) fn key(&self, number: u32) -> Option<&Arc<[u8]>> {
        self.bunches.get(&number).map(|bunch| &bunch.key)
    }

    pub(crate) fn note(&self, number: u32) -> Option<&N> {
        self.bunches.get(&number)?.note.as_ref()
    }

    /// Whether it is known that a member with this rank finds no place.
    pub(crate) fn is_hopeless(&self, number: u32, rank: &Rank) -> bool {
        let closed = self.bunches.get(&number).and_then(|bunch| bunch.closed.as_ref());
        closed.is_some_and(|(from, _)| from <= rank)
    }

    /// Whether more members are looked at when the one that is looked at now finds a place.
    pub(crate) fn has_followers(&self, number: u32) -> bool {
        self.bunches.get(&number).is_some_and(|bunch| bunch.closed.is_none() && !bunch.parked.is_empty())
    }

    pub(crate) fn add_parked(&mut self, number: u32, rank: Rank) {
        if let Some(bunch) = self.bunches.get_mut(&number) {
            bunch.parked.insert(rank);
        }
    }

    pub(crate) fn remove_parked(&mut self, number: u32, rank: Rank) {
        if let Some(bunch) = self.bunches.get_mut(&number) {
            bunch.parked.remove(&rank);
        }
    }

    /// A member with this rank found no place.
    pub(crate) fn close(&mut self, number: u32, rank: Rank, blocker: Blocker, note: N) {
        let Some(bunch) = self.bunches.get_mut(&number) else { return };
        let from = match bunch.closed.take() {
            Some((from, former)) => {
                self.by_blocker.remove(&(former, number));
                from.min(rank)
            }
            None => rank,
        };
        self.by_blocker.insert((blocker.clone(), number));
        (bunch.closed, bunch.note) = (Some((from, blocker)), Some(note));
        bunch.parked.insert(rank);
    }

    /// Opens a bunch: its first parked member tries again.
    pub(crate) fn open(&mut self, number: u32) -> Vec<Rank> {
        let Some(bunch) = self.bunches.get_mut(&number) else { return Vec::new() };
        let Some((_, blocker)) = bunch.closed.take() else { return Vec::new() };
        self.by_blocker.remove(&(blocker, number));
        bunch.wake(1)
    }

    /// Bunches that wait for at most `free` of `resource`.
    pub(crate) fn waiting_for_room(&self, resource: ResourceId, free: i64) -> Vec<u32> {
        let first = Blocker::Room { resource, asked: i64::MIN };
        let last = Blocker::Room { resource, asked: free };
        self.by_blocker.range((first, 0)..=(last, u32::MAX)).map(|(_, number)| *number).collect()
    }

    /// Bunches that wait for exactly this.
    pub(crate) fn waiting_for(&self, blocker: &Blocker) -> Vec<u32> {
        self.by_blocker.range((blocker.clone(), 0)..=(blocker.clone(), u32::MAX)).map(|(_, number)| *number).collect()
    }

    /// Resources that some bunch waits for.
    pub(crate) fn awaited(&self) -> Vec<ResourceId> {
        let mut awaited = Vec::new();
        let mut from = Blocker::Room { resource: ResourceId(0), asked: i64::MIN };
        while let Some((Blocker::Room { resource, .. }, _)) = self.by_blocker.range((from, 0)..).next() {
            awaited.push(*resource);
            let Some(after) = resource.0.checked_add(1) else { break };
            from = Blocker::Room { resource: ResourceId(after), asked: i64::MIN };
        }
        awaited
    }

    /// Up to `limit` closed bunches with a number above `after`.
    pub(crate) fn closed_after(&self, after: u32, limit: usize) -> Vec<u32> {
        let bunches = self.bunches.range(after.saturating_add(1)..);
        bunches.filter(|(_, bunch)| bunch.closed.is_some()).map(|(number, _)| *number).take(limit).collect()
    }
}

impl<N> Bunch<N> {
    /// The next `count` to try, while the bunch is open.
    fn wake(&mut self, count: usize) -> Vec<Rank> {
        if self.closed.is_some() {
            return Vec::new();
        }
        std::iter::from_fn(|| self.parked.pop_first()).take(count).collect()
    }
}
