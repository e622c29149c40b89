//! P8, stop policies: nothing of a held queue starts or grows. Under `Hold` what stands goes on: tasks that were placed
//! before are placed again, and tasks move. Under `HoldAndDrain` nothing is placed, and what stands is stopped.
//!
//! Not judged are entries that put or remove the queue, and jobs of which quota may be reserved: their start was let in
//! before.

use crate::books::Books;
use crate::claims::Claims;
use crate::facts::{Fact, Rules, Taken};
use crate::history::Broken;
use crate::p10_ledger::Ledger;
use crate::quota::QuotaTree;
use crate::waiting::Waiting;
use ohm_model::{Command, EventKind, Index, JobId, StopPolicy};
use std::collections::{BTreeMap, BTreeSet};

/// The books.
#[derive(Default)]
pub(crate) struct HeldQueues {
    /// The tasks of each group, by its name, that were ever placed.
    placed: BTreeMap<JobId, BTreeMap<String, BTreeSet<u32>>>,
    /// Jobs of held queues that the entry at hand plans, the policy, and whether something of each stood before it.
    planned: BTreeMap<JobId, (StopPolicy, bool)>,
}

impl HeldQueues {
    /// Takes note of what an entry plans. `ledger` knows nothing of it.
    pub(crate) fn before(&mut self, taken: &[Taken<'_>], rules: &Rules<'_>, ledger: &Ledger<'_>) {
        let rows = taken.iter().flat_map(|(command, _)| match command {
            Command::Commit(transaction) => transaction.place.as_slice(),
            _ => &[],
        });
        let jobs: BTreeSet<JobId> = rows.map(|row| row.job).collect();
        let planned = jobs.into_iter().filter_map(|job| {
            let spec = ledger.books.jobs.get(&job).filter(|spec| !rules.change_queue(&spec.queue))?;
            let policy = ledger.stop_policy(spec).filter(|_| !ledger.admissions.may_hold(job))?;
            Some((job, (policy, stands(ledger.books, job))))
        });
        self.planned = planned.collect();
    }

    /// Judges one fact; `books` knows of it already, `claims` does not.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, claims): (&Books, &Claims),
        broken: &mut Vec<Broken>,
    ) {
        match *fact {
            Fact::Updated { job, .. } => drop(self.planned.remove(&job)),
            Fact::Happened { kind: EventKind::Placed { job, group, first, count, .. }, .. } => {
                let tasks = *first..first + count;
                let Some(spec) = books.jobs.get(job) else { return };
                let Some(name) = spec.groups.get(usize::from(*group)).map(|group| &group.name) else { return };
                let placed = self.placed.entry(*job).or_default().entry(name.clone()).or_default();
                let grows = tasks.clone().any(|task| !placed.contains(&task));
                placed.extend(tasks);
                let planned = self.planned.get(job).filter(|_| !books.has_returned(*job, *group, *first));
                let Some((policy, stood)) = planned else { return };
                let what = match policy {
                    StopPolicy::HoldAndDrain => "is placed",
                    _ if claims.moves(*job) => return,
                    _ if !stood => "starts",
                    _ if grows => "grows",
                    _ => return,
                };
                let (job, queue, policy) = (&spec.name, &spec.queue, policy.name());
                let what = format!("entry {index}: {job} {what} in queue {queue}, which is held ({policy})");
                broken.push(Broken::new("P8", what));
            }
            _ => {}
        }
    }

    /// Judges an entry when all of it is known: of a queue that it drains nothing stands but what stops.
    pub(crate) fn entry_over(
        &self,
        index: Index,
        rules: &Rules<'_>,
        (books, waiting, tree): (&Books, &Waiting, &QuotaTree),
        broken: &mut Vec<Broken>,
    ) {
        let is_drained = |queue: &str| {
            let found = tree.queue(queue).filter(|_| rules.queues.iter().any(|spec| spec.name == queue));
            found.is_some_and(|found| found.stop_policy == StopPolicy::HoldAndDrain)
        };
        for (job, spec) in books.jobs.iter().filter(|_| !rules.queues.is_empty()) {
            if is_drained(&spec.queue) && waiting.is_active(*job) && stands(books, *job) {
                let (job, queue) = (&spec.name, &spec.queue);
                broken
                    .push(Broken::new("P8", format!("entry {index}: {job} stays in queue {queue}, which is drained")));
            }
        }
    }
}

/// Whether something of the job stands that is not to stop.
fn stands(books: &Books, job: JobId) -> bool {
    books.live_of(job).any(|standing| !standing.stopping)
}
