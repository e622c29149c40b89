//! P5, inside the domains: slices are whole by rank, at every layer, from the first start through every repair. A
//! slice is a run of ranks, and all of its tasks are in one domain of its level. Books: where each task of a group with
//! slices runs, those that are done included, for their slice stays where it was.
//!
//! Whatever is placed at once joins the domain in which others of its slice are, or brings the whole slice. Tasks that
//! are to stop bind nobody any more; those that move come one by one, as their old runs end, and what begins again on
//! its node does so alone.

use crate::books::{Books, Standing};
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, Index, JobId, JobSpec, NodeId, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// Where the tasks of groups with slices are.
#[derive(Default)]
pub(crate) struct Slices {
    seats: BTreeMap<(JobId, u16), BTreeMap<u32, Seat>>,
    /// Tasks of one group between whose placements nothing of it stops or ends.
    at_once: BTreeMap<(JobId, u16), BTreeSet<u32>>,
    /// Tasks that were told to leave their nodes and are not placed again, and those that ended meanwhile.
    moving: BTreeMap<(JobId, u16), BTreeSet<u32>>,
    /// Where tasks ended in this entry to begin again.
    restarting: BTreeSet<(JobId, u16, u32, NodeId)>,
}

/// Where one task runs, or ran to its good end.
#[derive(Clone, Copy)]
struct Seat {
    node: NodeId,
    stopping: bool,
}

impl Slices {
    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        match fact {
            // Domains are about to be others.
            Fact::Registered { .. } => self.entry_over(index, books, broken),
            Fact::Updated { job, spec, .. } => self.updated(*job, spec, books),
            Fact::Happened { kind: EventKind::Placed { job, group, first, count, node }, .. } => {
                self.placed((*job, *group), *node, *first..first + count, index, books, broken);
            }
            Fact::Happened { kind: EventKind::Stopping { job, group, task, cause, .. }, .. } => {
                self.judge((*job, *group), index, books, broken);
                if *cause == StopCause::Drained {
                    self.moving.entry((*job, *group)).or_default().insert(*task);
                }
                if let Some(seat) = self.seats.get_mut(&(*job, *group)).and_then(|seats| seats.get_mut(task)) {
                    seat.stopping = true;
                }
            }
            Fact::Happened { kind: EventKind::Ended { job, group, task, node, exit, cause, .. }, .. } => {
                self.judge((*job, *group), index, books, broken);
                if *cause == Some(StopCause::Restarted) {
                    self.restarting.insert((*job, *group, *task, *node));
                }
                let endless = books.is_endless(*job);
                let done = exit.is_success() && cause.is_none() && !endless;
                if let Some(seats) = self.seats.get_mut(&(*job, *group)).filter(|_| !done) {
                    seats.remove(task);
                }
                if let Some(moving) = self.moving.get_mut(&(*job, *group)).filter(|moving| !done && !moving.is_empty())
                {
                    moving.insert(*task);
                }
            }
            _ => {}
        }
    }

    /// What stands keeps its seat, and so does what has succeeded and is not taken away.
    fn updated(&mut self, job: JobId, spec: &JobSpec, books: &Books) {
        self.seats.retain(|(of, _), _| *of != job);
        for at in 0..spec.groups.len() as u16 {
            let done = books.succeeded(job, at).into_iter().flatten();
            let mut seats: BTreeMap<u32, Seat> =
                done.map(|(task, node)| (*task, Seat { node: *node, stopping: false })).collect();
            seats
                .extend(books.live(job, at).map(|(task, Standing { node, stopping })| (task, Seat { node, stopping })));
            self.seats.insert((job, at), seats);
        }
    }

    /// Judges what must hold when the entry is over.
    pub(crate) fn entry_over(&mut self, index: Index, books: &Books, broken: &mut Vec<Broken>) {
        let groups: Vec<(JobId, u16)> = self.at_once.keys().copied().collect();
        groups.into_iter().for_each(|group| self.judge(group, index, books, broken));
        self.restarting.clear();
    }

    fn placed(
        &mut self,
        (job, group): (JobId, u16),
        node: NodeId,
        tasks: std::ops::Range<u32>,
        index: Index,
        books: &Books,
        broken: &mut Vec<Broken>,
    ) {
        if let Some(moving) = self.moving.get_mut(&(job, group)) {
            moving.retain(|task| !tasks.contains(task));
        }
        let Some(spec) = books.jobs.get(&job) else { return };
        let wish = spec.groups.get(usize::from(group)).filter(|wish| !wish.topology.slices.is_empty());
        let Some(wish) = wish else { return };
        let seats = self.seats.entry((job, group)).or_default();
        // A leader stands outside its slices, until an update makes it one of several.
        if wish.slices().is_empty() {
            seats.extend(tasks.map(|task| (task, Seat { node, stopping: false })));
            return;
        }
        let is_inside = |level: &str| books.domain(&wish.topology.topology, level, node).is_some();
        if !wish.slices().iter().all(|layer| is_inside(&layer.level)) {
            let what = format!("entry {index}: {}/{} stands on {node}, outside its slices", spec.name, wish.name);
            broken.push(Broken::new("P5", what));
        }
        let comes = |task: &u32| !self.restarting.contains(&(job, group, *task, node));
        self.at_once.entry((job, group)).or_default().extend(tasks.clone().filter(comes));
        seats.extend(tasks.map(|task| (task, Seat { node, stopping: false })));
    }

    /// Judges what was placed at once, now that it is over.
    fn judge(&mut self, of: (JobId, u16), index: Index, books: &Books, broken: &mut Vec<Broken>) {
        let Some(placed) = self.at_once.remove(&of) else { return };
        let Some(wish) = books.jobs.get(&of.0).and_then(|spec| spec.groups.get(usize::from(of.1))) else { return };
        for layer in wish.slices() {
            let size = layer.size.max(1);
            let slices: BTreeSet<u32> = placed.iter().map(|task| task / size).collect();
            for first in slices.into_iter().map(|slice| slice * size) {
                let ranks = first..first.saturating_add(size).min(wish.count);
                let domain = |node: NodeId| books.domain(&wish.topology.topology, &layer.level, node);
                if let Some(why) = self.torn(of, &ranks, &placed, &domain) {
                    let (name, group, level) = (&books.jobs[&of.0].name, &wish.name, &layer.level);
                    let what = format!("entry {index}: slice {ranks:?} of {name}/{group} is torn in {level}: {why}");
                    broken.push(Broken::new("P5", what));
                }
            }
        }
    }

    /// Why the slice of `ranks` is not in one domain once those of them among `placed` have come.
    fn torn(
        &self,
        of: (JobId, u16),
        ranks: &std::ops::Range<u32>,
        placed: &BTreeSet<u32>,
        domain: &dyn Fn(NodeId) -> Option<Vec<String>>,
    ) -> Option<String> {
        let seats: Vec<(u32, Seat)> =
            self.seats.get(&of)?.range(ranks.clone()).map(|(task, seat)| (*task, *seat)).collect();
        let new: BTreeSet<_> =
            seats.iter().filter(|(task, _)| placed.contains(task)).filter_map(|(_, seat)| domain(seat.node)).collect();
        let mates = || seats.iter().filter(|(task, _)| !placed.contains(task));
        let homes: BTreeSet<_> =
            mates().filter(|(_, seat)| !seat.stopping).filter_map(|(_, seat)| domain(seat.node)).collect();
        if !homes.is_empty() {
            return (!new.is_subset(&homes)).then(|| format!("{new:?} joins {homes:?}"));
        }
        if new.len() > 1 {
            return Some(format!("it comes to {new:?}"));
        }
        let moves = self.moving.get(&of).is_some_and(|moving| moving.range(ranks.clone()).next().is_some());
        let leaves = moves || mates().any(|(_, seat)| seat.stopping);
        let come = seats.len() as u32;
        (!leaves && come < ranks.len() as u32).then(|| format!("{come} of {} tasks come", ranks.len()))
    }
}
