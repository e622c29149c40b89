//! For how many of its tasks a job that lacks quota stops others, and where these would stand then.
//!
//! For all that wait, if others have enough for them. If not, and its groups may start with fewer (`minCount`), for as
//! many as others have enough for: each group goes without the same part of what it can go without (Kueue's partial
//! admission). Where fewer find room on nodes, no more are stopped than those need.

use crate::as_if::{fewest, plan_as_shown};
use crate::plan::PlannedJob;
use crate::planner::{Planner, WorkItem};
use crate::preempt_room::cut;
use crate::victims::victims;
use crate::view::Board;
use ohm_cell::{Job, free_quota, live_runs};
use ohm_model::{NodeId, Victim};
use ohm_stdx::Prng;
use std::collections::BTreeSet;

/// So often a number of tasks is sought for which the victims are enough and no more.
const SEARCHES: usize = 4;

/// For how many tasks others are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// For all that wait.
    All,
    /// For fewer, as many as may be.
    AsManyAsMay,
}

/// The search of one job for whom to stop.
pub(crate) struct QuotaSearch<'s, 'b, P> {
    planner: &'s mut P,
    pub(crate) board: &'s mut Board<'b>,
    item: WorkItem,
    dice: &'s mut Prng,
    /// Nodes that the planner was shown otherwise than they are.
    touched: BTreeSet<NodeId>,
}

impl<'s, 'b, P: Planner> QuotaSearch<'s, 'b, P> {
    pub(crate) fn new(
        (planner, board): (&'s mut P, &'s mut Board<'b>),
        (item, dice): (WorkItem, &'s mut Prng),
    ) -> Self {
        QuotaSearch { planner, board, item, dice, touched: BTreeSet::new() }
    }

    /// The nodes that the planner has to read anew.
    pub(crate) fn over(self) -> Vec<NodeId> {
        self.touched.into_iter().collect()
    }

    /// Whom `job` would stop for so many of its tasks, and its rows then.
    pub(crate) fn seek(&mut self, job: &Job, tasks: Tasks) -> Option<(PlannedJob, Vec<Victim>)> {
        let most: Vec<u32> = job.groups.iter().map(|group| group.pending.len()).collect();
        if tasks == Tasks::All {
            return self.stop_for(job, most);
        }
        let spare = |(at, most): (usize, &u32)| most.saturating_sub(job.least_to_place(at));
        let spare: Vec<u32> = most.iter().enumerate().map(spare).collect();
        let steps: usize = spare.iter().map(|spare| *spare as usize).sum();
        let without = |step: usize| {
            let part = |spare: u32| (spare as usize * step / steps) as u32;
            most.iter().zip(&spare).map(|(most, spare)| most - part(*spare)).collect()
        };
        if steps == 0 {
            return None;
        }
        fewest((0, steps), 2, |step| self.stop_for(job, without(step))).map(|(_, found)| found)
    }

    /// The same for about so many tasks of each group.
    fn stop_for(&mut self, job: &Job, mut wanted: Vec<u32>) -> Option<(PlannedJob, Vec<Victim>)> {
        for _ in 0..SEARCHES {
            let victims = victims(self.board.view().what(), job, &wanted);
            if victims.is_empty() {
                return None;
            }
            let placed = self.place_after(job, &victims)?;
            // What victims give back beyond that is not for this job. Part of a slice would be of no use.
            let in_slices = job.spec.groups.iter().any(|group| !group.slices().is_empty());
            let placed = if in_slices { placed } else { cut(placed, &wanted) };
            let mut found = vec![0; wanted.len()];
            placed.place.iter().for_each(|row| found[usize::from(row.group.0)] += row.count);
            if found == wanted {
                return Some((placed, victims));
            }
            wanted = found;
        }
        None
    }

    /// Where the job would stand once the victims have ended, as rows of a plan.
    fn place_after(&mut self, job: &Job, victims: &[Victim]) -> Option<PlannedJob> {
        let mut board = self.board.with_job(job);
        let (cell, before) = (board.cell(), board.over().savepoint());
        for victim in victims.iter().filter_map(|victim| cell.jobs().get(victim.job)) {
            for run in live_runs(cell, victim) {
                board.over().end_run(cell, run);
                self.touched.insert(run.node);
            }
            free_quota(board.over(), cell, victim);
        }
        let placed = plan_as_shown(self.planner, &mut board, self.item, (&mut self.touched, self.dice));
        board.over().roll_back(cell, before);
        placed
    }
}
