//! P8 of nodes that were brought for a job: while its request is open and nothing of it stands, nobody else is placed
//! there, and nothing is placed on a node that goes back. From the log alone; where it does not say whether a request
//! still is open, it is taken to be over.

use crate::books::{Books, NodeBook};
use crate::facts::{Fact, Rules};
use crate::history::Broken;
use crate::p6_admission::Admissions;
use ohm_model::brought::{REQUEST_LABEL, request_label};
use ohm_model::{EventKind, Index, JobId};
use std::collections::BTreeMap;

/// Who asked for which nodes, and which nodes go back.
#[derive(Default)]
pub(crate) struct Brought {
    submitted_ms: BTreeMap<JobId, u64>,
    /// By the label of the request: who made it, and in which round.
    requests: BTreeMap<String, (JobId, u32)>,
    /// By name; whether for sure, which it is not of one that has registered anew.
    going_back: BTreeMap<String, bool>,
}

impl Brought {
    /// Judges one fact of an entry of this stamped time; `books` knows of it already.
    pub(crate) fn watch(
        &mut self,
        (index, now_ms): (Index, u64),
        fact: &Fact<'_>,
        (books, admissions): (&Books, &Admissions),
        rules: &Rules<'_>,
        broken: &mut Vec<Broken>,
    ) {
        let kind = match *fact {
            Fact::Submitted { job, .. } => {
                self.submitted_ms.insert(job, now_ms);
                return;
            }
            Fact::Registered { spec, .. } => {
                self.going_back.entry(spec.name.clone()).and_modify(|for_sure| *for_sure = false);
                return;
            }
            Fact::Updated { .. } => return,
            Fact::Happened { kind, .. } => kind,
        };
        match kind {
            EventKind::QuotaReserved { job, name, round, checks } => {
                let name = name.replace('/', "_");
                let submitted_ms = self.submitted_ms.get(job).copied().unwrap_or(0);
                let label = |class: &String| request_label(&format!("{name}.{submitted_ms:x}.{round}.{class}"));
                self.requests.extend(checks.iter().map(|class| (label(class), (*job, *round))));
            }
            EventKind::NodeReleasing { name, .. } => {
                self.going_back.insert(name.clone(), true);
            }
            EventKind::NodeRemoved { name } => {
                self.going_back.remove(name);
            }
            EventKind::Placed { job, group, first, node, .. } if !books.has_returned(*job, *group, *first) => {
                let Some(book) = books.nodes.get(node) else { return };
                let named = |job: &JobId| books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                let what = |why: String| format!("entry {index} places {} on {}, {why}", named(job), book.spec.name);
                if self.going_back.get(&book.spec.name) == Some(&true) {
                    broken.push(Broken::new("P8", what("which goes back".into())));
                }
                // What an entry changes about queues has no place among its facts.
                let owner = self.owner(book).filter(|_| rules.queues.is_empty() && rules.removed_queues.is_empty());
                if let Some((owner, round)) = owner.filter(|(owner, _)| owner != job)
                    && admissions.is_open_for_sure(owner, round)
                    && books.live_of(owner).next().is_none()
                {
                    broken.push(Broken::new("P8", what(format!("which was brought for {}", named(&owner)))));
                }
            }
            _ => {}
        }
    }

    fn owner(&self, book: &NodeBook) -> Option<(JobId, u32)> {
        self.requests.get(book.spec.labels.get(REQUEST_LABEL)?).copied()
    }

    /// Whether a node may be closed to a job because it was brought: for whom it is kept is not known for sure.
    pub(crate) fn may_keep_away(&self, book: &NodeBook) -> bool {
        book.spec.labels.contains_key(REQUEST_LABEL) || self.going_back.contains_key(&book.spec.name)
    }
}
