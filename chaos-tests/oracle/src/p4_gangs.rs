//! P4: a gang starts whole (its minimum) or not at all. Books: live tasks per group, from placements and ends.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, Index, JobId, JobSpec, StopCause};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Group {
    name: String,
    minimum: u32,
    live: u32,
    /// The most that lived at once within the entry at hand: an end may follow its start in one entry.
    peak: u32,
}

/// The books of all groups.
#[derive(Default)]
pub(crate) struct Gangs {
    groups: BTreeMap<(JobId, u16), Group>,
    /// Groups whose first tasks were placed in the entry at hand.
    begun: BTreeSet<(JobId, u16)>,
    /// Tasks that start again in place: they stand all the while.
    restarting: BTreeSet<(JobId, u16, u32)>,
}

impl Gangs {
    /// Takes note of one fact.
    pub(crate) fn watch(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Submitted { job, spec, endless: false } => {
                for (at, group) in spec.groups.iter().enumerate() {
                    let (name, minimum) = (format!("{}/{}", spec.name, group.name), group.min_count);
                    self.groups.insert((job, at as u16), Group { name, minimum, ..Group::default() });
                }
            }
            Fact::Updated { job, spec, endless: false, .. } => self.update(job, spec),
            Fact::Happened { kind: EventKind::Placed { job, group, first, count, .. }, .. } => {
                if self.restarting.remove(&(*job, *group, *first)) {
                    return;
                }
                let whole_job_down = self.live_of(*job) == 0;
                if let Some(found) = self.groups.get_mut(&(*job, *group)) {
                    if whole_job_down && self.begun.insert((*job, *group)) {
                        found.peak = 0;
                    }
                    found.live += count;
                    found.peak = found.peak.max(found.live);
                }
            }
            Fact::Happened {
                kind: EventKind::Ended { job, group, task, cause: Some(StopCause::Restarted), .. },
                ..
            } => {
                self.restarting.insert((*job, *group, *task));
            }
            Fact::Happened { kind: EventKind::Ended { job, group, .. }, .. } => {
                if let Some(found) = self.groups.get_mut(&(*job, *group)) {
                    found.live = found.live.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, job: JobId, spec: &JobSpec) {
        for (at, group) in spec.groups.iter().enumerate() {
            let found = self.groups.entry((job, at as u16)).or_default();
            (found.name, found.minimum) = (format!("{}/{}", spec.name, group.name), group.min_count);
        }
    }

    /// Judges the gangs that began in this entry.
    pub(crate) fn entry_over(&mut self, index: Index, books: &Books, broken: &mut Vec<Broken>) {
        for key in std::mem::take(&mut self.begun) {
            let group = &self.groups[&key];
            // Tasks that succeeded before count as done.
            let needed = group.minimum.saturating_sub(books.done(key.0, key.1));
            if group.peak < needed {
                let what = format!("entry {index}: {} started with {} of at least {needed}", group.name, group.peak);
                broken.push(Broken::new("P4", what));
            }
        }
    }

    fn live_of(&self, job: JobId) -> u32 {
        self.groups.range((job, 0)..=(job, u16::MAX)).map(|(_, group)| group.live).sum()
    }
}
