//! What a group that runs already lacks: a slice of which some tasks are placed is whole again only where they are.

use super::Site;
use crate::subject::Subject;
use ohm_cell::TaskState;
use ohm_model::NodeId;
use ohm_stdx::RangeSet;
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeMap;

/// Broken slices of one domain: their waiting tasks must come back inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The level of the slices.
    pub(super) level: usize,
    /// The domain.
    pub(super) position: u32,
    /// The layers inside, of which the tasks make whole slices.
    pub(super) inner: Vec<(usize, u64)>,
    /// The waiting tasks, by rank.
    pub(super) ranks: Vec<u32>,
}

/// What waits of a group, by where it may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// What belongs to slices of which others are placed, innermost layers first.
    pub(super) gaps: Vec<Gap>,
    /// Whole slices that may go anywhere, by rank.
    pub(super) free: Vec<u32>,
}

/// What waits of the subject's group. Parts of slices that nothing binds to a domain are left out: they wait for the
/// rest of their slice.
pub(super) fn waiting(subject: &Subject<'_>, site: &Site<'_>) -> Waiting {
    let slices = &site.wish.slices;
    let mut waits = subject.view.pending(subject.job, subject.group);
    let Some(&(_, size)) = slices.first() else {
        return Waiting { gaps: Vec::new(), free: ranks(&waits) };
    };
    let homes = homes(subject, site, &near(&waits, size));
    let mut found = Waiting::default();
    if !homes.is_empty() {
        for layer in (0..slices.len()).rev() {
            for gap in gaps_of_layer(site, layer, &homes, &waits) {
                gap.ranks.iter().for_each(|rank| waits.remove(*rank, 1));
                found.gaps.push(gap);
            }
        }
    }
    found.free = whole(&ranks(&waits), size);
    if bug::is_planted(Bug::TearSlices) {
        tear(&mut found.gaps);
    }
    found
}

/// A planted bug: each domain gets as many tasks as it lacks, whichever.
fn tear(gaps: &mut [Gap]) {
    let mut pool: Vec<u32> = gaps.iter().flat_map(|gap| gap.ranks.iter().copied()).collect();
    pool.sort_unstable();
    for gap in gaps {
        let rest = pool.len() - gap.ranks.len();
        gap.ranks = pool.split_off(rest);
    }
}

/// The broken slices of one layer, joined by domain.
fn gaps_of_layer(site: &Site<'_>, layer: usize, homes: &BTreeMap<u32, u32>, waits: &RangeSet) -> Vec<Gap> {
    let (level, size) = site.wish.slices[layer];
    let inner = &site.wish.slices[layer + 1..];
    let mut by_position: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for slice in ranks(waits).chunk_by(|one, other| u64::from(*one) / size == u64::from(*other) / size) {
        let first = (u64::from(slice[0]) / size * size) as u32;
        let end = u64::from(first) + size;
        let Some((_, home)) = homes.range(first..).next().filter(|(rank, _)| u64::from(**rank) < end) else { continue };
        let come = inner.first().map_or_else(|| slice.to_vec(), |(_, size)| whole(slice, *size));
        if !come.is_empty() {
            by_position.entry(site.tree.above(*home, level)).or_default().extend(come);
        }
    }
    let gap = |(position, ranks)| Gap { level, position, inner: inner.to_vec(), ranks };
    by_position.into_iter().map(gap).collect()
}

/// Those of `ranks`, ascending, that make whole slices of `size`.
fn whole(ranks: &[u32], size: u64) -> Vec<u32> {
    let slices = ranks.chunk_by(|one, other| u64::from(*one) / size == u64::from(*other) / size);
    slices.filter(|slice| slice.len() as u64 == size).flatten().copied().collect()
}

fn ranks(set: &RangeSet) -> Vec<u32> {
    set.values().collect()
}

/// The ranks of the slices of `size` that lack tasks which wait.
fn near(waits: &RangeSet, size: u64) -> RangeSet {
    let mut near = RangeSet::default();
    for rank in ranks(waits) {
        let first = u64::from(rank) / size * size;
        let end = u32::try_from(first + size).unwrap_or(u32::MAX);
        if !near.contains(rank, 1) {
            near.insert(first as u32, end - first as u32);
        }
    }
    near
}

/// Where tasks of the group are or are on their way to, by rank, as far as their ranks are among `near`: what is on the
/// move counts where it goes, and what has succeeded where it ran.
fn homes(subject: &Subject<'_>, site: &Site<'_>, near: &RangeSet) -> BTreeMap<u32, u32> {
    let (job, group) = (subject.job, subject.group);
    let Some(state) = job.groups.get(usize::from(group.0)) else { return BTreeMap::new() };
    let mut homes = BTreeMap::new();
    let mut add = |rank: u32, node: NodeId| {
        if let Some(position) = site.tree.position(node) {
            homes.insert(rank, position);
        }
    };
    if state.live > 0 || state.succeeded > 0 {
        let placed = |state: TaskState| matches!(state, TaskState::Live | TaskState::Succeeded);
        for rank in near.values() {
            let Some(task) = state.tasks.get(rank as usize) else { break };
            if placed(task.state) && !state.moving.contains(rank, 1) {
                add(rank, task.node);
            }
        }
    }
    let is_near = |rank: &u32| near.contains(*rank, 1);
    let rooms = subject.view.cell().rooms_for_moving(job.id, group);
    rooms.for_each(|(node, tasks)| ranks(tasks).into_iter().filter(is_near).for_each(|rank| add(rank, node)));
    let under_way = subject.view.what().over.placed(job.id, group);
    let under_way =
        under_way.iter().flat_map(|&(first, count, node)| (first..first + count).map(move |rank| (rank, node)));
    under_way.filter(|(rank, _)| is_near(rank)).for_each(|(rank, node)| add(rank, node));
    homes
}
