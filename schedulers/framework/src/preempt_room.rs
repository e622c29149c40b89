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

use crate::plan::{Decision, PlannedJob};
use crate::planner::{Budget, Need, Planner, Work, WorkItem};
use crate::victims::live::LiveJobs;
use crate::victims::pieces::{Piece, Told, pieces as pieces_of, rooms_of};
use crate::view::Board;
use ohm_cell::{Cell, Job, PlannedRooms, QuotaIf, RoomPreemptor, Run, Savepoint, Stopping, resume_run};
use ohm_model::{JobId, NodeId, PreemptionNeed, QueuePreemption, RunRef, Victim};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

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
    let mut tree = QuotaIf::promised_beside(cell, board.over(), job);
    let Some(preemptor) = RoomPreemptor::of(cell, job, &tree) else { return Found::default() };
    let told = Told::of(board.view().what());
    let pieces = pieces_of((cell, board.over()), &preemptor, (job, live), (&mut tree, &told));
    if pieces.is_empty() {
        return Found::default();
    }
    let mut search = Search { planner, board, item, dice, base: before, touched: BTreeSet::new() };
    let ending: Vec<&Run> = told.runs(cell).chain(stopping_runs(cell)).collect();
    search.end(&ending);
    search.base = search.board.over().savepoint();
    let planned = search.run(cell, job, &pieces);
    let planned = planned.and_then(|(planned, chosen)| {
        let victims = as_victims(&chosen);
        let stopped: Vec<Stopping<'_>> = victims.iter().filter_map(|victim| stopping(cell, victim)).collect();
        let rights = preemptor.rights(&mut tree, &stopped).ok()?;
        let with_reason = |(victim, reason)| Victim { reason, ..victim };
        Some((planned, victims.into_iter().zip(rights).map(with_reason).collect()))
    });
    let mut nodes = search.touched;
    board.over().roll_back(cell, before);
    nodes.extend(planned.iter().flat_map(|(planned, _): &(PlannedJob, _)| planned.place.iter().map(|row| row.node)));
    Found { planned, nodes, pieces: pieces.len() }
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
            false => tasks_of(self.plan_without(pieces)?.0.as_ref()?),
        };
        let is_enough = |planned: &Option<PlannedJob>| planned.as_ref().is_some_and(|found| tasks_of(found) >= least);
        if self.plan_without(&[])?.0.is_some_and(|found| tasks_of(&found) >= least) {
            return None;
        }
        // Four times as many each time, and then as few as do.
        let (mut too_few, mut enough) = (0, pieces.len().min(1));
        let mut found = loop {
            let planned = self.plan_without(&pieces[..enough])?.0;
            if is_enough(&planned) {
                break planned;
            }
            if enough == pieces.len() {
                return None;
            }
            (too_few, enough) = (enough, enough.saturating_mul(4).min(pieces.len()));
        };
        while enough - too_few > 1 {
            let between = too_few + (enough - too_few) / 2;
            let planned = self.plan_without(&pieces[..between])?.0;
            match is_enough(&planned) {
                true => (enough, found) = (between, planned),
                false => too_few = between,
            }
        }
        let planned = found?;
        let victims = self.spare(cell, job, &planned, &pieces[..enough]);
        (!victims.is_empty()).then_some((planned, victims))
    }

    /// What the planner says where these have ended, too.
    fn plan_without(&mut self, pieces: &[Piece<'_>]) -> Option<(Option<PlannedJob>,)> {
        let cell = self.board.cell();
        self.board.over().roll_back(cell, self.base);
        let runs: Vec<&Run> = pieces.iter().flat_map(|piece| piece.runs.iter().copied()).collect();
        self.end(&runs);
        let nodes: Vec<NodeId> = self.touched.iter().copied().collect();
        self.planner.changed(&self.board.view(), &nodes, &[]);
        let work = Work { jobs: vec![self.item], budget: Budget::UNBOUNDED };
        let plan = self.planner.plan(&mut self.board.lend(), &work, self.dice);
        let of_job = plan.decisions.into_iter().find(|decision| decision.job() == self.item.job)?;
        let Decision::Planned(planned) = of_job else { return Some((None,)) };
        self.touched.extend(planned.place.iter().map(|row| row.node));
        Some((Some(*planned).filter(|planned| !planned.place.is_empty()),))
    }

    fn end(&mut self, runs: &[&Run]) {
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
        let rooms = PlannedRooms::of(job, rooms_of(&planned.place));
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

/// The runs that stop already.
fn stopping_runs(cell: &Cell) -> impl Iterator<Item = &Run> {
    let jobs = cell.jobs().iter().filter(|job| job.groups.iter().any(|group| group.stopping > 0));
    let tasks = jobs.flat_map(|job| job.groups.iter().flat_map(|group| group.tasks.iter()));
    tasks.filter_map(|task| cell.runs().get(task.run)).filter(|run| run.stop.is_some())
}

fn stopping<'a>(cell: &'a Cell, victim: &'a Victim) -> Option<Stopping<'a>> {
    cell.jobs().get(victim.job).map(|job| Stopping { job, runs: &victim.runs })
}

/// One victim for each job, in the order of their pieces; the rules that allow it are found later.
fn as_victims(chosen: &[&Piece<'_>]) -> Vec<Victim> {
    let (mut victims, mut at): (Vec<Victim>, BTreeMap<JobId, usize>) = (Vec::new(), BTreeMap::new());
    for piece in chosen {
        let runs: Vec<RunRef> = piece.runs.iter().map(|run| run.run).collect();
        let known = *at.entry(piece.job.id).or_insert(victims.len());
        match victims.get_mut(known) {
            Some(victim) if piece.is_whole => victim.runs.clear(),
            Some(victim) if victim.is_whole() => {}
            Some(victim) => {
                victim.runs.extend(runs);
                victim.runs.sort_unstable();
            }
            None => {
                let runs = if piece.is_whole { Vec::new() } else { runs };
                let (need, reason) = (PreemptionNeed::Room, ohm_model::PreemptionReason::LowerPriority);
                victims.push(Victim { job: piece.job.id, need, reason, runs });
            }
        }
    }
    victims
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
