//! The tasks around a group, as they would be.

use crate::cell::Cell;
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::Job;
use crate::state::task_counts::counter::CounterId;
use crate::state::task_counts::counts::Neighbourhood;
use crate::state::task_counts::ground::Ground;
use ohm_model::GroupIndex;

impl<'a> Neighbourhood<'a> {
    /// Where a counter counts.
    pub(crate) fn ground_of(&self, id: CounterId) -> Option<&'a Ground> {
        self.ground(self.counter(id)?)
    }

    /// The node label under which it counts.
    pub(crate) fn key_of(&self, id: CounterId) -> Option<String> {
        self.ground_of(id).map(|ground| ground.key().to_string())
    }

    /// How many tasks it counts in a domain.
    pub(crate) fn count(&self, what: WhatIf<'_>, id: CounterId, domain: u32) -> u32 {
        let known = self.counter(id).map_or(0, |counter| counter.count(domain));
        known.saturating_add_signed(what.over.counts.in_domain(id, domain))
    }

    /// How many tasks it counts in each domain.
    pub(crate) fn counts(&self, what: WhatIf<'_>, id: CounterId) -> Option<Vec<u32>> {
        let counter = self.counter(id)?;
        let mut counts = vec![0; self.ground(counter)?.slots()];
        let over = what.over.counts.of(id).map(|(domain, _)| (domain, self.count(what, id, domain)));
        for (domain, count) in counter.domains().chain(over) {
            counts[domain as usize] = count;
        }
        Some(counts)
    }

    /// How many tasks it counts in all domains.
    pub(crate) fn total(&self, what: WhatIf<'_>, id: CounterId) -> u64 {
        let known = self.counter(id).map_or(0, |counter| counter.total());
        known.saturating_add_signed(what.over.counts.of(id).map(|(_, by)| i64::from(by)).sum())
    }

    /// How many tasks it counts in the domain with the fewest of those that have a node that counts, `besides` left
    /// out; nothing where there is no other one.
    pub(crate) fn fewest(&self, what: WhatIf<'_>, id: CounterId, besides: Option<u32>) -> Option<u32> {
        let counter = self.counter(id)?;
        let others = self.ground(counter)?.width() - u32::from(besides.is_some());
        // Domains that are not at the level that the counter has them at: from which to which, if any.
        let moved = |domain: u32| {
            let before = counter.count(domain);
            let after = before.saturating_add_signed(what.over.counts.in_domain(id, domain));
            (before, Some(after).filter(|_| besides != Some(domain)))
        };
        let laid = what.over.counts.of(id).map(|(domain, _)| domain);
        let besides_laid = besides.filter(|domain| what.over.counts.in_domain(id, *domain) == 0);
        let moved: Vec<(u32, Option<u32>)> = laid.chain(besides_laid).map(moved).collect();
        let filled: u32 = counter.levels().values().sum();
        let left = moved.iter().filter(|(before, after)| *before > 0 && after.unwrap_or(0) == 0).count() as u32;
        let reached = moved.iter().filter(|(before, after)| *before == 0 && after.unwrap_or(0) > 0).count() as u32;
        if filled + reached - left < others {
            return Some(0);
        }
        // A level that domains have left counts only with those that stay on it.
        let stays = |(level, domains): (&u32, &u32)| {
            let gone = moved.iter().filter(|(before, _)| before == level).count() as u32;
            (*domains > gone).then_some(*level)
        };
        let stayed = counter.levels().iter().find_map(stays);
        let reached = moved.iter().filter_map(|(_, after)| *after).filter(|after| *after > 0).min();
        [stayed, reached].into_iter().flatten().min()
    }
}

/// Whether any group of the cell asks for something of the tasks around it.
pub fn has_neighbour_rules(cell: &Cell) -> bool {
    !cell.task_counts.is_empty()
}

/// Whether rules about other tasks keep a group of the job away from nodes.
pub fn is_surrounded(cell: &Cell, job: &Job) -> bool {
    let mut groups = job.groups.iter().enumerate();
    groups.any(|(at, group)| cell.task_counts.of(group.shape, job.id, GroupIndex(at as u16)).is_some())
}
