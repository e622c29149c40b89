//! What may be stopped for room, piece by piece, in the order in which it is stopped: first what elastic groups have
//! beyond their minimum, then the least important, then what stands for the shortest time; and only where all of that
//! is not enough what disruption budgets keep, in the same order. A gang is one piece, of a service each task is.

use super::live::{LiveJobs, Youngest};
use super::nodes::{Bound, beyond_minimum};
use super::order::open_jobs;
use ohm_cell::{
    Cell, Disruptions, Job, JobState, Overlay, PlannedRooms, QuotaIf, RoomPreemptor, Run, Stopping, WhatIf,
    has_no_budgets, live_run, live_runs, placed_since_ms, preemptions,
};
use ohm_model::{JobId, NodeId, RunRef};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::Peekable;
use std::sync::Arc;

/// A piece: all that is left of a gang, or one task.
#[derive(Clone, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) job: &'a Job,
    /// Whether the job is stopped whole.
    pub(crate) is_whole: bool,
    /// Its runs, without those that are pieces by themselves.
    pub(crate) runs: Vec<&'a Run>,
    pub(crate) rank: Rank,
}

impl Piece<'_> {
    /// The runs that it names: none where the job is stopped whole.
    fn named(&self) -> Vec<RunRef> {
        if self.is_whole { Vec::new() } else { self.runs.iter().map(|run| run.run).collect() }
    }

    /// Whether one of its runs is on a node where rooms are planned.
    pub(crate) fn is_in(&self, rooms: &PlannedRooms<'_>) -> bool {
        self.runs.iter().any(|run| rooms.has(run.node))
    }
}

/// The order in which pieces are stopped: whether that goes beyond what disruption budgets allow once those before it
/// are stopped, whether it is more than a group has beyond its minimum, its priority, since when it stands.
pub(crate) type Rank = (bool, bool, i32, Reverse<(u64, JobId, Option<RunRef>)>);

/// Whether pieces that end with one on a node with this bound may be better to stop than those of this weight.
pub(crate) fn is_before(bound: Bound, (breaks, (_, is_needed, priority, Reverse((since_ms, ..)))): Weight) -> bool {
    breaks > 0 || bound < (is_needed, priority, Reverse(since_ms))
}

/// How bad it is to stop some pieces: how many go beyond what disruption budgets allow, and the rank of the most
/// important one, whatever budgets say of that.
pub(crate) type Weight = (usize, Rank);

/// The weight of these pieces; nothing where there are none.
pub(crate) fn weight_of(pieces: &[Piece<'_>]) -> Option<Weight> {
    let breaks = pieces.iter().filter(|piece| piece.rank.0).count();
    let most = pieces.iter().map(|piece| (false, piece.rank.1, piece.rank.2, piece.rank.3)).max()?;
    Some((breaks, most))
}

/// The runs that somebody else counts on already: those that stop, and those that are told to.
pub(crate) struct Told {
    jobs: BTreeSet<JobId>,
    runs: BTreeSet<RunRef>,
    /// The jobs of those runs.
    parts: BTreeSet<JobId>,
    /// What they come to for disruption budgets; nothing where there are none.
    disruptions: Option<Disruptions>,
}

impl Told {
    pub(crate) fn of(what: WhatIf<'_>) -> Self {
        let (mut jobs, mut runs) = (BTreeSet::new(), BTreeSet::new());
        for victim in what.told_besides() {
            match victim.is_whole() {
                true => drop(jobs.insert(victim.job)),
                false => runs.extend(victim.runs.iter().copied()),
            }
        }
        let parts = runs.iter().map(|run| run.task.job).collect();
        let disruptions = (!has_no_budgets(what.cell)).then(|| Disruptions::of(what));
        Told { jobs, runs, parts, disruptions }
    }

    /// Whether the run will end without anybody's doing.
    pub(crate) fn has(&self, run: &Run) -> bool {
        run.stop.is_some() || self.jobs.contains(&run.run.task.job) || self.runs.contains(&run.run)
    }

    /// The runs on a node that will end without anybody's doing.
    pub(crate) fn on_node<'a>(&self, cell: &'a Cell, node: NodeId) -> impl Iterator<Item = &'a Run> {
        cell.runs().on_node(cell.nodes(), node).map(|(_, run)| run).filter(|run| self.has(run))
    }

    /// The runs that are told to stop, in transactions under way.
    pub(crate) fn runs<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Run> {
        let jobs = self.jobs.iter().filter_map(|job| cell.jobs().get(*job));
        let named = self.runs.iter().filter_map(|run| live_run(cell, *run));
        jobs.flat_map(|job| live_runs(cell, job)).chain(named).filter(|run| run.stop.is_none())
    }
}

/// What may be stopped, in the order in which it is. Pieces of less important jobs are made when they are asked for:
/// most searches end with the first few. What elastic groups have beyond their minimum goes before all else and is made
/// at once, and so is all that policies of queues open.
pub(crate) struct Pieces<'s, 'a> {
    cell: &'a Cell,
    preemptor: &'s RoomPreemptor<'a>,
    told: &'s Told,
    tree: QuotaIf<'a>,
    /// What was taken, for disruption budgets; nothing where there are none.
    disruptions: Option<Disruptions>,
    /// What goes beyond those, in order: it comes last.
    breaking: VecDeque<Piece<'a>>,
    /// Made already, by their order.
    made: BTreeMap<Rank, Piece<'a>>,
    /// Less important jobs of which pieces are not made yet.
    rest: Peekable<Box<dyn Iterator<Item = (i32, Youngest)> + 's>>,
}

impl<'s, 'a> Pieces<'s, 'a> {
    /// Those that the job may stop, as far as rules go when nobody is stopped yet; some it may `by_policy` of queues.
    pub(crate) fn of(
        (cell, by_policy): (&'a Cell, &[&'a Job]),
        preemptor: &'s RoomPreemptor<'a>,
        (job, live): (&Job, &'s LiveJobs),
        (tree, told): (&QuotaIf<'a>, &'s Told),
    ) -> Self {
        let less_important = live.less_important(job.spec.priority);
        let mut pieces = Pieces::none(cell, preemptor, (tree, told));
        if by_policy.is_empty() {
            let is_less_important = |victim: &&Arc<Job>| victim.spec.priority < job.spec.priority;
            let elastic = live.elastic().filter_map(|id| cell.jobs().get(id)).filter(is_less_important);
            elastic.for_each(|victim| pieces.add(victim, Part::BeyondMinimum, None));
            let rest: Box<dyn Iterator<Item = (i32, Youngest)> + 's> = Box::new(less_important);
            pieces.rest = rest.peekable();
            return pieces;
        }
        let less_important = less_important.filter_map(|(_, Reverse((_, id)))| cell.jobs().get(id));
        let mut seen = BTreeSet::new();
        for victim in less_important.map(AsRef::as_ref).chain(by_policy.iter().copied()) {
            if seen.insert(victim.id) {
                pieces.add(victim, Part::BeyondMinimum, None);
                pieces.add(victim, Part::Rest, None);
            }
        }
        pieces
    }

    fn none(cell: &'a Cell, preemptor: &'s RoomPreemptor<'a>, (tree, told): (&QuotaIf<'a>, &'s Told)) -> Self {
        let rest: Box<dyn Iterator<Item = (i32, Youngest)>> = Box::new(std::iter::empty());
        let (disruptions, made, breaking) = (told.disruptions.clone(), BTreeMap::new(), VecDeque::new());
        let rest = rest.peekable();
        Pieces { cell, preemptor, told, tree: tree.clone(), disruptions, breaking, made, rest }
    }

    /// Those of less important jobs than `job` that have something on `node`.
    pub(crate) fn on_node(
        (cell, node): (&'a Cell, NodeId),
        (preemptor, job): (&'s RoomPreemptor<'a>, &Job),
        (tree, told): (&QuotaIf<'a>, &'s Told),
    ) -> Self {
        let mut pieces = Pieces::none(cell, preemptor, (tree, told));
        let jobs: BTreeSet<JobId> = cell.runs().on_node(cell.nodes(), node).map(|(_, run)| run.run.task.job).collect();
        let jobs = jobs.into_iter().filter_map(|id| cell.jobs().get(id));
        for victim in jobs.filter(|victim| victim.spec.priority < job.spec.priority) {
            pieces.add(victim, Part::BeyondMinimum, Some(node));
            pieces.add(victim, Part::Rest, Some(node));
        }
        pieces
    }

    /// Adds the next ones to `taken` until there are as `many`. Returns whether there are no more.
    pub(crate) fn take_until(&mut self, taken: &mut Vec<Piece<'a>>, many: usize) -> bool {
        while taken.len() < many {
            let Some(piece) = self.next() else { return true };
            debug_assert!(taken.last().is_none_or(|last| last.rank < piece.rank), "{:?} is out of order", piece.rank);
            taken.push(piece);
        }
        false
    }

    /// The next one: first those that disruption budgets let stop beside those before.
    pub(crate) fn next(&mut self) -> Option<Piece<'a>> {
        while let Some(mut piece) = self.next_of_all() {
            let Some(disruptions) = &mut self.disruptions else { return Some(piece) };
            if disruptions.stop_all(self.cell, &piece.runs) {
                return Some(piece);
            }
            piece.rank.0 = true;
            self.breaking.push_back(piece);
        }
        self.breaking.pop_front()
    }

    /// The next one, whatever budgets say: no job of which none is made yet may have one that comes before it.
    fn next_of_all(&mut self) -> Option<Piece<'a>> {
        loop {
            let first = self.made.first_key_value().map(|(rank, _)| *rank);
            let comes_before = |(priority, Reverse((latest_ms, _))): &(i32, Youngest)| {
                let bound = (true, *priority, Reverse(*latest_ms));
                first.is_none_or(|(_, is_needed, of, Reverse((since_ms, ..)))| {
                    bound <= (is_needed, of, Reverse(since_ms))
                })
            };
            let Some((_, Reverse((_, id)))) = self.rest.next_if(comes_before) else { break };
            if let Some(job) = self.cell.jobs().get(id) {
                self.add(job, Part::Rest, None);
            }
        }
        self.made.pop_first().map(|(_, piece)| piece)
    }

    /// Adds the pieces of a job, or those of them that have something on `node`.
    fn add(&mut self, job: &'a Job, part: Part, node: Option<NodeId>) {
        let is_told = self.told.jobs.contains(&job.id) || preemptions(self.cell).stops_whole(job.id);
        if job.state != JobState::Active || is_told {
            return;
        }
        let is_meant = |piece: &Piece<'_>| node.is_none_or(|node| piece.runs.iter().any(|run| run.node == node));
        for piece in pieces_of(self.cell, job, self.told, (part, node)).into_iter().filter(is_meant) {
            if self.preemptor.may_stop(&mut self.tree, Stopping { job, runs: &piece.named() }) {
                self.made.insert(piece.rank, piece);
            }
        }
    }
}

/// The jobs that the job may stop by policies of queues.
pub(crate) fn open_by_policy<'a>(
    (cell, over): (&'a Cell, &Overlay),
    preemptor: &RoomPreemptor<'a>,
    tree: &QuotaIf<'a>,
) -> Vec<&'a Job> {
    preemptor.policies().map(|rules| open_jobs((cell, over), rules, tree)).unwrap_or_default()
}

/// Which pieces of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// What elastic groups have beyond their minimum.
    BeyondMinimum,
    /// All else.
    Rest,
}

/// The pieces of a job; where `node` is named, those that have nothing there may be missing.
fn pieces_of<'a>(cell: &'a Cell, job: &'a Job, told: &Told, (part, node): (Part, Option<NodeId>)) -> Vec<Piece<'a>> {
    if !job.starts_whole() {
        let there = node.into_iter().flat_map(|node| cell.runs().on_node(cell.nodes(), node));
        let there = there.map(|(_, run)| run).filter(|run| run.run.task.job == job.id);
        let all = node.is_none().then(|| live_runs(cell, job)).into_iter().flatten();
        let runs = there.chain(all).filter(|run| part == Part::Rest && !told.has(run));
        return runs.map(|run| piece(job, run, true)).collect();
    }
    let runs = live_runs(cell, job).filter(|run| !told.has(run));
    let (mut beyond, mut rest) = (Vec::new(), Vec::new());
    let groups = job.groups.iter().zip(&job.spec.groups);
    let mut spare: Vec<u32> = groups.map(|(group, spec)| beyond_minimum(group, spec)).collect();
    let mut runs: Vec<&Run> = runs.collect();
    runs.sort_by_key(|run| Reverse((run.placed_ms, run.run)));
    for run in runs {
        match &mut spare[usize::from(run.run.task.group.0)] {
            0 => rest.push(run),
            left => {
                *left -= 1;
                beyond.push(piece(job, run, false));
            }
        }
    }
    if part == Part::BeyondMinimum {
        return beyond;
    }
    // A gang of which a part stops for others already is not counted on whole: that part is theirs.
    if rest.is_empty() || told.parts.contains(&job.id) || preemptions(cell).stops_in_part(job.id) {
        return Vec::new();
    }
    let since_ms = placed_since_ms(cell, job).unwrap_or_default();
    let rank = (false, true, job.spec.priority, Reverse((since_ms, job.id, None)));
    vec![Piece { job, is_whole: true, runs: rest, rank }]
}

fn piece<'a>(job: &'a Job, run: &'a Run, is_needed: bool) -> Piece<'a> {
    let rank = (false, is_needed, job.spec.priority, Reverse((run.placed_ms, job.id, Some(run.run))));
    Piece { job, is_whole: false, runs: vec![run], rank }
}
