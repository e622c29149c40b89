//! Whether this copy is like the others: every so many entries each server tells the others the running hash of what
//! its entries caused. The odd one out stops.

use ohm_model::Index;
use std::collections::BTreeMap;

/// Hashes are compared at the first entry in each stretch of this many indices: often enough that a copy which is
/// wrong is found within a second of full load, and seldom enough to cost nothing.
const EVERY: u64 = 256;
/// Stretches that are remembered.
const KEPT: usize = 16;

/// The hashes of this copy and of others.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    last: Index,
    /// By index: by server.
    known: BTreeMap<Index, BTreeMap<u64, u64>>,
}

/// This copy is not like the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divergence {
    pub(crate) index: Index,
    pub(crate) own: u64,
    pub(crate) others: u64,
}

impl Digests {
    /// An entry was applied here: gives the hash if this is the place to compare it.
    pub(crate) fn applied(&mut self, server: u64, index: Index, chain: u64) -> Option<(Index, u64)> {
        let is_place = index.0 / EVERY > self.last.0 / EVERY;
        self.last = index;
        is_place.then(|| {
            self.note(server, index, chain);
            (index, chain)
        })
    }

    /// The copy was replaced: whoever had the former one was compared already.
    pub(crate) fn restored(&mut self, index: Index) {
        self.last = index;
        self.known.clear();
    }

    pub(crate) fn note(&mut self, server: u64, index: Index, chain: u64) {
        self.known.entry(index).or_default().insert(server, chain);
        while self.known.len() > KEPT {
            self.known.pop_first();
        }
    }

    /// Whether more copies agree against this one than with it. Where it is one against one, the one that leads stays.
    pub(crate) fn judge(&self, server: u64, leads: bool, servers: usize) -> Option<Divergence> {
        self.known.iter().find_map(|(index, chains)| {
            let own = *chains.get(&server)?;
            let count = |chain: u64| chains.values().filter(|other| **other == chain).count();
            let others = chains.values().copied().filter(|other| *other != own).max_by_key(|other| count(*other))?;
            let is_tie = count(others) == count(own) && chains.len() >= servers && !leads;
            (count(others) > count(own) || is_tie).then_some(Divergence { index: *index, own, others })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odd_one_out_is_found() {
        let mut digests = Digests::default();
        assert_eq!(digests.applied(1, Index(10), 5), None);
        assert_eq!(digests.applied(1, Index(EVERY + 3), 6), Some((Index(EVERY + 3), 6)));
        assert_eq!(digests.applied(1, Index(EVERY + 4), 7), None);
        digests.note(2, Index(EVERY + 3), 9);
        assert_eq!(digests.judge(1, false, 3), None, "one against one of three: the third will tell");
        digests.note(3, Index(EVERY + 3), 9);
        let divergence = Divergence { index: Index(EVERY + 3), own: 6, others: 9 };
        assert_eq!(digests.judge(1, true, 3), Some(divergence));
        assert_eq!(digests.judge(2, false, 3), None);
        digests.restored(Index(EVERY + 9));
        assert_eq!(digests.judge(1, true, 3), None);
    }

    #[test]
    fn of_two_the_leader_stays() {
        let mut digests = Digests::default();
        digests.applied(1, Index(2 * EVERY), 6);
        digests.note(2, Index(2 * EVERY), 7);
        assert_eq!(digests.judge(1, true, 2), None);
        assert!(digests.judge(2, false, 2).is_some());
    }
}
