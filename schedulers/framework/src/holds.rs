//! What a scheduler's own transactions in flight will take if they are accepted. Shown as taken, so that plans made
//! before the verdicts arrive don't collide with each other.

use crate::view::{Board, View};
use ohm_cell::{Cell, HeldUsage, Job, Overlay, drop_preemption, is_ordered_by_usage, lay_preemption};
use ohm_model::{FlavorResource, JobId, NodeId, Nomination, SessionId, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An overlay of rows that were sent and not judged yet. Every sum that falls to zero is dropped, so an empty pipeline
/// costs nothing to look through.
#[derive(Debug, Default)]
pub struct Holds {
    over: Overlay,
    /// What is charged to each queue. What that passes on to cohorts depends on what the cell charges at the time.
    quota: BTreeMap<Arc<str>, BTreeMap<FlavorResource, i64>>,
    /// The same by part, of queues whose jobs come in the order of what their subqueues have used.
    parts: BTreeMap<Arc<str>, HeldUsage>,
}

/// What one transaction holds: everything needed to give it back, whatever has become of its jobs meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Others are told to stop for this one.
    preemptor: Option<JobId>,
    rooms: ohm_cell::Taken,
    quota: Vec<(Arc<str>, FlavorResource, i64)>,
    parts: Vec<(Arc<str>, String, FlavorResource, i64)>,
}

impl Taken {
    /// The nodes it names; may repeat.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.rooms.nodes()
    }
}

/// The jobs of a cell, those of a transaction with the flavors that it chooses for them.
struct Jobs<'a> {
    cell: &'a Cell,
    chosen: Vec<Job>,
}

impl<'a> Jobs<'a> {
    fn of(cell: &'a Cell, transaction: &Transaction) -> Self {
        let guards = transaction.jobs.iter().filter(|_| !transaction.flavors.is_empty());
        let jobs = guards.filter_map(|guard| cell.jobs().get(guard.job));
        Jobs { cell, chosen: jobs.filter_map(|job| job.with_flavors(&transaction.flavors)).collect() }
    }

    fn get(&self, id: JobId) -> Option<&Job> {
        let chosen = self.chosen.iter().find(|job| job.id == id);
        chosen.or_else(|| self.cell.jobs().get(id).map(AsRef::as_ref))
    }
}

impl Holds {
    /// Holds what `transaction` will take: its rows, the quota that it reserves beyond what runs of its jobs already,
    /// the room that tasks on the move, or a preemptor, will have reserved, and its spares. Rows of jobs or groups that
    /// do not exist take nothing. Hand what comes back to [`Holds::give_back`].
    pub fn take(&mut self, cell: &Cell, transaction: &Transaction) -> Taken {
        let (mut taken, from) = (Taken::default(), self.over.savepoint());
        let jobs = Jobs::of(cell, transaction);
        let job = |id| jobs.get(id);
        for row in &transaction.place {
            let Some(job) = job(row.job) else { continue };
            let Some(shape) = cell.shape_of(job, usize::from(row.group.0)) else { continue };
            self.over.place(cell, job, row);
            if job.reserved.is_empty() {
                self.charge(cell, job, (&shape.charges, row.count), &mut taken);
            }
        }
        for job in transaction.reserve.iter().filter_map(|id| job(*id)) {
            let missing = cell.missing_request(job).into_iter().filter(|(_, amount)| *amount > 0);
            self.charge(cell, job, (&missing.collect::<Vec<_>>(), 1), &mut taken);
        }
        // What a preemptor stands on once its victims have ended is no room for whom these count as ended, either.
        let is_taken = |room: &&Nomination| room.is_move() || room.is_spare() || room.is_preemptor();
        for room in transaction.nominate.iter().filter(is_taken) {
            let Some(job) = job(room.job) else { continue };
            let Some(shape) = cell.shape_of(job, usize::from(room.group.0)) else { continue };
            self.over.take_nominated(cell, job, room);
            if room.is_spare() {
                self.charge(cell, job, (&shape.charges, room.count), &mut taken);
            }
        }
        let preemptor = transaction.jobs.first().filter(|_| !transaction.preempt.is_empty()).map(|guard| guard.job);
        if let Some(job) = preemptor {
            lay_preemption(&mut self.over, job, transaction);
        }
        Taken { preemptor, rooms: self.over.keep(cell, from), ..taken }
    }

    /// Gives back what a transaction held.
    pub fn give_back(&mut self, taken: &Taken) {
        self.over.give_back(&taken.rooms);
        if let Some(job) = taken.preemptor {
            drop_preemption(&mut self.over, job);
        }
        for (queue, column, amount) in &taken.quota {
            let Some(sums) = self.quota.get_mut(queue) else { continue };
            if let Some(sum) = sums.get_mut(column) {
                *sum -= amount;
            }
            sums.retain(|_, sum| *sum != 0);
            if sums.is_empty() {
                self.quota.remove(queue);
            }
        }
        for (queue, part, column, amount) in &taken.parts {
            let Some(parts) = self.parts.get_mut(queue) else { continue };
            if let Some(sums) = parts.get_mut(part) {
                *sums.entry(*column).or_insert(0) -= amount;
                sums.retain(|_, sum| *sum != 0);
            }
            parts.retain(|_, sums| !sums.is_empty());
            if parts.is_empty() {
                self.parts.remove(queue);
            }
        }
    }

    /// What is held of each part of a queue whose jobs come in the order of what its parts have used.
    pub fn of_parts(&self, queue: &str) -> HeldUsage {
        self.parts.get(queue).cloned().unwrap_or_default()
    }

    /// What `session` sees of `cell` now, less what is held.
    pub fn view<'a>(&'a mut self, cell: &'a Cell, session: SessionId) -> View<'a> {
        self.recharge(cell);
        View::new(cell, &self.over, session)
    }

    /// The same to plan on.
    pub fn board<'a>(&'a mut self, cell: &'a Cell, session: SessionId) -> Board<'a> {
        self.recharge(cell);
        Board::new(cell, &mut self.over, session)
    }

    fn recharge(&mut self, cell: &Cell) {
        let charges = self
            .quota
            .iter()
            .flat_map(|(queue, sums)| sums.iter().map(move |(resource, amount)| (queue.as_ref(), *resource, *amount)));
        self.over.recharge(cell, charges);
    }

    fn charge(
        &mut self,
        cell: &Cell,
        job: &Job,
        (charges, count): (&[(FlavorResource, i64)], u32),
        charged: &mut Taken,
    ) {
        if job.spec.queue.is_empty() {
            return;
        }
        let queue = match self.quota.get_key_value(job.spec.queue.as_str()) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(job.spec.queue.as_str()),
        };
        let by_usage = is_ordered_by_usage(cell, &queue);
        let sums = self.quota.entry(Arc::clone(&queue)).or_default();
        for &(column, request) in charges {
            let amount = request.saturating_mul(i64::from(count));
            *sums.entry(column).or_insert(0) += amount;
            charged.quota.push((Arc::clone(&queue), column, amount));
            if by_usage {
                let part =
                    self.parts.entry(Arc::clone(&queue)).or_default().entry(job.spec.subqueue.clone()).or_default();
                *part.entry(column).or_insert(0) += amount;
                charged.parts.push((Arc::clone(&queue), job.spec.subqueue.clone(), column, amount));
            }
        }
    }
}
