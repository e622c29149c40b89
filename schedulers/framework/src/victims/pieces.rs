//! What may be stopped for room, piece by piece, in the order in which it is stopped: first what elastic groups have
//! beyond their minimum, then the least important, then what stands for the shortest time. A gang is one piece, of a
//! service each task is.

use super::live::LiveJobs;
use super::order::open_jobs;
use ohm_cell::{
    Cell, Group, Job, JobState, Overlay, PlannedRooms, QuotaIf, RoomPreemptor, Run, Stopping, WhatIf, live_run,
    live_runs, placed_since_ms, preemptions,
};
use ohm_model::{GroupSpec, JobId, RunRef};
use std::cmp::Reverse;
use std::collections::BTreeSet;

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

/// The order in which pieces are stopped: whether it is more than a group has beyond its minimum, its priority, since
/// when it stands.
pub(crate) type Rank = (bool, i32, Reverse<(u64, JobId, Option<RunRef>)>);

/// The runs that somebody else counts on already: those that stop, and those that are told to.
pub(crate) struct Told {
    jobs: BTreeSet<JobId>,
    runs: BTreeSet<RunRef>,
    /// Jobs of which parts stop for others.
    parts: BTreeSet<JobId>,
    /// Jobs that somebody waits for who had all of them stopped.
    whole: BTreeSet<JobId>,
}

impl Told {
    pub(crate) fn of(what: WhatIf<'_>) -> Self {
        let (mut jobs, mut runs) = (BTreeSet::new(), BTreeSet::new());
        let (mut parts, mut whole) = (BTreeSet::new(), BTreeSet::new());
        for victim in what.told_besides() {
            match victim.is_whole() {
                true => drop(jobs.insert(victim.job)),
                false => runs.extend(victim.runs.iter().copied()),
            }
        }
        parts.extend(runs.iter().map(|run| run.task.job));
        for (_, preemption) in preemptions(what.cell).iter() {
            for (victim, runs) in &preemption.victims {
                let known = if runs.is_empty() { &mut whole } else { &mut parts };
                known.insert(*victim);
            }
        }
        Told { jobs, runs, parts, whole }
    }

    /// Whether the run will end without anybody's doing.
    pub(crate) fn has(&self, run: &Run) -> bool {
        run.stop.is_some() || self.jobs.contains(&run.run.task.job) || self.runs.contains(&run.run)
    }

    /// The runs that are told to stop, in transactions under way.
    pub(crate) fn runs<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Run> {
        let jobs = self.jobs.iter().filter_map(|job| cell.jobs().get(*job));
        let named = self.runs.iter().filter_map(|run| live_run(cell, *run));
        jobs.flat_map(|job| live_runs(cell, job)).chain(named).filter(|run| run.stop.is_none())
    }
}

/// The pieces that the job may stop, as far as rules go when nobody is stopped yet, in the order in which they are.
pub(crate) fn pieces<'a>(
    (cell, over): (&'a Cell, &Overlay),
    preemptor: &RoomPreemptor<'a>,
    (job, live): (&Job, &LiveJobs),
    (tree, told): (&QuotaIf<'a>, &Told),
) -> Vec<Piece<'a>> {
    let by_policy = preemptor.policies().map(|rules| open_jobs((cell, over), rules, tree)).unwrap_or_default();
    let less_important = live.less_important(job.spec.priority).filter_map(|id| cell.jobs().get(id));
    let mut seen = BTreeSet::new();
    let jobs = less_important.map(AsRef::as_ref).chain(by_policy);
    let is_told = |job: JobId| told.jobs.contains(&job) || told.whole.contains(&job);
    let open = |job: &&Job| job.state == JobState::Active && !is_told(job.id) && seen.insert(job.id);
    let mut pieces = Vec::new();
    jobs.filter(open).for_each(|victim| add_pieces(cell, victim, told, &mut pieces));
    let mut tree = tree.clone();
    pieces.retain(|piece| preemptor.may_stop(&mut tree, Stopping { job: piece.job, runs: &piece.named() }));
    pieces.sort_by_key(|piece| piece.rank);
    pieces
}

fn add_pieces<'a>(cell: &'a Cell, job: &'a Job, told: &Told, pieces: &mut Vec<Piece<'a>>) {
    let runs = live_runs(cell, job).filter(|run| !told.has(run));
    if !job.starts_whole() {
        return pieces.extend(runs.map(|run| piece(job, run, true)));
    }
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
    pieces.extend(beyond);
    // A gang of which a part stops for others already is not counted on whole: that part is theirs.
    if !rest.is_empty() && !told.parts.contains(&job.id) {
        let since_ms = placed_since_ms(cell, job).unwrap_or_default();
        let rank = (true, job.spec.priority, Reverse((since_ms, job.id, None)));
        pieces.push(Piece { job, is_whole: true, runs: rest, rank });
    }
}

fn piece<'a>(job: &'a Job, run: &'a Run, is_needed: bool) -> Piece<'a> {
    let rank = (is_needed, job.spec.priority, Reverse((run.placed_ms, job.id, Some(run.run))));
    Piece { job, is_whole: false, runs: vec![run], rank }
}

/// How many tasks an elastic group has beyond its minimum.
fn beyond_minimum(group: &Group, spec: &GroupSpec) -> u32 {
    let stays = group.live_within_count().saturating_sub(group.stopping);
    if spec.elastic { stays.saturating_sub(group.needed(spec)) } else { 0 }
}
