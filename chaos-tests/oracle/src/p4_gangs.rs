//! P4: a gang starts whole (its minimum) or not at all. Books: live tasks per group, from placements and ends.

use crate::history::Broken;
use ohm_cell::Applied;
use ohm_model::{Class, Command, Entry, EventKind, Index, JobId, JobOutcome, Outcome};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Group {
    name: String,
    minimum: u32,
    live: u32,
    /// The most that lived at once within the entry at hand: an end may follow its start in one entry.
    peak: u32,
    succeeded: u32,
}

/// The books of all groups.
#[derive(Default)]
pub(crate) struct Gangs {
    groups: BTreeMap<(JobId, u16), Group>,
}

impl Gangs {
    pub(crate) fn watch(&mut self, index: Index, entry: &Entry, applied: &Applied, broken: &mut Vec<Broken>) {
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if let (Command::SubmitJobs { jobs, .. }, Outcome::Jobs(outcomes)) = (&envelope.command, outcome) {
                for (spec, outcome) in jobs.iter().zip(outcomes) {
                    if let (JobOutcome::Accepted(job), true) = (outcome, spec.class != Class::Service) {
                        for (at, group) in spec.groups.iter().enumerate() {
                            let name = format!("{}/{}", spec.name, group.name);
                            let minimum = group.min_count;
                            self.groups.insert((*job, at as u16), Group { name, minimum, ..Group::default() });
                        }
                    }
                }
            }
        }
        let mut begun: BTreeSet<(JobId, u16)> = BTreeSet::new();
        for event in &applied.events {
            match event.kind {
                EventKind::Placed { job, group, count, .. } => {
                    let whole_job_down = self.live_of(job) == 0;
                    if let Some(found) = self.groups.get_mut(&(job, group)) {
                        if whole_job_down && begun.insert((job, group)) {
                            found.peak = 0;
                        }
                        found.live += count;
                        found.peak = found.peak.max(found.live);
                    }
                }
                EventKind::Ended { job, group, exit, cause, .. } => {
                    if let Some(found) = self.groups.get_mut(&(job, group)) {
                        found.live = found.live.saturating_sub(1);
                        if cause.is_none() {
                            found.succeeded += u32::from(exit.is_success());
                        }
                    }
                }
                _ => {}
            }
        }
        for key in begun {
            let group = &self.groups[&key];
            // Tasks that succeeded before count as done.
            let needed = group.minimum.saturating_sub(group.succeeded);
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
