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
//! For a single task that may only stop what is less important, the node is found first where what has to stop is least
//! important (`victims/one_node.rs`), and the pieces on it are all that are taken.

use crate::as_if::{AsIf, fewest};
use crate::plan::PlannedJob;
use crate::planner::{Need, Planner, WorkItem};
use crate::victims::live::LiveJobs;
use crate::victims::one_node::{on_one_node, single_task};
use crate::victims::pieces::{Piece, Pieces, Rank, Told, open_by_policy};
use crate::view::Board;
use ohm_cell::{Cell, Job, PlannedRooms, QuotaIf, Refused, RoomPreemptor, Stopping, affordable, resume_run};
use ohm_model::{JobId, NodeId, PreemptionNeed, QueuePreemption, RunRef, Victim};
use ohm_stdx::Prng;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// So many times at most the search begins again without those that may not be stopped after all.
const SEARCHES: usize = 8;

/// So many pieces are looked at first, and so many times as many where those are not enough.
const AT_FIRST: usize = 64;
const TIMES: usize = 4;

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
    /// Where what stops already has ended.
    as_if: AsIf<'s, 'b, P>,
    /// With so many pieces a job that starts whole finds no room.
    too_few: usize,
    /// Whether it finds room once what stops already has ended, or where all go on: nobody has to stop.
    nobody_stops: bool,
}

/// Whom `job` would stop for room, and where it would stand then.
pub(crate) fn seek<P: Planner>(
    planner: &mut P,
    board: &mut Board<'_>,
    (item, job): (WorkItem, &Job),
    live: &mut LiveJobs,
    dice: &mut Prng,
) -> Found {
    let cell = board.cell();
    if live.none_below(job.spec.priority) && !may_stop_equals(cell, job) {
        return Found::default();
    }
    let tree = QuotaIf::promised_over(cell, board.over(), job);
    let wanted = affordable(cell, job, &tree, false);
    let Some(preemptor) = RoomPreemptor::of(cell, job, &tree, &wanted) else { return Found::default() };
    let told = Told::of(board.view().what());
    let by_policy = open_by_policy((cell, board.over()), &preemptor, &tree);
    let mut found = Found::default();
    if let Some(group) = single_task(job, &wanted).filter(|_| by_policy.is_empty()) {
        let nodes = live.nodes_for(cell, job.groups[usize::from(group.0)].shape);
        if let Some((node, made)) = on_one_node((cell, board.over()), (job, group), (&preemptor, &tree, &told), nodes) {
            // What stops wherever the planner could now find room.
            let freed = made.iter().flat_map(|piece| piece.runs.iter().map(|run| run.node));
            let freed: BTreeSet<NodeId> = freed.chain(std::iter::once(node)).collect();
            let stops = freed.iter().flat_map(|node| told.on_node(cell, *node));
            let mut search = Search::shown(AsIf::without((planner, board), (item, dice), stops));
            search.too_few = made.len().saturating_sub(1);
            found.pieces = made.len();
            found.planned = search.go_on((cell, job), &tree, (&made, false), &wanted);
            let nobody_stops = search.nobody_stops;
            found.nodes = search.as_if.over();
            if found.planned.is_some() || nobody_stops {
                return found;
            }
            planner.changed(&board.view(), &found.nodes.iter().copied().collect::<Vec<_>>(), &[]);
        }
    }
    let stops = told.runs(cell).chain(live.stopping(cell));
    let mut search = Search::shown(AsIf::without((planner, board), (item, dice), stops));
    let mut pieces = Pieces::of((cell, &by_policy), &preemptor, (job, live), (&tree, &told));
    let (mut made, mut many) = (Vec::new(), AT_FIRST);
    let mut are_all = pieces.take_until(&mut made, many);
    let planned = loop {
        if made.is_empty() {
            break None;
        }
        let planned = search.go_on((cell, job), &tree, (&made, are_all), &wanted);
        if planned.is_some() || search.nobody_stops {
            break planned;
        }
        if are_all {
            // Who may not borrow for all of its tasks may take its own back for some.
            let own = if job.starts_whole() { wanted.clone() } else { affordable(cell, job, &tree, true) };
            break (own != wanted).then(|| search.go_on((cell, job), &tree, (&made, true), &own)).flatten();
        }
        many = many.saturating_mul(TIMES);
        are_all = pieces.take_until(&mut made, many);
    };
    found.nodes.extend(search.as_if.over());
    Found { planned, pieces: found.pieces + made.len(), ..found }
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
pub(crate) fn cut(mut planned: PlannedJob, most: &[u32]) -> PlannedJob {
    let mut left = most.to_vec();
    for row in &mut planned.place {
        let left = &mut left[usize::from(row.group.0)];
        row.count = row.count.min(*left);
        *left -= row.count;
    }
    planned.place.retain(|row| row.count > 0);
    planned
}

impl<'s, 'b, P: Planner> Search<'s, 'b, P> {
    fn shown(as_if: AsIf<'s, 'b, P>) -> Self {
        Search { as_if, too_few: 0, nobody_stops: false }
    }

    /// What is found of these pieces for at most `wanted` tasks of each group. Where one turns out not to be open once
    /// others have stopped, it is sought again without what else of its job is there.
    fn go_on<'a>(
        &mut self,
        (cell, job): (&'a Cell, &Job),
        tree: &QuotaIf<'_>,
        (pieces, are_all): (&[Piece<'a>], bool),
        wanted: &[u32],
    ) -> Option<(PlannedJob, Vec<Victim>)> {
        let mut pieces = Cow::Borrowed(pieces);
        for _ in 0..SEARCHES {
            let found = self.run((cell, job), (&pieces, are_all), wanted);
            if matches!(pieces, Cow::Owned(_)) {
                // That was so without the pieces that were left out.
                self.too_few = 0;
            }
            let (rows, chosen) = found?;
            let (refused, open) = match victims_of(cell, job, tree, (&rows, &chosen)) {
                Ok(victims) => return Some((rows, victims)),
                Err(refused) => refused?,
            };
            let (rooms, of_job) = (rooms_of(job, &rows), chosen.iter().filter(|piece| piece.job.id == refused));
            let kept: BTreeSet<Rank> = of_job.take(open).map(|piece| piece.rank).collect();
            self.too_few = 0;
            pieces
                .to_mut()
                .retain(|piece| piece.job.id != refused || !piece.is_in(&rooms) || kept.contains(&piece.rank));
        }
        None
    }

    /// The rows of the job and the pieces that end for them; nothing where it fits without, or never does. Where these
    /// pieces are not all that there are, it has to get all that it wants.
    fn run<'u, 'a>(
        &mut self,
        (cell, job): (&Cell, &Job),
        (pieces, are_all): (&'u [Piece<'a>], bool),
        wanted: &[u32],
    ) -> Option<(PlannedJob, Vec<&'u Piece<'a>>)> {
        let as_if = &mut self.as_if;
        as_if.start_over();
        let mut plan = |count| {
            let planned = as_if.plan_without(pieces, count, |piece| piece.runs.iter().copied())?;
            Some(cut(planned, wanted))
        };
        let wants = if job.starts_whole() { 1 } else { wanted.iter().map(|count| u64::from(*count)).sum() };
        let at_once = plan(0).map_or(0, |planned| tasks_of(&planned));
        self.nobody_stops = at_once >= wants;
        if self.nobody_stops {
            return None;
        }
        let least = match job.starts_whole() {
            true => 1,
            // Task by task: as many as there could be room for at all.
            false => tasks_of(&plan(pieces.len())?),
        };
        if at_once >= least || (!are_all && least < wants) {
            return None;
        }
        let plan_enough = |count| plan(count).filter(|planned| tasks_of(planned) >= least);
        let Some((enough, planned)) = fewest((self.too_few, pieces.len()), TIMES, plan_enough) else {
            if job.starts_whole() {
                self.too_few = pieces.len();
            }
            return None;
        };
        let victims = self.spare(cell, job, &planned, &pieces[..enough]);
        self.nobody_stops = victims.is_empty();
        (!victims.is_empty()).then_some((planned, victims))
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
        self.as_if.start_over();
        let over = self.as_if.board.over();
        let pieces: Vec<&Piece<'_>> = pieces.iter().filter(|piece| piece.is_in(&rooms)).collect();
        pieces.iter().flat_map(|piece| &piece.runs).for_each(|run| over.end_run(cell, run));
        let mut chosen: Vec<&Piece<'_>> = Vec::new();
        let mut stopped_whole: BTreeSet<JobId> = BTreeSet::new();
        for piece in pieces.iter().rev() {
            let nodes: BTreeSet<NodeId> =
                piece.runs.iter().map(|run| run.node).filter(|node| rooms.has(*node)).collect();
            if stopped_whole.contains(&piece.job.id) {
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
