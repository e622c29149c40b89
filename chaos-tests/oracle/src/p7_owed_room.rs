//! P7 for owed room: once a waiting repair has claimed it, no new work takes room that the repair lacks, whichever
//! process plans it. Judged from the claims that transactions made and from what stands where: before and after each
//! entry it is counted how many lost tasks would find room, and new work may not make that less than are lost. What the
//! cell says to keep counts as room that is left, too: books know less than there is, and that it is there is swept.
//! Only jobs of one group without slices are judged: of those it is known.

use crate::books::Books;
use crate::earmarks::owed_ms;
use crate::facts::{Fact, Taken, is_granted};
use crate::history::Broken;
use crate::p7_repairs::Repairs;
use crate::p10_ledger::Ledger;
use crate::p10_liveness::Reach;
use ohm_model::transaction::Row;
use ohm_model::{Command, EventKind, Index, JobId, NodeId, Outcome, RepairPolicy};
use std::collections::{BTreeMap, BTreeSet};

/// How many lost tasks of each claim find room, by node.
pub(crate) type Fits = BTreeMap<JobId, BTreeMap<NodeId, u32>>;

/// Open claims, and what the entry at hand does.
#[derive(Default)]
pub(crate) struct OwedRoom {
    /// Until when room is owed at least, and since which entry.
    claims: BTreeMap<JobId, (u64, Index)>,
    /// New work that was placed, by node.
    new: BTreeMap<NodeId, JobId>,
    /// Whether something that was lost was placed: where that goes before another repair, it takes what that was owed.
    repairs: bool,
    /// Nodes that anything but that happened to.
    changed: BTreeSet<NodeId>,
    /// Jobs that lost something, or changed.
    moved: BTreeSet<JobId>,
    /// Jobs that lost something while all the rest of them was to stop: what of it starts anew is not known.
    unsure: BTreeSet<JobId>,
}

impl OwedRoom {
    /// How much room there is for claims before an entry; nothing where nobody claims or nobody places anything.
    pub(crate) fn before(&self, ledger: &Ledger<'_>, taken: &[Taken<'_>]) -> Fits {
        let places = |(command, _): &Taken<'_>| matches!(command, Command::Commit(one) if !one.place.is_empty());
        if self.claims.is_empty() || !taken.iter().any(places) {
            return Fits::new();
        }
        self.claims.keys().filter_map(|job| Some((*job, fits(ledger, *job)?))).collect()
    }

    /// Takes note of the claims that an entry makes, before its facts.
    pub(crate) fn entry_begins(&mut self, index: Index, taken: &[Taken<'_>], (books, repairs): (&Books, &Repairs)) {
        (self.new, self.repairs, self.changed, self.moved) = Default::default();
        for (command, outcome) in taken {
            let (Command::Commit(transaction), Outcome::Verdict(verdict)) = (command, outcome) else { continue };
            for (at, claim) in transaction.claim.iter().enumerate() {
                let Some(spec) = books.jobs.get(&claim.job) else { continue };
                if is_granted(transaction, verdict, Row::Claim(at as u32)) {
                    let until_ms = repairs.last_loss_ms(claim.job).saturating_add(owed_ms(spec));
                    self.claims.insert(claim.job, (until_ms, index));
                }
            }
        }
    }

    /// Takes note of one fact; `books` and `repairs` know of it already.
    pub(crate) fn note(&mut self, fact: &Fact<'_>, books: &Books, repairs: &Repairs) {
        self.changed.extend(fact.changed_node());
        let kind = match *fact {
            Fact::Registered { .. } | Fact::Submitted { .. } => return,
            Fact::Updated { job, .. } => return self.close(job),
            Fact::Happened { kind, .. } => kind,
        };
        match kind {
            EventKind::Placed { job, group, first, count, node } => {
                let returns = |task| books.has_returned(*job, *group, task);
                let repaired = (*first..first + count).all(|task| repairs.was_lost(*job, *group, task));
                self.repairs |= repaired;
                if !repaired && !(*first..first + count).any(returns) {
                    self.new.insert(*node, *job);
                }
                self.moved.insert(*job);
            }
            EventKind::Ended { job, .. } | EventKind::Stopping { job, .. } | EventKind::Reconciled { job, .. } => {
                self.moved.insert(*job);
            }
            EventKind::RepairFailed { job, .. } => self.close(*job),
            EventKind::JobState { job, state, .. } if !matches!(state.as_str(), "pending" | "running") => {
                self.close(*job);
            }
            _ => {}
        }
        let stands = |job: &JobId| books.live(*job, 0).any(|(_, standing)| !standing.stopping);
        if let EventKind::Ended { job, .. } = kind
            && !stands(job)
        {
            self.unsure.insert(*job);
        }
        self.unsure.retain(|job| repairs.lost_of(*job, 0) > 0);
        self.claims.retain(|job, _| repairs.lost_of(*job, 0) > 0 && stands(job));
    }

    fn close(&mut self, job: JobId) {
        self.claims.remove(&job);
        self.moved.insert(job);
    }

    /// Judges an entry, when all of it is known.
    pub(crate) fn judge(&self, index: Index, ledger: &Ledger<'_>, before: &Fits) -> Vec<Broken> {
        let mut broken = Vec::new();
        let judged =
            before.iter().filter(|(job, _)| !self.repairs && !self.moved.contains(job) && !self.unsure.contains(job));
        for (job, was) in judged {
            let Some(&(until_ms, since)) = self.claims.get(job) else { continue };
            if ledger.waiting.now_ms >= until_ms || since >= index || ledger.claims.moves(*job) {
                continue;
            }
            let Some(mut is) = fits(ledger, *job) else { continue };
            // The books know less than there is, of shared devices for one: what is kept for it is there.
            for (node, kept) in ledger.earmarks.kept_for(*job, 0) {
                let found = is.entry(node).or_insert(0);
                *found = kept.max(*found);
            }
            // Nothing is owed to what backs off before it is placed again, nor yet to what others are placed before.
            let backs_off =
                ledger.waiting.groups_of(*job).map(|group| group.backing_off(ledger.waiting.now_ms).count());
            let lost = ledger.repairs.lost_tasks(*job, 0).filter(|task| !ledger.rollouts.is_held((*job, 0, *task)));
            let lost = (lost.count() as u32).saturating_sub(backs_off.sum::<usize>() as u32);
            let left = is.values().sum::<u32>();
            for (node, by) in self.new.iter().filter(|(node, by)| !self.changed.contains(node) && *by != job) {
                let (had, has) = (was.get(node).copied().unwrap_or(0), is.get(node).copied().unwrap_or(0));
                // Nothing is owed where the tasks around it let none of it stand, or where nobody can say that.
                let may_stand = || known_to_stand(ledger, *job, (*node, lost));
                if left < lost && has < had && !ledger.is_promised(*job, *node) && may_stand() {
                    let name = |job: &JobId| ledger.books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                    let what = format!(
                        "entry {index}: {} takes room on {node} that is owed to {}, which lost {lost} tasks and has room \
                         left for {left}",
                        name(by),
                        name(job)
                    );
                    broken.push(Broken::new("P7", what));
                }
            }
        }
        broken
    }
}

fn known_to_stand(ledger: &Ledger<'_>, job: JobId, (node, tasks): (NodeId, u32)) -> bool {
    let group = ledger.books.jobs.get(&job).and_then(|spec| spec.groups.first());
    group.is_some_and(|group| ledger.may_stand(job, 0, &ledger.admissions.filtered(job, group), (node, tasks)))
}

/// How many lost tasks of the job find room, by node; nothing where it is not known.
fn fits(ledger: &Ledger<'_>, job: JobId) -> Option<BTreeMap<NodeId, u32>> {
    let spec = ledger.books.jobs.get(&job).filter(|spec| spec.repair.policy != RepairPolicy::Widen)?;
    let [group] = spec.groups.as_slice() else { return None };
    if !group.slices().is_empty() {
        return None;
    }
    let wish = ledger.admissions.filtered(job, group);
    let reach = Reach::of(ledger, job, spec)?;
    let lost = ledger.repairs.lost_of(job, 0);
    let mut fits = BTreeMap::new();
    for node in ledger.open_nodes(&wish).filter(|node| reach.domain(ledger, spec, *node).is_some()) {
        let (mut room, mut count) = (ledger.room(job, node), 0);
        while count < lost && room.take(job, 0, &wish) {
            count += 1;
        }
        fits.insert(node, count);
    }
    Some(fits)
}
