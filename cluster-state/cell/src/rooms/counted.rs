//! What counters would count besides.

use crate::state::task_counts::counter::CounterId;
use std::collections::BTreeMap;

/// By counter and domain, how many more tasks.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    more: BTreeMap<(CounterId, u32), i32>,
}

impl Counted {
    /// The domains in which a counter counts other tasks than the cell says, and how many more.
    pub(crate) fn of(&self, counter: CounterId) -> impl Iterator<Item = (u32, i32)> + '_ {
        self.more.range((counter, 0)..=(counter, u32::MAX)).map(|((_, domain), by)| (*domain, *by))
    }

    /// How many more tasks a counter counts in one domain.
    pub(crate) fn in_domain(&self, counter: CounterId, domain: u32) -> i32 {
        self.more.get(&(counter, domain)).copied().unwrap_or(0)
    }

    pub(super) fn clear(&mut self) {
        self.more.clear();
    }

    pub(super) fn add(&mut self, counter: CounterId, domain: u32, by: i32) {
        let more = self.more.entry((counter, domain)).or_insert(0);
        *more += by;
        if *more == 0 {
            self.more.remove(&(counter, domain));
        }
    }
}
