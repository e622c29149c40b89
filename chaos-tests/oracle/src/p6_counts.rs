//! P6 for single tasks: what is beyond the count of its group, since an update, is never placed, and what stands of it
//! stops. Books: the counts, and who stands where.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, Index, JobId};
use std::collections::BTreeSet;

/// The jobs that were updated in the entry at hand.
#[derive(Default)]
pub(crate) struct Counts {
    updated: BTreeSet<JobId>,
}

impl Counts {
    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        match fact {
            Fact::Updated { job, .. } => drop(self.updated.insert(*job)),
            Fact::Happened { kind: EventKind::Placed { job, group, first, count, .. }, .. } => {
                let Some(spec) = books.jobs.get(job) else { return };
                let (end, wanted) = (*first + *count, spec.groups.get(usize::from(*group)).map_or(0, |one| one.count));
                if end > wanted {
                    let what = format!("entry {index}: tasks {first}..{end} of {} are placed, of {wanted}", spec.name);
                    broken.push(Broken::new("P6", what));
                }
            }
            _ => {}
        }
    }

    /// Judges what must hold when the entry is over.
    pub(crate) fn entry_over(&mut self, index: Index, books: &Books, broken: &mut Vec<Broken>) {
        std::mem::take(&mut self.updated)
            .into_iter()
            .for_each(|job| judge(&format!("entry {index}"), job, books, broken));
    }
}

/// Judges every job once more, when everything is quiet: the final counts hold.
pub(crate) fn finish(books: &Books, broken: &mut Vec<Broken>) {
    books.jobs.keys().for_each(|job| judge("in the end", *job, books, broken));
}

fn judge(when: &str, job: JobId, books: &Books, broken: &mut Vec<Broken>) {
    let Some(spec) = books.jobs.get(&job) else { return };
    for (at, group) in spec.groups.iter().enumerate() {
        let on = books.live(job, at as u16).filter(|(task, standing)| *task >= group.count && !standing.stopping);
        let (beyond, wanted) = (on.count(), group.count);
        if beyond > 0 {
            let what = format!("{when}: {beyond} tasks of {}/{} go on beyond its {wanted}", spec.name, group.name);
            broken.push(Broken::new("P6", what));
        }
    }
}
