//! What the groups of a job want now.

use ohm_cell::{Cell, Job, live_run, live_runs, preemptions};
use ohm_framework::{Obstacle, View};
use ohm_model::{FlavorResource, GroupIndex, GroupSpec};
use std::collections::BTreeMap;

/// What one group wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAsk {
    /// The group.
    pub group: GroupIndex,
    /// Fewer than this are of no use.
    pub least: u32,
    /// All that wait.
    pub most: u32,
    /// Whether the group has not started: then `least` is its minimum.
    pub starts: bool,
    /// Whether the group stands below its minimum in a gang that does not stand without it.
    pub is_short: bool,
}

/// What the groups of `job` want now, or what the job waits for by itself: the end of runs that are to stop, because
/// what still stands does not count ([`Job::is_down`]) or all of a loss is repaired at once ([`Job::awaits_ends`]), or
/// back-offs, because a group that must start has too few
/// waiting tasks.
pub fn asks(view: &View<'_>, job: &Job) -> Result<Vec<GroupAsk>, Obstacle> {
    let waits = |what: &str| Obstacle::Waiting { what: what.into() };
    if job.is_down() && job.live() > 0 {
        return Err(waits("its former runs to stop"));
    }
    if job.starts_whole() && job.awaits_ends() {
        return Err(waits("all that its nodes drive away to end"));
    }
    let (mut asks, mut backs_off) = (Vec::new(), false);
    let promised = promised_while_others_stop(view.cell(), job);
    for (at, (state, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let group = GroupIndex(at as u16);
        let most = view.pending(job, group).len();
        let standing = state.live_within_count() + view.in_flight(job.id, group);
        let missing = state.needed(spec).saturating_sub(standing);
        let least = match (state.started, standing) {
            (true, _) => 0,
            (false, 0) => whole_slices(spec, missing),
            (false, _) => missing,
        };
        // It would start with fewer, and others would have stopped for nothing.
        let promised = promised.get(at).copied().filter(|_| least > 0 && !spec.elastic).unwrap_or(0);
        let least = least.max(promised.min(most));
        backs_off |= most < least;
        if most >= least.max(1) {
            // A gang is repaired whole: half of a repair holds room for nothing, and may leave no domain for the rest.
            let repairs = state.started && job.starts_whole();
            let useful = if repairs { missing.min(most) } else { least };
            let is_short = repairs && missing > 0;
            asks.push(GroupAsk { group, least: useful.max(1), most, starts: least > 0, is_short });
        }
    }
    // Groups of a job that starts whole wait for each other; those of others stand by themselves.
    if backs_off && (job.starts_whole() || asks.is_empty()) {
        return Err(waits("tasks whose back-off has not passed"));
    }
    share_shortage(view, job, &mut asks);
    Ok(asks)
}

/// For how many tasks of each group others stop still for a job that starts whole; nothing where none do.
fn promised_while_others_stop<'a>(cell: &'a Cell, job: &Job) -> &'a [u32] {
    let Some(preemption) = preemptions(cell).get(job.id).filter(|_| job.starts_whole()) else { return &[] };
    let stops = preemption.victims.iter().any(|(victim, runs)| {
        let whole = cell.jobs().get(*victim).filter(|_| runs.is_empty()).into_iter();
        let runs = runs.iter().filter_map(|run| live_run(cell, *run));
        whole.flat_map(|job| live_runs(cell, job)).chain(runs).any(|run| run.stop.is_some())
    });
    if stops { &preemption.wanted } else { &[] }
}

/// `tasks` raised to whole slices of the group: fewer would be of no use, because what is left of them never stands.
fn whole_slices(spec: &GroupSpec, tasks: u32) -> u32 {
    let size = spec.slices().first().map_or(1, |slice| slice.size.max(1));
    tasks.div_ceil(size).saturating_mul(size).min(spec.count)
}

/// Lowers the most of each ask to what the quota has together: each group that starts goes without the same part of
/// what it can go without (Kueue's partial admission), instead of the first one taking what there is. Nothing is
/// changed where one group alone can go without something, nor where the quota has not even the least of all: each says
/// so by itself.
fn share_shortage(view: &View<'_>, job: &Job, asks: &mut [GroupAsk]) {
    let gives_way = |ask: &&GroupAsk| ask.starts && ask.most > ask.least;
    let in_slices = |ask: &GroupAsk| !job.spec.groups[usize::from(ask.group.0)].slices().is_empty();
    if asks.iter().filter(gives_way).count() < 2 || asks.iter().any(in_slices) {
        return;
    }
    let Some(left) = view.quota_of(job) else { return };
    let spare = |ask: &GroupAsk| if ask.starts { u64::from(ask.most - ask.least.min(ask.most)) } else { 0 };
    let steps: u64 = asks.iter().map(spare).sum();
    let count = |ask: &GroupAsk, step: u64| ask.most - u32::try_from(spare(ask) * step / steps).unwrap_or(0);
    let fits = |step: u64| {
        let mut sums: BTreeMap<FlavorResource, i64> = BTreeMap::new();
        for ask in asks.iter() {
            let Some(shape) = view.cell().shape_of(job, usize::from(ask.group.0)) else { continue };
            for &(column, one) in &shape.charges {
                let sum = sums.entry(column).or_default();
                *sum = sum.saturating_add(one.saturating_mul(i64::from(count(ask, step))));
            }
        }
        sums.into_iter().all(|(column, sum)| left.available(column).is_none_or(|left| left >= sum))
    };
    if fits(0) || !fits(steps) {
        return;
    }
    // The fewest steps that fit; with each further one no group asks for more.
    let (mut below, mut fewest) = (0, steps);
    while below + 1 < fewest {
        let middle = below + (fewest - below) / 2;
        if fits(middle) { fewest = middle } else { below = middle }
    }
    let counts: Vec<u32> = asks.iter().map(|ask| count(ask, fewest)).collect();
    asks.iter_mut().zip(counts).for_each(|(ask, most)| ask.most = most);
}
