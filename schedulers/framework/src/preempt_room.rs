//! A job that has its quota and finds no room stops others for it, as few as that needs.
//!
//! ```text
//! what stops already counts as ended ──fits──▶ it waits
//!        │ does not fit
//!        ▼
//! pieces are taken as ended, in the order of `victims/pieces.rs`, until the planner finds room
//!        │
//!        ▼
//! where it stands then, each piece goes on if the rooms fit beside it, the most important first
//!        │
//!        ▼
//! the others are the victims
//! ```

use crate::as_if::{fewest, plan_as_shown};
use crate::plan::PlannedJob;
use crate::planner::{Need, Planner, WorkItem};
use crate::victims::live::LiveJobs;
use crate::victims::pieces::{Piece, Rank, Told, pieces as pieces_of};
use crate::view::Board;
use ohm_cell::{
    Cell, Job, PlannedRooms, QuotaIf, Refused, RoomPreemptor, Run, Savepoint, Stopping, affordable, resume_run,
};
use ohm_model::{JobId, NodeId, PreemptionNeed, QueuePreemption, RunRef, Victim};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// So many times at most the search begins again without those that may not be stopped after all.
const SEARCHES: usize = 8;

/// What looking for room among others came to.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The rows of the job once its victims have ended, and those.
    pub(crate) planned: Option<(PlannedJob, Vec<Victim>)>,
    /// The nodes that the planner has to read anew.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// How many pieces were looked at.
    pub(crate) pieces: usize,
}

/// One search.
struct Search<'s, 'b, P> {
    planner: &'s mut P,
    board: &'s mut Board<'b>,
    item: WorkItem,
    dice: &'s mut Prng,
    /// Where what stops already has ended on the board.
    base: Savepoint,
    touched: BTreeSet<NodeId>,
}

/// Whom `job` would stop for room, and where it would stand then.
pub(crate) fn seek<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    (item, job): (WorkItem, &Job),
    live: &LiveJobs,
    dice: &mut Prng,
) -> Found {
    let (cell, before) = (board.cell(), board.over().savepoint());
    if live.none_below(job.spec.priority) && !may_stop_equals(cell, job) {
        return Found::default();
    }
    let tree = QuotaIf::promised_over(cell, board.over(), job);
    let wanted = affordable(cell, job, &tree, false);
    let Some(preemptor) = RoomPreemptor::of(cell, job, &tree, &wanted) else { return Found::default() };
    let told = Told::of(board.view().what());
    let pieces = pieces_of((cell, board.over()), &preemptor, (job, live), (&tree, &told));
    if pieces.is_empty() {
        return Found::default();
    }
    let mut search = Search { planner, board, item, dice, base: before, touched: BTreeSet::new() };
    search.end(told.runs(cell).chain(live.stopping(cell)));
    search.base = search.board.over().savepoint();
    let looked_at = pieces.len();
    let mut planned = search.go_on((cell, job), &tree, pieces.clone(), &wanted);
    let own = affordable(cell, job, &tree, true);
    // Who may not borrow for all of its tasks may take its own back for some.
    if planned.is_none() && !job.starts_whole() && own != wanted {
        planned = search.go_on((cell, job), &tree, pieces, &own);
    }
    let nodes = search.touched;
    board.over().roll_back(cell, before);
    Found { planned, nodes, pieces: looked_at }
}

/// The rows of the transaction for these pieces, with the rules by which they may be stopped for the rooms of `rows`.
///
/// # Errors
/// The first job that may not be, and how many of its runs may; nothing where the quota lacks what the rooms need.
fn victims_of(
    cell: &Cell,
    job: &Job,
    tree: &QuotaIf<'_>,
    (rows, chosen): (&PlannedJob, &[&Piece<'_>]),
) -> Result<Vec<Victim>, Option<(JobId, usize)>> {
    let mut wanted = vec![0; job.groups.len()];
    rows.place.iter().for_each(|row| wanted[usize::from(row.group.0)] += row.count);
    let stopped = by_job(chosen);
    let victims: Vec<Stopping<'_>> = stopped.iter().map(|(job, runs)| Stopping { job, runs }).collect();
    let preemptor = RoomPreemptor::of(cell, job, tree, &wanted).ok_or(None)?;
    let open = |refused: Refused| Some((victims[refused.at].job.id, refused.open));
    let rights = preemptor.rights(tree, &victims).map_err(open)?;
    let need = PreemptionNeed::Room;
    let victim = |((job, runs), reason): ((&Job, _), _)| Victim { job: job.id, need, reason, runs };
    Ok(stopped.into_iter().zip(rights).map(victim).collect())
}

/// Leaves of a plan no more than `most` tasks of each group.
fn cut(mut planned: PlannedJob, most: &[u32]) -> PlannedJob {
    let mut left = most.to_vec();
    for row in &mut planned.place {
        let left = &mut left[usize::from(row.group.0)];
        row.count = row.count.min(*left);
        *left -= row.count;
    }
    planned.place.retain(|row| row.count > 0);
    planned
}

impl<P: Planner> Search<'_, '_, P> {
    /// What is found of these pieces for at most `wanted` tasks of each group. Where one turns out not to be open once
    /// others have stopped, it is sought again without what else of its job is there.
    fn go_on<'a>(
        &mut self,
        (cell, job): (&'a Cell, &Job),
        tree: &QuotaIf<'_>,
        mut pieces: Vec<Piece<'a>>,
        wanted: &[u32],
    ) -> Option<(PlannedJob, Vec<Victim>)> {
        for _ in 0..SEARCHES {
            let (rows, chosen) = self.run(cell, job, &pieces, wanted)?;
            let (refused, open) = match victims_of(cell, job, tree, (&rows, &chosen)) {
                Ok(victims) => return Some((rows, victims)),
                Err(refused) => refused?,
            };
            let (rooms, of_job) = (rooms_of(job, &rows), chosen.iter().filter(|piece| piece.job.id == refused));
            let kept: BTreeSet<Rank> = of_job.take(open).map(|piece| piece.rank).collect();
            pieces.retain(|piece| piece.job.id != refused || !piece.is_in(&rooms) || kept.contains(&piece.rank));
        }
        None
    }

    /// The rows of the job and the pieces that end for them; nothing where it fits without, or never does.
    fn run<'u, 'a>(
        &mut self,
        cell: &Cell,
        job: &Job,
        pieces: &'u [Piece<'a>],
        wanted: &[u32],
    ) -> Option<(PlannedJob, Vec<&'u Piece<'a>>)> {
        let least = match job.starts_whole() {
            true => 1,
            // Task by task: as many as there could be room for at all.
            false => tasks_of(&cut(self.plan_without(pieces)?, wanted)),
        };
        let mut plan = |pieces| {
            let planned = cut(self.plan_without(pieces)?, wanted);
            Some(planned).filter(|planned| tasks_of(planned) >= least)
        };
        if plan(&[]).is_some() {
            return None;
        }
        let (enough, planned) = fewest(pieces.len(), 4, |count| plan(&pieces[..count]))?;
        let victims = self.spare(cell, job, &planned, &pieces[..enough]);
        (!victims.is_empty()).then_some((planned, victims))
    }

    /// What the planner says where these have ended, too.
    fn plan_without(&mut self, pieces: &[Piece<'_>]) -> Option<PlannedJob> {
        let cell = self.board.cell();
        self.board.over().roll_back(cell, self.base);
        self.end(pieces.iter().flat_map(|piece| piece.runs.iter().copied()));
        plan_as_shown(self.planner, self.board, self.item, (&mut self.touched, self.dice))
    }

    fn end<'r>(&mut self, runs: impl Iterator<Item = &'r Run>) {
        let cell = self.board.cell();
        for run in runs {
            self.board.over().end_run(cell, run);
            self.touched.insert(run.node);
        }
    }

    /// The pieces that have to end for these rows: all others go on, the most important first.
    fn spare<'u, 'a>(
        &mut self,
        cell: &Cell,
        job: &Job,
        planned: &PlannedJob,
        pieces: &'u [Piece<'a>],
    ) -> Vec<&'u Piece<'a>> {
        let rooms = rooms_of(job, planned);
        let over = self.board.over();
        over.roll_back(cell, self.base);
        pieces.iter().flat_map(|piece| &piece.runs).for_each(|run| over.end_run(cell, run));
        let mut chosen: Vec<&Piece<'_>> = Vec::new();
        let mut stopped_whole: BTreeSet<JobId> = BTreeSet::new();
        for piece in pieces.iter().rev() {
            let nodes: BTreeSet<NodeId> =
                piece.runs.iter().map(|run| run.node).filter(|node| rooms.has(*node)).collect();
            if nodes.is_empty() || stopped_whole.contains(&piece.job.id) {
                continue;
            }
            piece.runs.iter().for_each(|run| resume_run(over, cell, run));
            if nodes.iter().all(|node| rooms.fit_on(cell, over, *node)) {
                continue;
            }
            piece.runs.iter().for_each(|run| over.end_run(cell, run));
            if piece.is_whole {
                stopped_whole.insert(piece.job.id);
            }
            chosen.push(piece);
        }
        chosen.reverse();
        chosen
    }
}

fn rooms_of<'j>(job: &'j Job, planned: &PlannedJob) -> PlannedRooms<'j> {
    PlannedRooms::of(job, planned.place.iter().map(|row| (row.group, row.node, row.count)))
}

fn tasks_of(planned: &PlannedJob) -> u64 {
    planned.place.iter().map(|row| u64::from(row.count)).sum()
}

/// The jobs of these pieces in the order of their last ones, each with the runs that stop: none where all of it does.
fn by_job<'a>(chosen: &[&Piece<'a>]) -> Vec<(&'a Job, Vec<RunRef>)> {
    let whole: BTreeSet<JobId> = chosen.iter().filter(|piece| piece.is_whole).map(|piece| piece.job.id).collect();
    let mut last: BTreeMap<JobId, usize> = BTreeMap::new();
    chosen.iter().enumerate().for_each(|(at, piece)| _ = last.insert(piece.job.id, at));
    let mut stopped: BTreeMap<usize, (&'a Job, Vec<RunRef>)> = BTreeMap::new();
    for piece in chosen {
        let (_, runs) = stopped.entry(last[&piece.job.id]).or_insert((piece.job, Vec::new()));
        if !whole.contains(&piece.job.id) {
            runs.extend(piece.runs.iter().map(|run| run.run));
        }
    }
    let mut stopped: Vec<(&'a Job, Vec<RunRef>)> = stopped.into_values().collect();
    stopped.iter_mut().for_each(|(_, runs)| runs.sort_unstable());
    stopped
}

/// Whether the queue of `job` may let it stop others that are no less important.
fn may_stop_equals(cell: &Cell, job: &Job) -> bool {
    let queue = cell.quota().get(&job.spec.queue);
    queue.is_some_and(|queue| queue.spec.preemption != QueuePreemption::default())
}

/// Whether tasks of `job` that wait seek room that others may have.
pub(crate) fn seeks_room(job: &Job, need: Need) -> bool {
    job.spec.preempts && matches!(need, Need::Start | Need::Repair)
}
