//! P8 of nodes that repairs ask for: only where the job wants it, only for tasks that don't stand, and for no task
//! twice unless it was lost again or whoever was asked had none; and in the entry that says that there is no room. From
//! the events alone.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use crate::p6_admission::Admissions;
use ohm_model::{EventKind, Index, JobId, RequestChange};
use std::collections::BTreeMap;

/// What repairs have asked for.
#[derive(Default)]
pub(crate) struct NodeRequests {
    /// How many runs of each job have ended since it was whole: each of them may be asked for once.
    ended: BTreeMap<JobId, u32>,
    /// For how many tasks each class was asked, in vain not counted.
    asked: BTreeMap<(JobId, String), u32>,
    /// For how many tasks room was claimed in this entry, and not given.
    lacking: BTreeMap<JobId, i64>,
}

impl NodeRequests {
    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        let kind = match *fact {
            Fact::Happened { kind, .. } => kind,
            // It may have turned its wish off, and on again.
            Fact::Updated { job, .. } => {
                let of_job = self.asked.iter_mut().filter(|((other, _), _)| *other == job);
                return of_job.for_each(|(_, asked)| *asked = 0);
            }
            Fact::Registered { .. } | Fact::Submitted { .. } => return,
        };
        match kind {
            EventKind::Ended { job, .. } => *self.ended.entry(*job).or_default() += 1,
            // Room on a node that came, and is lost before it was used.
            EventKind::EarmarkGone { job, count, .. } => *self.ended.entry(*job).or_default() += count,
            EventKind::QuotaReserved { job, .. } | EventKind::Repaired { job, .. } => {
                self.ended.remove(job);
                self.asked.retain(|(other, _), _| other != job);
            }
            EventKind::RoomClaimed { job, tasks, .. } => *self.lacking.entry(*job).or_default() += i64::from(*tasks),
            EventKind::RoomEarmarked { job, count, .. } => *self.lacking.entry(*job).or_default() -= i64::from(*count),
            EventKind::RepairRequest { job, name, change } => {
                let RequestChange { class, state, tasks, .. } = change;
                let asked = self.asked.entry((*job, class.clone())).or_default();
                match state.as_str() {
                    "asked" => *asked += tasks,
                    "retry" | "failed" => *asked = asked.saturating_sub(*tasks),
                    _ => {}
                }
                let (asked, ended) = (*asked, self.ended.get(job).copied().unwrap_or(0));
                let what = |why: String| format!("entry {index}: the repair of {name} asks {class} for nodes {why}");
                if state == "asked"
                    && let Some(why) = why_not(books, *job, *tasks)
                {
                    broken.push(Broken::new("P8", what(why)));
                }
                if asked > ended {
                    broken.push(Broken::new("P8", what(format!("for {asked} tasks, and {ended} have ended"))));
                }
            }
            _ => {}
        }
    }

    /// Judges what an entry has left undone.
    pub(crate) fn entry_over(
        &mut self,
        index: Index,
        (books, admissions): (&Books, &Admissions),
        broken: &mut Vec<Broken>,
    ) {
        for (job, lacking) in std::mem::take(&mut self.lacking) {
            let Some(spec) = books.jobs.get(&job).filter(|spec| spec.repair.provision && lacking > 0) else { continue };
            // Once something was asked, whether more is to be asked depends on what that has come to.
            let is_asked = self.asked.keys().any(|(other, _)| *other == job);
            // What stops whole is to start anew, and what its start needs is asked for it then.
            let stands = books.live_of(job).any(|standing| !standing.stopping);
            if !is_asked && admissions.is_ready_for_sure(job) && stands {
                let name = &spec.name;
                let what = format!("entry {index}: the repair of {name} lacks room for {lacking}, and asks nobody");
                broken.push(Broken::new("P8", what));
            }
        }
    }
}

/// Why a job has no reason to ask for nodes for so many tasks, if it has none.
fn why_not(books: &Books, job: JobId, tasks: u32) -> Option<String> {
    let spec = books.jobs.get(&job)?;
    if !spec.repair.provision {
        return Some("and does not want to".to_string());
    }
    let all: u32 = spec.groups.iter().map(|group| group.count).sum();
    let stand = books.live_of(job).count() as u32;
    (tasks > all.saturating_sub(stand)).then(|| format!("for {tasks} tasks, and {stand} of {all} stand"))
}
