//! Balanced placement: the same least number of slices on every domain that is used (Kueue's, for preferred levels).
//!
//! Among the children of one domain above the preferred level, the threshold is the most slices that each of as few
//! domains as possible can take alike. Domains below it are left out; a small search over sums picks exactly that many
//! of the others with the least overshoot; each gets the threshold, and the first in order what is left over.

use super::Count;
use super::domains::{Given, Search};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A domain under consideration, and what is left of it after pruning.
#[derive(Clone, Debug)]
struct Domain {
    at: u32,
    count: Count,
    /// One level down, where the preferred level is above that of slices.
    children: Vec<Domain>,
}

/// A candidate: the domains of one family, how evenly they can be filled, and how many are needed.
struct Family {
    domains: Vec<Domain>,
    threshold: u64,
    used: usize,
}

/// The greedy choice: how many domains, and what the last of them take.
struct Greedy {
    used: usize,
    /// Slices of the last domain without the leader, and beside it, if any was needed.
    last: Option<(u64, u64)>,
    /// Slices beside the leader of the domain that hosts it.
    host: Option<u64>,
}

/// The level filled evenly and what each of its domains is given; nothing where it cannot be done.
pub(super) fn choose(search: &Search<'_>, level: usize, need: u64, leader: bool) -> Option<(usize, Vec<Given>)> {
    let counts = search.counts;
    let level = level.clamp(counts.top(), counts.layers().level);
    let is_above = level < counts.layers().level;
    let parents: Vec<std::ops::Range<u32>> = if level > counts.top() {
        counts.positions(level - 1).map(|at| search.children(level - 1, at)).collect()
    } else {
        vec![counts.positions(level)]
    };
    let mut best: Option<Family> = None;
    for range in parents {
        let read = |at: u32| {
            let below = if is_above { search.children(level, at) } else { 0..0 };
            let children = below.map(|at| Domain { at, count: search.at(level + 1, at), children: vec![] });
            Domain { at, count: search.at(level, at), children: children.collect() }
        };
        let found = family(range.map(read).collect(), is_above, need, leader);
        let rank = |family: &Family| (Reverse(family.threshold), family.used);
        match (found, &best) {
            (Some(found), Some(known)) if rank(&found) >= rank(known) => {}
            (Some(found), _) => best = Some(found),
            (None, _) => {}
        }
    }
    let best = best?;
    let size = counts.layers().size.max(1);
    let (level, candidates) = match is_above {
        false => (level, best.domains),
        true => {
            let chosen = pick(by_spread(best.domains), need, leader, size)?;
            let mut below: Vec<Domain> = chosen.into_iter().flat_map(|domain| domain.children).collect();
            below.sort_by_key(|domain| domain.at);
            (level + 1, below)
        }
    };
    let chosen = pick(candidates, need, leader, size)?;
    fill(chosen, best.threshold, need, leader, size).map(|given| (level, given))
}

/// The domains of one parent, pruned to those that reach the threshold.
fn family(domains: Vec<Domain>, is_above: bool, need: u64, leader: bool) -> Option<Family> {
    let first = greedy(&evaluated(&domains, is_above), need, leader)?;
    let last = first.last.map(|(alone, _)| alone);
    let shares = [Some(need / first.used.max(1) as u64), last, first.host];
    let threshold = shares.into_iter().flatten().min()?;
    // A leader may be hosted only where the threshold is reached beside it; failing that, a lower one may do.
    let lower = first.last.filter(|_| leader).map(|(_, beside)| threshold.min(beside));
    for threshold in [Some(threshold), lower].into_iter().flatten() {
        let pruned = pruned(domains.clone(), threshold);
        if threshold > 0
            && let Some(again) = greedy(&pruned, need, leader)
        {
            return Some(Family { domains: pruned, threshold, used: again.used });
        }
    }
    None
}

/// What the greedy choice looks at: the children where the preferred level is above that of slices.
fn evaluated(domains: &[Domain], is_above: bool) -> Vec<Domain> {
    match is_above {
        true => domains.iter().flat_map(|domain| domain.children.iter().cloned()).collect(),
        false => domains.to_vec(),
    }
}

/// Drops children below the threshold, then domains below it. What reaches it only without the leader hosts none.
fn pruned(domains: Vec<Domain>, threshold: u64) -> Vec<Domain> {
    let without_leader = |count: &mut Count| (count.hosts, count.slices_beside, count.tasks_beside) = (false, 0, 0);
    let reaches = |domain: &mut Domain| {
        if domain.count.hosts && domain.count.slices_beside < threshold {
            without_leader(&mut domain.count);
            domain.children.iter_mut().for_each(|child| without_leader(&mut child.count));
        }
        domain.count.slices >= threshold
    };
    let mut left = Vec::new();
    for mut domain in domains {
        if !domain.children.is_empty() {
            domain.children.retain_mut(reaches);
            domain.count = sum(&domain.children, &domain.count);
        }
        if reaches(&mut domain) {
            left.push(domain);
        }
    }
    left
}

/// The count of a domain whose children were pruned.
fn sum(children: &[Domain], before: &Count) -> Count {
    let mut count = Count { affinity: before.affinity, ..Count::default() };
    count.tasks = children.iter().map(|child| child.count.tasks).sum();
    count.slices = children.iter().map(|child| child.count.slices).sum();
    let able = || children.iter().map(|child| child.count).filter(|count| count.hosts);
    count.hosts = able().next().is_some();
    if count.hosts {
        let slices = able().map(|count| count.slices - count.slices_beside.min(count.slices)).min().unwrap_or(0);
        let tasks = able().map(|count| count.tasks - count.tasks_beside.min(count.tasks)).min().unwrap_or(0);
        (count.slices_beside, count.tasks_beside) = (count.slices - slices, count.tasks - tasks);
    }
    count
}

fn order(domain: &Domain) -> (Reverse<u64>, Reverse<u64>, u64, u32) {
    (Reverse(domain.count.affinity), Reverse(domain.count.slices), domain.count.tasks, domain.at)
}

fn order_for_leader(domain: &Domain) -> (bool, Reverse<u64>, Reverse<u64>, u64, u32) {
    let count = domain.count;
    (!count.hosts, Reverse(count.affinity), Reverse(count.slices_beside), count.tasks_beside, domain.at)
}

/// Takes the largest domains until all slices and the leader stand.
fn greedy(domains: &[Domain], need: u64, leader: bool) -> Option<Greedy> {
    let mut list: Vec<&Domain> = domains.iter().collect();
    let (mut rest, mut found) = (need, Greedy { used: 0, last: None, host: None });
    if leader {
        list.sort_by_key(|domain| order_for_leader(domain));
        let host = list.first().filter(|domain| domain.count.hosts)?;
        found = Greedy { used: 1, last: None, host: Some(host.count.slices_beside) };
        rest = rest.saturating_sub(host.count.slices_beside);
        list.remove(0);
    }
    list.sort_by_key(|domain| order(domain));
    for domain in list {
        if rest == 0 {
            break;
        }
        rest = rest.saturating_sub(domain.count.slices);
        found.used += 1;
        found.last = Some((domain.count.slices, domain.count.slices_beside));
    }
    (rest == 0 && found.used > 0).then_some(found)
}

/// The order of the first choice: hosts of the leader, then the largest, then those whose room is spread most evenly.
fn by_spread(mut domains: Vec<Domain>) -> Vec<Domain> {
    domains.sort_by_cached_key(|domain| {
        let count = domain.count;
        (!count.hosts, Reverse(count.slices_beside), Reverse(evenness(&domain.children)), domain.at)
    });
    domains
}

/// The entropy of the children's tasks in 2^-20 bits: log2 T − Σ c·log2 c / T.
fn evenness(children: &[Domain]) -> u64 {
    let all: u64 = children.iter().map(|child| child.count.tasks).sum();
    let parts: u128 =
        children.iter().map(|child| u128::from(child.count.tasks) * u128::from(logarithm(child.count.tasks))).sum();
    if all == 0 { 0 } else { logarithm(all).saturating_sub((parts / u128::from(all)) as u64) }
}

/// The binary logarithm in 2^-20ths, rounded down; 0 for 0. Squaring the mantissa yields one bit at a time.
fn logarithm(number: u64) -> u64 {
    const BITS: u32 = 20;
    let Some(whole) = number.checked_ilog2() else { return 0 };
    // The mantissa with 32 bits behind the point.
    let mut mantissa = (u128::from(number) << 32) >> whole;
    let mut fraction = 0;
    for _ in 0..BITS {
        mantissa = (mantissa * mantissa) >> 32;
        fraction <<= 1;
        if mantissa >> 33 != 0 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    u64::from(whole) << BITS | fraction
}

/// Most steps of the search over sums; what is larger takes the greedy choice itself, whose overshoot then is small
/// beside its size.
const STEPS_MAX: u64 = 1 << 21;

/// Picks exactly as many domains as the greedy choice, with the least overshoot in tasks, the first found on a tie.
fn pick(mut domains: Vec<Domain>, need: u64, leader: bool, size: u64) -> Option<Vec<Domain>> {
    let used = greedy(&domains, need, leader)?.used;
    let tasks = need.saturating_mul(size);
    if tasks.saturating_mul(used as u64).saturating_mul(domains.len() as u64) > STEPS_MAX {
        domains.sort_by_key(order_for_leader);
        if leader && domains.len() > 1 {
            domains[1..].sort_by_key(order);
        }
        domains.truncate(used);
        return Some(domains);
    }
    // By number of domains: from (the leader waits, tasks still to place) to the first set found for it.
    type Sums = BTreeMap<(bool, i64), Vec<usize>>;
    let mut sums: Vec<Sums> = vec![Sums::new(); used + 1];
    sums[0].insert((leader, tasks as i64), Vec::new());
    for (index, domain) in domains.iter().enumerate() {
        for number in (1..=used).rev() {
            let mut found: Vec<((bool, i64), Vec<usize>)> = Vec::new();
            for ((waits, rest), set) in &sums[number - 1] {
                if *rest <= 0 && !*waits {
                    continue;
                }
                let with = || set.iter().copied().chain([index]).collect();
                if *waits && domain.count.hosts {
                    found.push(((false, rest - domain.count.tasks_beside as i64), with()));
                }
                if domain.count.slices > 0 {
                    found.push(((*waits, rest - domain.count.tasks as i64), with()));
                }
            }
            for (key, set) in found {
                sums[number].entry(key).or_insert(set);
            }
        }
    }
    let covered = sums[used].iter().filter(|((waits, rest), _)| !*waits && *rest <= 0);
    let (_, set) = covered.max_by_key(|((_, rest), _)| *rest)?;
    Some(set.iter().map(|index| domains[*index].clone()).collect())
}

/// Gives each domain the threshold, and what is left over to the first in order.
fn fill(mut domains: Vec<Domain>, threshold: u64, need: u64, leader: bool, size: u64) -> Option<Vec<Given>> {
    let mut rest = need.checked_sub(threshold.checked_mul(domains.len() as u64)?)?;
    domains.sort_by_key(order_for_leader);
    let mut waits = leader;
    let mut given = Vec::with_capacity(domains.len());
    for domain in &domains {
        let hosts = waits && domain.count.hosts;
        let room = if hosts { domain.count.slices_beside } else { domain.count.slices };
        let more = room.checked_sub(threshold)?.min(rest);
        rest -= more;
        waits &= !hosts;
        given.push(Given { at: domain.at, tasks: (threshold + more) * size, leader: hosts });
    }
    (rest == 0 && !waits).then_some(given)
}
