//! P5, inside the domains: slices stand whole, at every layer, from the first start through every repair. Books: where
//! each task of a group with slices stands, those that are done included, for their slice stays where it was.
//!
//! Whatever is placed at once either completes slices in each domain it touches, or fills up a part of one slice that
//! was broken there before. Tasks that are to stop may be counted or not: their place is theirs until they have ended.

use crate::books::{Books, Standing};
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, Index, JobId, JobSpec, NodeId, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// Where groups with slices stand.
#[derive(Default)]
pub(crate) struct Slices {
    seats: BTreeMap<(JobId, u16), BTreeMap<u32, Seat>>,
    at_once: BTreeMap<(JobId, u16), AtOnce>,
    /// Tasks that were told to leave their nodes and are not placed again, and those that ended meanwhile. They come
    /// one by one, as their old runs end; their places were reserved together, beside what stood then.
    moving: BTreeMap<(JobId, u16), BTreeSet<u32>>,
}

/// Where one task stands or stood to its good end.
#[derive(Clone, Copy)]
struct Seat {
    node: NodeId,
    stopping: bool,
}

/// Placements of one group between which nothing of it stops or ends: by layer and domain.
type AtOnce = Vec<BTreeMap<Vec<String>, Tally>>;

/// Tasks of the group in one domain.
#[derive(Clone, Copy, Default)]
struct Tally {
    staying: u64,
    stopping: u64,
    placed: u64,
}

impl Tally {
    /// Whether slices of `size` stand whole, once up to `moving` more tasks have come.
    fn is_whole(self, size: u64, moving: u64) -> bool {
        [self.staying, self.staying + self.stopping].into_iter().any(|before| {
            let broken = before % size;
            let is_full = |more: u64| (broken + self.placed + more).is_multiple_of(size);
            (0..=moving.min(size)).any(is_full) || (broken > 0 && broken + self.placed < size)
        })
    }
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
            Fact::Happened { kind: EventKind::Ended { job, group, task, exit, cause, .. }, .. } => {
                self.judge((*job, *group), index, books, broken);
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
        let domains = |node: NodeId| {
            let layers = wish.slices().iter();
            layers.map(move |layer| books.domain(&wish.topology.topology, &layer.level, node)).collect::<Vec<_>>()
        };
        let at_once = self.at_once.entry((job, group)).or_insert_with(|| {
            let mut layers = vec![BTreeMap::<Vec<String>, Tally>::new(); wish.slices().len()];
            for seat in seats.values() {
                for (layer, domain) in layers.iter_mut().zip(domains(seat.node)) {
                    let Some(domain) = domain else { continue };
                    let tally = layer.entry(domain).or_default();
                    *if seat.stopping { &mut tally.stopping } else { &mut tally.staying } += 1;
                }
            }
            layers
        });
        for (layer, domain) in at_once.iter_mut().zip(domains(node)) {
            match domain {
                Some(domain) => layer.entry(domain).or_default().placed += tasks.len() as u64,
                None => {
                    let what =
                        format!("entry {index}: {}/{} stands on {node}, outside its slices", spec.name, wish.name);
                    broken.push(Broken::new("P5", what));
                }
            }
        }
        seats.extend(tasks.map(|task| (task, Seat { node, stopping: false })));
    }

    /// Judges what was placed at once, now that it is over.
    fn judge(&mut self, (job, group): (JobId, u16), index: Index, books: &Books, broken: &mut Vec<Broken>) {
        let Some(layers) = self.at_once.remove(&(job, group)) else { return };
        let Some(spec) = books.jobs.get(&job) else { return };
        let moving = self.moving.get(&(job, group)).map_or(0, |tasks| tasks.len() as u64);
        for (slice, domains) in slices_of(spec, group).zip(&layers) {
            for (domain, tally) in domains.iter().filter(|(_, tally)| tally.placed > 0) {
                if !tally.is_whole(u64::from(slice.size.max(1)), moving) {
                    let Tally { staying, stopping, placed } = tally;
                    let what = format!(
                        "entry {index}: {placed} tasks of group {group} of {} join {staying} (and {stopping} that are \
                         to stop) in {domain:?} of {}, which makes no whole slices of {}",
                        spec.name, slice.level, slice.size
                    );
                    broken.push(Broken::new("P5", what));
                }
            }
        }
    }
}

fn slices_of(spec: &JobSpec, group: u16) -> impl Iterator<Item = &ohm_model::TopologySlice> {
    spec.groups.get(usize::from(group)).into_iter().flat_map(|wish| wish.slices())
}
