//! Reads that must see everything acknowledged before them, asked of any server, now and then.

use ohm_model::Index;
use ohm_replica::RequestId;
use ohm_stdx::{Prng, hash};
use std::collections::BTreeMap;

/// Those who read.
pub(crate) struct Readers {
    /// Their own: that somebody reads changes nothing else in a run.
    pub(crate) dice: Prng,
    /// How far anybody was told that the log goes.
    acknowledged: Index,
    /// What each read under way must see: by server and request.
    least: BTreeMap<(usize, RequestId), Index>,
    next: u64,
}

impl Readers {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Prng::new(hash::chain(hash::mix(seed), 0x4ead));
        Readers { dice, acknowledged: Index(0), least: BTreeMap::new(), next: 0 }
    }

    /// Somebody is told that an entry stands.
    pub(crate) fn acknowledged(&mut self, index: Index) {
        self.acknowledged = self.acknowledged.max(index);
    }

    /// Somebody reads over one server: the request.
    pub(crate) fn ask(&mut self, server: usize) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.least.insert((server, request), self.acknowledged);
        request
    }

    /// What the answer to a read must show.
    pub(crate) fn answered(&mut self, server: usize, request: RequestId) -> Option<Index> {
        self.least.remove(&(server, request))
    }
}
