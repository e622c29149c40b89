//! A planner is shown the cell as if runs had ended: what it then plans for one job becomes rooms for later.

use crate::plan::{Decision, PlannedJob};
use crate::planner::{Budget, Planner, Work, WorkItem};
use crate::view::Board;
use ohm_cell::{Run, Savepoint};
use ohm_model::{GroupIndex, NodeId, Nomination, Purpose, TaskIndex};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// A board on which runs have ended that have not: for good, and the first ones of a list, so many as are looked at.
/// The planner is told what differs from what it was shown last.
pub(crate) struct AsIf<'s, 'b, P> {
    planner: &'s mut P,
    pub(crate) board: &'s mut Board<'b>,
    item: WorkItem,
    dice: &'s mut Prng,
    /// As the board was before.
    before: Savepoint,
    /// With what has ended for good.
    base: Savepoint,
    /// Before each step of the list that is shown.
    marks: Vec<Savepoint>,
    /// Nodes that are shown otherwise than the planner knows them.
    unsaid: BTreeSet<NodeId>,
    told: BTreeSet<NodeId>,
}

impl<'s, 'b, P: Planner> AsIf<'s, 'b, P> {
    /// The board as it is, with these runs ended for good.
    pub(crate) fn without<'r>(
        (planner, board): (&'s mut P, &'s mut Board<'b>),
        (item, dice): (WorkItem, &'s mut Prng),
        ended: impl Iterator<Item = &'r Run>,
    ) -> Self {
        let (cell, over) = (board.cell(), board.over());
        let before = over.savepoint();
        ended.for_each(|run| over.end_run(cell, run));
        let (base, unsaid) = (over.savepoint(), over.nodes_since(before).collect());
        AsIf { planner, board, item, dice, before, base, marks: Vec::new(), unsaid, told: BTreeSet::new() }
    }

    /// The board with what has ended for good, and nothing of a list.
    pub(crate) fn start_over(&mut self) {
        let (cell, over) = (self.board.cell(), self.board.over());
        self.unsaid.extend(over.nodes_since(self.base));
        over.roll_back(cell, self.base);
        self.marks.clear();
    }

    /// What the planner says where so many `steps` have ended, too. The list is the same as since
    /// [`AsIf::start_over`].
    pub(crate) fn plan_without<'r, S: 'r, R: Iterator<Item = &'r Run>>(
        &mut self,
        steps: &'r [S],
        count: usize,
        runs_of: impl Fn(&'r S) -> R,
    ) -> Option<PlannedJob> {
        let (cell, over) = (self.board.cell(), self.board.over());
        if let Some(mark) = self.marks.get(count) {
            self.unsaid.extend(over.nodes_since(*mark));
            over.roll_back(cell, *mark);
            self.marks.truncate(count);
        }
        let shown = over.savepoint();
        for step in &steps[self.marks.len()..count] {
            self.marks.push(over.savepoint());
            runs_of(step).for_each(|run| over.end_run(cell, run));
        }
        self.unsaid.extend(over.nodes_since(shown));
        self.plan()
    }

    fn plan(&mut self) -> Option<PlannedJob> {
        let (cell, before) = (self.board.cell(), self.board.over().savepoint());
        let mut nodes = std::mem::take(&mut self.unsaid);
        let planned = plan_as_shown(self.planner, self.board, self.item, (&mut nodes, self.dice));
        self.told.extend(nodes);
        // What the plan took it has not.
        self.unsaid.extend(self.board.over().nodes_since(before));
        self.unsaid.extend(planned.iter().flat_map(|planned| planned.place.iter().map(|row| row.node)));
        self.board.over().roll_back(cell, before);
        planned
    }

    /// Shows what is so. Returns the nodes that the planner has to read anew.
    pub(crate) fn over(mut self) -> BTreeSet<NodeId> {
        self.start_over();
        let (cell, over) = (self.board.cell(), self.board.over());
        self.unsaid.extend(over.nodes_since(self.before));
        over.roll_back(cell, self.before);
        self.told.append(&mut self.unsaid);
        self.told
    }
}

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
/// as few as do. With `too_few` of them nothing is found, the caller knows.
pub(crate) fn fewest<T>(
    (mut too_few, most): (usize, usize),
    times: usize,
    mut find: impl FnMut(usize) -> Option<T>,
) -> Option<(usize, T)> {
    let mut enough = most.min(too_few.saturating_mul(times).max(1));
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
            let found = fewest((0, most), times, |count| {
                asked += 1;
                (count >= needed).then_some(count)
            });
            assert_eq!(found, (needed <= most).then_some((needed, needed)), "{needed} of {most}");
            if needed > 1 && needed <= most {
                let later = fewest((needed - 1, most), times, |count| (count >= needed).then_some(count));
                assert_eq!(later, Some((needed, needed)), "{needed} of {most}");
            }
            assert!(asked <= 24, "{asked} questions for {needed} of {most}");
        }
    }
}
