//! A planner is shown the cell as if runs had ended: what it then plans for one job becomes rooms for later.

use crate::plan::{Decision, PlannedJob};
use crate::planner::{Budget, Planner, Work, WorkItem};
use crate::view::Board;
use ohm_model::{GroupIndex, NodeId, Nomination, Purpose, TaskIndex};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// What the planner plans for the job of `item` on the board as it is, if it places anything. It is told of the nodes
/// `touched`, which the board shows otherwise than it knows them; those that the plan names are added.
pub(crate) fn plan_as_shown<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    item: WorkItem,
    (touched, dice): (&mut BTreeSet<NodeId>, &mut Prng),
) -> Option<PlannedJob> {
    planner.changed(&board.view(), &touched.iter().copied().collect::<Vec<_>>(), &[]);
    let work = Work { jobs: vec![item], budget: Budget::UNBOUNDED };
    let was_later = std::mem::replace(&mut board.over().later, true);
    let plan = planner.plan(&mut board.lend(), &work, dice);
    board.over().later = was_later;
    let planned = plan.decisions.into_iter().find_map(|decision| match decision {
        Decision::Planned(planned) if planned.job.job == item.job && !planned.place.is_empty() => Some(*planned),
        _ => None,
    })?;
    touched.extend(planned.place.iter().map(|row| row.node));
    Some(planned)
}

/// As few of `most` things as something is found with, and what: so many `times` as many are tried each time, and then
/// as few as do.
pub(crate) fn fewest<T>(most: usize, times: usize, mut find: impl FnMut(usize) -> Option<T>) -> Option<(usize, T)> {
    let (mut too_few, mut enough) = (0, most.min(1));
    let mut found = loop {
        if enough == too_few {
            return None;
        }
        if let Some(found) = find(enough) {
            break found;
        }
        (too_few, enough) = (enough, enough.saturating_mul(times).min(most));
    };
    while enough - too_few > 1 {
        let between = too_few + (enough - too_few) / 2;
        match find(between) {
            Some(fewer) => (enough, found) = (between, fewer),
            None => too_few = between,
        }
    }
    Some((enough, found))
}

/// The rows of a plan as rooms, kept for `purpose`.
pub(crate) fn rooms_for(planned: &PlannedJob, purpose: Purpose) -> Vec<Nomination> {
    let mut rooms: BTreeMap<(GroupIndex, NodeId), u32> = BTreeMap::new();
    for row in &planned.place {
        *rooms.entry((row.group, row.node)).or_default() += row.count;
    }
    let (job, first) = (planned.job.job, TaskIndex(0));
    let room = |((group, node), count)| Nomination { job, group, node, first, count, purpose };
    rooms.into_iter().map(room).collect()
}

#[cfg(test)]
mod tests {
    use super::fewest;

    #[test]
    fn the_fewest_that_do_are_found_and_none_where_all_do_not() {
        for (most, needed, times) in
            [(0, 1, 2), (1, 1, 2), (9, 1, 4), (9, 6, 2), (9, 9, 4), (9, 10, 4), (1_000, 517, 4)]
        {
            let mut asked = 0;
            let found = fewest(most, times, |count| {
                asked += 1;
                (count >= needed).then_some(count)
            });
            assert_eq!(found, (needed <= most).then_some((needed, needed)), "{needed} of {most}");
            assert!(asked <= 24, "{asked} questions for {needed} of {most}");
        }
    }
}
