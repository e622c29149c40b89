//! Choosing domains: which level, which domains of it, and how many tasks each of their descendants gets.
//!
//! The rules and tie-breaks are Kueue's (topology-aware scheduling, two phases): counts from the leaves up, then from a
//! level down. A count is a number of units; a unit is one task, and would be one slice where slices are asked for.

use super::Tree;
use std::cmp::Reverse;

/// Units that fit, by level and position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    levels: Vec<Vec<u64>>,
}

impl Counts {
    /// Counts from what fits on each node, by position of the node level: each domain holds what is below it.
    pub fn new(tree: &Tree, on_nodes: Vec<u64>) -> Self {
        let mut levels = vec![on_nodes];
        for level in (0..tree.node_level()).rev() {
            let below = &levels[levels.len() - 1];
            let sum = |place: &super::Place| {
                let range = place.children.start as usize..place.children.end as usize;
                below.get(range).map_or(0, |counts| counts.iter().sum())
            };
            let here = tree.level(level).iter().map(sum).collect();
            levels.push(here);
        }
        levels.reverse();
        Counts { levels }
    }

    /// What fits at `position` of `level`.
    pub fn at(&self, level: usize, position: u32) -> u64 {
        self.levels.get(level).and_then(|counts| counts.get(position as usize)).copied().unwrap_or(0)
    }

    /// What fits in the whole topology.
    pub fn total(&self) -> u64 {
        self.levels.first().map_or(0, |counts| counts.iter().sum())
    }

    /// The domain of `level` that holds most, the first of them on a tie.
    pub fn largest(&self, level: usize) -> Option<(u32, u64)> {
        let counts = self.levels.get(level)?.iter().zip(0u32..);
        counts.min_by_key(|(count, at)| (Reverse(**count), *at)).map(|(count, at)| (at, *count))
    }
}

/// In which order domains are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The largest first, and the smallest sufficient one for what remains.
    BestFit,
    /// The fullest first: drains what is nearly full, keeps large domains whole.
    LeastFree,
}

/// What is asked of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many units.
    pub need: u64,
    /// The level at which the search begins.
    pub level: usize,
    /// Whether everything must be in one domain of that level.
    pub required: bool,
    /// Whether the search goes up a level where no domain holds everything.
    pub climbs: bool,
    /// The order.
    pub order: Order,
}

/// Units by position of the node level, ascending; or, if there is no such choice, how many fit.
pub fn choose(tree: &Tree, counts: &Counts, request: &Request) -> Result<Vec<(u32, u64)>, u64> {
    let (level, chosen) = start(tree, counts, request)?;
    let search = Search { tree, counts, order: request.order };
    let mut given = search.minimise(level, chosen, request.need);
    for level in level..tree.lowest() {
        // Above the lowest level the children of all chosen domains form one pool: what a parent was given binds
        // nobody.
        let children = given.iter().flat_map(|(at, _)| search.children(level, *at));
        given = search.minimise(level + 1, children.collect(), request.need);
    }
    for level in tree.lowest()..tree.node_level() {
        let within =
            |(at, units): &(u32, u64)| search.minimise(level + 1, search.children(level, *at).collect(), *units);
        given = given.iter().flat_map(within).collect();
    }
    given.sort_unstable();
    Ok(given)
}

/// The level the placement starts from, and its domains.
fn start(tree: &Tree, counts: &Counts, request: &Request) -> Result<(usize, Vec<u32>), u64> {
    let (mut level, need) = (request.level.min(tree.lowest()), request.need);
    loop {
        let mut list: Vec<u32> = (0..tree.level(level).len() as u32).filter(|at| counts.at(level, *at) > 0).collect();
        sort(&mut list, counts, level, request.order);
        let alone = match request.order {
            Order::BestFit => best_fit(&list, counts, level, need),
            Order::LeastFree => list.iter().copied().find(|at| counts.at(level, *at) >= need),
        };
        if let Some(alone) = alone {
            return Ok((level, vec![alone]));
        }
        if request.required {
            return Err(counts.largest(level).map_or(0, |(_, count)| count));
        }
        if !request.climbs || level == 0 {
            let total = list.iter().map(|at| counts.at(level, *at)).sum::<u64>();
            return if total >= need { Ok((level, list)) } else { Err(total) };
        }
        level -= 1;
    }
}

/// The first of the smallest domains that hold `need` alone.
fn best_fit(list: &[u32], counts: &Counts, level: usize, need: u64) -> Option<u32> {
    let sufficient = list.iter().copied().filter(|at| counts.at(level, *at) >= need);
    sufficient.min_by_key(|at| (counts.at(level, *at), *at))
}

fn sort(list: &mut [u32], counts: &Counts, level: usize, order: Order) {
    match order {
        Order::BestFit => list.sort_unstable_by_key(|at| (Reverse(counts.at(level, *at)), *at)),
        Order::LeastFree => list.sort_unstable_by_key(|at| (counts.at(level, *at), *at)),
    }
}

struct Search<'a> {
    tree: &'a Tree,
    counts: &'a Counts,
    order: Order,
}

impl Search<'_> {
    fn children(&self, level: usize, position: u32) -> std::ops::Range<u32> {
        self.tree.level(level).get(position as usize).map_or(0..0, |place| place.children.clone())
    }

    /// Gives `need` units to as few of the domains as the order allows.
    fn minimise(&self, level: usize, mut list: Vec<u32>, need: u64) -> Vec<(u32, u64)> {
        sort(&mut list, self.counts, level, self.order);
        let (mut given, mut rest) = (Vec::new(), need);
        for (at, &position) in list.iter().enumerate() {
            if rest == 0 {
                break;
            }
            let count = self.counts.at(level, position);
            if self.order == Order::BestFit && count >= rest {
                let last = best_fit(&list[at..], self.counts, level, rest).unwrap_or(position);
                given.push((last, rest));
                break;
            }
            if count > 0 {
                given.push((position, count.min(rest)));
                rest -= count.min(rest);
            }
        }
        given
    }
}
