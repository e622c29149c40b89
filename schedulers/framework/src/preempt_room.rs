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
use crate::victims::pieces::{Piece, Told, pieces as pieces_of};
use crate::view::Board;
use ohm_cell::{Cell, Job, PlannedRooms, QuotaIf, RoomPreemptor, Run, Savepoint, Stopping, affordable, resume_run};
use ohm_model::{JobId, NodeId, PreemptionNeed, QueuePreemption, RunRef, Victim};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// So many times at most the search begins again without those that may not be stopped after all.
const SEARCHES: usize = 4;

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
    let wanted = affordable(cell, job, &tree);
    let Some(preemptor) = RoomPreemptor::of(cell, job, &tree, &wanted) else { return Found::default() };
    let told = Told::of(board.view().what());
    let mut pieces = pieces_of((cell, board.over()), &preemptor, (job, live), (&tree, &told));
    if pieces.is_empty() {
        return Found::default();
    }
    let mut search = Search { planner, board, item, dice, base: before, touched: BTreeSet::new() };
    search.end(told.runs(cell).chain(live.stopping(cell)));
    search.base = search.board.over().savepoint();
    let (mut planned, mut looked_at) = (None, 0);
    for _ in 0..SEARCHES {
        looked_at += pieces.len();
        let Some((rows, chosen)) = search.run(cell, job, &pieces) else { break };
        match victims_of(cell, job, &tree, (&rows, &chosen)) {
            Ok(victims) => {
                planned = Some((rows, victims));
                break;
            }
            // With fewer before it, it may not be stopped: the search goes on without it.
            Err(refused) => pieces.retain(|piece| piece.job.id != refused),
        }
    }
    let nodes = search.touched;
    board.over().roll_back(cell, before);
    Found { planned, nodes, pieces: looked_at }
}

/// The rows of the transaction for these pieces, with the rules by which they may be stopped for these rooms.
///
/// # Errors
/// The first job that may not be.
fn victims_of(
    cell: &Cell,
    job: &Job,
    tree: &QuotaIf<'_>,
    (rows, chosen): (&PlannedJob, &[&Piece<'_>]),
) -> Result<Vec<Victim>, JobId> {
    let mut wanted = vec![0; job.groups.len()];
    rows.place.iter().for_each(|row| wanted[usize::from(row.group.0)] += row.count);
    let stopped = by_job(chosen);
    let victims: Vec<Stopping<'_>> = stopped.iter().map(|(job, runs)| Stopping { job, runs }).collect();
    let refused = |at: usize| victims[at].job.id;
    let preemptor = RoomPreemptor::of(cell, job, tree, &wanted).ok_or_else(|| refused(0))?;
    let rights = preemptor.rights(&mut tree.clone(), &victims).map_err(refused)?;
    let need = PreemptionNeed::Room;
    let victim = |((job, runs), reason): ((&Job, _), _)| Victim { job: job.id, need, reason, runs };
    Ok(stopped.into_iter().zip(rights).map(victim).collect())
}

impl<P: Planner> Search<'_, '_, P> {
    /// The rows of the job and the pieces that end for them; nothing where it fits without, or never does.
    fn run<'u, 'a>(
        &mut self,
        cell: &Cell,
        job: &Job,
        pieces: &'u [Piece<'a>],
    ) -> Option<(PlannedJob, Vec<&'u Piece<'a>>)> {
        let least = match job.starts_whole() {
            true => 1,
            // Task by task: as many as there could be room for at all.
            false => tasks_of(&self.plan_without(pieces)?),
        };
        let mut plan = |pieces| self.plan_without(pieces).filter(|found| tasks_of(found) >= least);
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
        let rooms = PlannedRooms::of(job, planned.place.iter().map(|row| (row.group, row.node, row.count)));
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

fn tasks_of(planned: &PlannedJob) -> u64 {
    planned.place.iter().map(|row| u64::from(row.count)).sum()
}

/// The jobs of these pieces, in their order, each with the runs that stop: none where all of it does.
fn by_job<'a>(chosen: &[&Piece<'a>]) -> Vec<(&'a Job, Vec<RunRef>)> {
    let whole: BTreeSet<JobId> = chosen.iter().filter(|piece| piece.is_whole).map(|piece| piece.job.id).collect();
    let mut stopped: Vec<(&'a Job, Vec<RunRef>)> = Vec::new();
    let mut places: BTreeMap<JobId, usize> = BTreeMap::new();
    for piece in chosen {
        let at = *places.entry(piece.job.id).or_insert(stopped.len());
        if at == stopped.len() {
            stopped.push((piece.job, Vec::new()));
        }
        if !whole.contains(&piece.job.id) {
            stopped[at].1.extend(piece.runs.iter().map(|run| run.run));
        }
    }
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
