//! P7 for what ends with the lease of its node: nothing starts that the lease is about to end, so each such end is a
//! real loss; and as it is charged to no retry budget, the next start waits, longer each time.

use crate::facts::Fact;
use crate::history::{Broken, Record};
use ohm_model::{EventKind, Exit, Index, JobId};
use std::collections::BTreeMap;

/// The least wait after the first end of this kind; doubles with each in a row.
const WAIT_MS: u64 = 1_000;
/// No wait need be longer.
const WAIT_MS_MAX: u64 = 300_000;
/// Who ran so long was well: the next end is the first of a row again.
const WELL_MS: u64 = 600_000;

/// A task that ended with a lease.
#[derive(Clone, Copy)]
struct Wait {
    ended_ms: u64,
    /// How many times in a row.
    times: u32,
    /// When it was placed again.
    placed_ms: Option<u64>,
}

/// Tasks whose last end was by a lease.
#[derive(Default)]
pub(crate) struct LeaseEnds {
    waits: BTreeMap<(JobId, u16, u32), Wait>,
}

impl LeaseEnds {
    /// Judges a real start.
    pub(crate) fn began(&self, record: &Record, broken: &mut Vec<Broken>) {
        if let Record::Began { at_ms, node, run, fence_in_ms: 0, .. } = record {
            let what = format!("at {at_ms} ms run {run} began on {node}, whose lease was about to end it");
            broken.push(Broken::new("P7", what));
        }
    }

    /// Judges one fact.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, broken: &mut Vec<Broken>) {
        let (at_ms, kind) = match *fact {
            Fact::Happened { at_ms, kind } => (at_ms, kind),
            // Tasks that are taken away and come again are others.
            Fact::Updated { job, .. } => return self.waits.retain(|(of, _, _), _| *of != job),
            _ => return,
        };
        match kind {
            EventKind::Ended { job, group, task, exit: Exit::LeaseExpired, cause: None, .. } => {
                let last = self.waits.get(&(*job, *group, *task)).copied();
                let in_a_row = last.filter(|last| last.placed_ms.is_some_and(|placed_ms| at_ms < placed_ms + WELL_MS));
                let times = in_a_row.map_or(0, |last| last.times) + 1;
                self.waits.insert((*job, *group, *task), Wait { ended_ms: at_ms, times, placed_ms: None });
            }
            EventKind::Ended { job, group, task, .. } => drop(self.waits.remove(&(*job, *group, *task))),
            EventKind::Placed { job, group, first, count, .. } => {
                for task in *first..first + count {
                    let Some(wait) = self.waits.get_mut(&(*job, *group, task)) else { continue };
                    wait.placed_ms = Some(at_ms);
                    let due_ms = wait.ended_ms + (WAIT_MS << (wait.times - 1).min(20)).min(WAIT_MS_MAX);
                    if at_ms < due_ms {
                        let (times, early_ms) = (wait.times, due_ms - at_ms);
                        let what = format!(
                            "entry {index}: task {group}/{task} of job {job} ended with the lease of its node {times} \
                             times in a row and is placed {early_ms} ms too early"
                        );
                        broken.push(Broken::new("P7", what));
                    }
                }
            }
            _ => {}
        }
    }
}
