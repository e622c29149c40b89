//! Searching domains: which level, which domains of it, and how many tasks each of their descendants gets.
//!
//! The rules and tie-breaks are Kueue's (topology-aware scheduling, in two phases): counts from the nodes up, then from
//! a level down. Below the lowest level of a topology that does not end at hosts, the nodes are one level more.

use super::{Count, Counts, Order};
use ohm_stdx::hash;
use std::cmp::Reverse;

/// How far a search may go from the level it begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Everything stands in one domain of the level.
    One,
    /// It goes up level by level, and over several domains at the top.
    Climbs,
    /// Over several domains of the level at once.
    Flat,
}

/// What is asked of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many tasks, the leader not counted; whole slices.
    pub tasks: u64,
    /// Whether a leader stands with them.
    pub leader: bool,
    /// The level at which the search begins.
    pub level: usize,
    /// How far it may go from there.
    pub reach: Reach,
    /// The order.
    pub order: Order,
    /// Whether domains are to be filled evenly; for requests that climb.
    pub balanced: bool,
    /// Orders domains that are equally good; by path if it is 0.
    pub salt: u64,
}

/// A choice: positions of the node level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Tasks by node, ascending.
    pub nodes: Vec<(u32, u64)>,
    /// Where the leader stands.
    pub leader: Option<u32>,
}

/// Why there is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// How many slices would fit as they are asked for.
    pub fit: u64,
    /// The level looked at last.
    pub level: usize,
    /// The best domain there.
    pub best: Option<u32>,
}

/// A domain and what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) at: u32,
    pub(super) tasks: u64,
    pub(super) leader: bool,
}

/// What a domain's count is compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Outermost slices, as counted.
    Slices,
    /// So many tasks.
    Tasks(u64),
}

pub(super) struct Search<'a> {
    pub(super) counts: &'a Counts,
    pub(super) order: Order,
    pub(super) salt: u64,
}

impl Search<'_> {
    /// The place of a domain among equals.
    fn tie(&self, at: u32) -> u64 {
        if self.salt == 0 { u64::from(at) } else { hash::chain(self.salt, u64::from(at)) }
    }

    pub(super) fn children(&self, level: usize, position: u32) -> std::ops::Range<u32> {
        self.counts.tree().children_of(level, position..position + 1)
    }

    pub(super) fn at(&self, level: usize, position: u32) -> Count {
        self.counts.at(level, position)
    }

    /// The domains of the slices' level, and what each is given. Above that level the children of all chosen domains
    /// form one pool: what a parent was given binds nobody.
    pub(super) fn pooled(&self, request: &Request) -> Result<(usize, Vec<Given>), Short> {
        let (level, list) = self.start(request)?;
        let mut given = self.minimise(level, list, request.tasks, request.leader, Unit::Slices);
        let slice_level = self.counts.layers().level;
        for level in level..slice_level {
            let mut pool: Vec<u32> = given.iter().flat_map(|one| self.children(level, one.at)).collect();
            self.sort(level + 1, &mut pool);
            given = self.minimise(level + 1, pool, request.tasks, request.leader, Unit::Slices);
        }
        Ok((level.max(slice_level), given))
    }

    /// Sorts domains of `level`: preferred ones, then by slices, then the fewest spare tasks, then by path.
    pub(super) fn sort(&self, level: usize, list: &mut [u32]) {
        list.sort_by_cached_key(|at| {
            let count = self.at(level, *at);
            (Reverse(count.affinity), self.directed(count.slices), count.tasks, self.tie(*at))
        });
    }

    /// As [`Search::sort`], those that can host the leader first, by what they take beside it.
    pub(super) fn sort_for_leader(&self, level: usize, list: &mut [u32]) {
        list.sort_by_cached_key(|at| self.leader_key(level, *at));
    }

    fn leader_key(&self, level: usize, at: u32) -> (bool, Reverse<u64>, u64, u64, u64) {
        let count = self.at(level, at);
        (!count.hosts, Reverse(count.affinity), self.directed(count.slices_beside), count.tasks_beside, self.tie(at))
    }

    /// Slices as a key: descending for best fit, ascending for least free.
    fn directed(&self, slices: u64) -> u64 {
        if self.order == Order::BestFit { u64::MAX - slices } else { slices }
    }

    /// The level the placement starts from, and its domains.
    fn start(&self, request: &Request) -> Result<(usize, Vec<u32>), Short> {
        let mut level = request.level.clamp(self.counts.top(), self.counts.layers().level);
        let need = request.tasks / self.counts.layers().size.max(1);
        loop {
            if let Some(alone) = self.alone(level, need, request) {
                return Ok((level, vec![alone]));
            }
            if request.reach == Reach::One || self.counts.positions(level).is_empty() {
                let fit_in = |at| if self.at(level, at).hosts { self.at(level, at).slices_beside } else { 0 };
                // The first in order takes most, unless preferences go before.
                let best = match self.counts.has_affinity() {
                    true => self.counts.positions(level).min_by_key(|at| (Reverse(fit_in(*at)), *at)),
                    false => self.first(level),
                };
                let fit = best.map_or(0, fit_in);
                return Err(Short { fit, level, best: best.filter(|_| fit > 0) });
            }
            if request.reach == Reach::Climbs && level > self.counts.top() {
                level -= 1;
                continue;
            }
            return self.spread(level, need, request.leader).map(|list| (level, list));
        }
    }

    /// The first domain of `level` in order.
    fn first(&self, level: usize) -> Option<u32> {
        self.counts.positions(level).min_by_key(|at| self.leader_key(level, *at))
    }

    /// One domain of `level` that takes everything.
    fn alone(&self, level: usize, need: u64, request: &Request) -> Option<u32> {
        let fits = |at: &u32| {
            let count = self.at(level, *at);
            count.slices_beside >= need && count.hosts
        };
        let positions = self.counts.positions(level);
        if self.order == Order::LeastFree {
            return positions.filter(fits).min_by_key(|at| self.leader_key(level, *at));
        }
        let top = self.first(level)?;
        let top = if fits(&top) {
            top
        } else if request.reach == Reach::One && self.counts.has_affinity() {
            // The most preferred domains are too small: a less preferred one is better than none.
            positions.clone().filter(fits).min_by_key(|at| self.leader_key(level, *at))?
        } else {
            return None;
        };
        let tier = self.at(level, top).affinity;
        let same = positions.filter(fits).filter(|at| self.at(level, *at).affinity == tier);
        same.min_by_key(|at| (self.at(level, *at).slices_beside, self.leader_key(level, *at)))
    }

    /// The domains of `level` that take everything together, or how many slices they take.
    fn spread(&self, level: usize, need: u64, leader: bool) -> Result<Vec<u32>, Short> {
        let open = |count: Count| count.tasks > 0 || (leader && count.hosts);
        let mut list: Vec<u32> = self.counts.positions(level).filter(|at| open(self.at(level, *at))).collect();
        if leader {
            self.sort_for_leader(level, &mut list);
        } else {
            self.sort(level, &mut list);
        }
        let short = |fit: u64| {
            let best = list.iter().copied().find(|at| self.at(level, *at).slices > 0);
            Short { fit, level, best }
        };
        let mut rest = need;
        let mut chosen = Vec::new();
        let mut others = list.clone();
        if leader {
            self.leader_first(level, &mut others, need, Unit::Slices);
            let Some(&first) = others.first().filter(|at| self.at(level, **at).hosts) else { return Err(short(0)) };
            let covers = self.order == Order::BestFit && self.at(level, first).slices_beside >= rest;
            let host = if covers { self.best_fit(level, &others, rest, true, Unit::Slices) } else { first };
            chosen.push(host);
            rest = rest.saturating_sub(self.at(level, host).slices_beside);
            others.retain(|at| *at != host);
            self.sort(level, &mut others);
        }
        for (at, &position) in others.iter().enumerate() {
            if rest == 0 {
                break;
            }
            let covers = self.order == Order::BestFit && self.at(level, position).slices >= rest;
            let next = if covers { self.best_fit(level, &others[at..], rest, false, Unit::Slices) } else { position };
            let count = self.at(level, next).slices;
            if count > 0 {
                chosen.push(next);
            }
            rest = rest.saturating_sub(count);
        }
        if rest > 0 { Err(short(need - rest)) } else { Ok(chosen) }
    }

    /// What a domain takes in `unit`, without and with the leader.
    fn amounts(&self, level: usize, position: u32, unit: Unit) -> (u64, u64) {
        let count = self.at(level, position);
        match unit {
            Unit::Slices => (count.slices, count.slices_beside),
            Unit::Tasks(size) => (count.tasks / size.max(1), count.tasks_beside / size.max(1)),
        }
    }

    /// The first of the smallest domains that cover `need`, among those of the list's first tier; or the list's first.
    fn best_fit(&self, level: usize, list: &[u32], need: u64, leader: bool, unit: Unit) -> u32 {
        let first = list.first().copied().unwrap_or(0);
        let tier = self.at(level, first).affinity;
        let amount = |at: u32| {
            let (alone, beside) = self.amounts(level, at, unit);
            if leader { beside } else { alone }
        };
        let able = list.iter().enumerate().filter(|(_, at)| {
            let count = self.at(level, **at);
            count.affinity == tier && (!leader || count.hosts) && amount(**at) >= need
        });
        able.min_by_key(|(index, at)| (amount(**at), *index)).map_or(first, |(_, at)| *at)
    }

    /// Moves the first domain to the front that can host the leader and whose loss by it leaves enough in all.
    fn leader_first(&self, level: usize, list: &mut [u32], need: u64, unit: Unit) {
        let all: u64 = list.iter().map(|at| self.amounts(level, *at, unit).0).sum();
        let spare = |at: &u32| {
            let (alone, beside) = self.amounts(level, *at, unit);
            self.at(level, *at).hosts && all.saturating_sub(alone.saturating_sub(beside)) >= need
        };
        if let Some(found) = list.iter().position(spare) {
            list[..=found].rotate_right(1);
        }
    }

    /// Gives `tasks` to as few of the listed domains as the order allows.
    fn minimise(&self, level: usize, mut list: Vec<u32>, tasks: u64, leader: bool, unit: Unit) -> Vec<Given> {
        let size = match unit {
            Unit::Slices => self.counts.layers().size.max(1),
            Unit::Tasks(size) => size.max(1),
        };
        let (mut rest, mut waits) = (tasks / size, leader);
        if leader && list.len() > 1 {
            self.leader_first(level, &mut list, rest, unit);
        }
        let mut given = Vec::new();
        for (index, &position) in list.iter().enumerate() {
            if rest == 0 && !waits {
                break;
            }
            let (mut at, mut hosts) = (position, waits && self.at(level, position).hosts);
            let amount = |at: u32| {
                let (alone, beside) = self.amounts(level, at, unit);
                if waits { beside } else { alone }
            };
            if self.order == Order::BestFit && amount(at) >= rest && (hosts || !waits) {
                at = self.best_fit(level, &list[index..], rest, waits, unit);
                hosts = waits && self.at(level, at).hosts;
            }
            let units = amount(at).min(rest);
            if units > 0 || hosts {
                given.push(Given { at, tasks: units * size, leader: hosts });
            }
            rest -= units;
            waits &= !hosts;
        }
        given
    }

    /// Gives what a domain was given to its children.
    pub(super) fn descend(&self, level: usize, one: Given) -> Vec<Given> {
        let mut list: Vec<u32> = self.children(level, one.at).collect();
        let below = level + 1;
        let is_node_alone = below > self.counts.tree().lowest();
        if is_node_alone {
            // Nodes below the topology's own levels: the largest first, so that few are used.
            list.sort_by_cached_key(|at| {
                let count = self.at(below, *at);
                let tasks = if self.order == Order::BestFit { u64::MAX - count.tasks } else { count.tasks };
                (Reverse(count.affinity), tasks, *at)
            });
        } else {
            self.sort(below, &mut list);
        }
        let unit = match below <= self.counts.layers().level {
            true => Unit::Slices,
            false => Unit::Tasks(self.counts.layers().inner(below)),
        };
        self.minimise(below, list, one.tasks, one.leader, unit)
    }
}
