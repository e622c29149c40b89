//! What a group that stands already lacks: slices that lost some of their tasks are whole again only where they stand.

use super::Site;
use crate::subject::Subject;
use ohm_cell::TaskState;
use std::collections::BTreeMap;

/// A broken slice, or several of one domain: so many tasks must come back inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The level of the slices.
    pub(super) level: usize,
    /// The domain.
    pub(super) position: u32,
    /// How many tasks are missing.
    pub(super) tasks: u32,
    /// The layers inside.
    pub(super) inner: Vec<(usize, u64)>,
    /// Waiting ranks whose neighbours of the same slice stand there.
    pub(super) ranks: Vec<u32>,
}

/// The gaps of the subject's group, innermost layers first. Nothing where no slices are asked for, or none stands.
pub(super) fn gaps(subject: &Subject<'_>, site: &Site<'_>) -> Vec<Gap> {
    let slices = &site.wish.slices;
    let Some(group) = subject.job.groups.get(usize::from(subject.group.0)) else { return Vec::new() };
    if slices.is_empty() || (group.live == 0 && group.succeeded == 0) {
        return Vec::new();
    }
    let mut standing: BTreeMap<u32, u64> = BTreeMap::new();
    let mut add = |node, tasks: u64| {
        if let Some(position) = site.tree.position(node) {
            *standing.entry(position).or_insert(0) += tasks;
        }
    };
    let stands = |rank: usize, state: TaskState| {
        let moves = group.moving.contains(rank as u32, 1);
        state == TaskState::Succeeded || (state == TaskState::Live && !moves)
    };
    let standing_tasks = group.tasks.iter().enumerate().filter(|(rank, task)| stands(*rank, task.state));
    standing_tasks.for_each(|(_, task)| add(task.node, 1));
    subject.under_way().for_each(|(node, tasks)| add(node, u64::from(tasks)));
    // What is on the move counts where it goes.
    let (view, job) = (&subject.view, subject.job);
    let rooms = view.cell().rooms_for_moving(job.id, subject.group);
    rooms.for_each(|(node, _)| add(node, u64::from(view.what().kept_for_moving(job, subject.group, node))));
    let mut found: Vec<Gap> = Vec::new();
    for (layer, &(level, size)) in slices.iter().enumerate().rev() {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (position, tasks) in &standing {
            *sums.entry(site.tree.above(*position, level)).or_insert(0) += tasks;
        }
        for gap in &found {
            let at = site.tree.ancestor(gap.level, gap.position, level);
            *sums.entry(at).or_insert(0) += u64::from(gap.tasks);
        }
        for (position, tasks) in sums {
            let missing = (size - tasks % size) % size;
            if missing > 0 {
                let inner = slices[layer + 1..].to_vec();
                found.push(Gap { level, position, tasks: missing as u32, inner, ranks: Vec::new() });
            }
        }
    }
    bind_ranks(subject, site, &mut found);
    found
}

/// Gives each gap the waiting ranks whose slice stands in its domain, innermost layers first.
fn bind_ranks(subject: &Subject<'_>, site: &Site<'_>, gaps: &mut [Gap]) {
    let Some(group) = subject.job.groups.get(usize::from(subject.group.0)) else { return };
    let pending = subject.view.pending(subject.job, subject.group);
    let ranks = pending.iter().flat_map(|(first, count)| first..first + count);
    for rank in ranks {
        for (level, size) in site.wish.slices.iter().rev() {
            let first = u64::from(rank) / size * size;
            let stays = |mate: &u64| !group.moving.contains(*mate as u32, 1);
            let mates = (first..first + size).filter(stays).filter_map(|mate| group.tasks.get(mate as usize));
            let mut standing = mates.filter(|mate| matches!(mate.state, TaskState::Live | TaskState::Succeeded));
            let home = standing.find_map(|mate| site.tree.position(mate.node));
            let Some(home) = home.map(|position| site.tree.above(position, *level)) else { continue };
            let open = gaps
                .iter_mut()
                .find(|gap| gap.level == *level && gap.position == home && gap.ranks.len() < gap.tasks as usize);
            if let Some(gap) = open {
                gap.ranks.push(rank);
                break;
            }
        }
    }
}
