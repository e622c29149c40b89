//! Doing what a transaction was granted.

use crate::judge::{Expected, Facts};
use crate::life::NOBODY;
use crate::neighbours::is_of_neighbours;
use crate::state::{Alarm, Phase, Plain, PlainHold, PlainRun};
use ohm_model::transaction::Row;
use ohm_model::{ConflictReason, JobId, NodeId, Nomination, Placement, Purpose, SessionId, StopCause, Transaction};
use std::collections::BTreeSet;

impl Plain {
    /// Counts the refusals that a run has to have some of.
    fn note_refusals(&mut self, expected: &Expected) {
        let reasons = || expected.conflicts.iter().map(|(_, reason)| *reason);
        self.ruled_out += reasons().filter(|reason| is_of_neighbours(*reason)).count() as u64;
        let by_budgets = |reason: &ConflictReason| matches!(reason, ConflictReason::BudgetExceeded(_));
        self.held_by_budgets += reasons().filter(by_budgets).count() as u64;
    }

    /// Judges the transaction and does what it accepted.
    pub(crate) fn commit(&mut self, session: SessionId, transaction: &Transaction, facts: &dyn Facts) -> Expected {
        let (expected, mut after) = self.judge(session, transaction, facts);
        self.note_refusals(&expected);
        (after.ruled_out, after.held_by_budgets) = (self.ruled_out, self.held_by_budgets);
        let refused = |row| expected.conflicts.iter().any(|(other, _)| *other == row);
        let nothing = transaction.grain == ohm_model::Grain::AllOrNothing && !expected.conflicts.is_empty();
        if nothing || refused(Row::Whole) {
            return expected;
        }
        *self = after;
        if transaction.is_move() {
            self.move_away(transaction);
            return expected;
        }
        let not_refused = |row: usize| !refused(Row::Evict(row as u32));
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            let job = run.task.job;
            let waits = self.jobs.get(&job).is_some_and(|found| !found.repair.lost.is_empty());
            let waits = waits && self.is_below_minimum(job) && !self.awaits_ends(job);
            if *cause == StopCause::RepairFailed && waits && not_refused(row) {
                self.give_up(job);
            }
        }
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            let (task, incarnation) = (run.task, run.incarnation.0);
            let named = |one: &PlainRun| {
                (one.job, one.group, one.task, one.incarnation) == (task.job, task.group.0, task.task.0, incarnation)
            };
            let at = self.runs.iter().position(named);
            if let Some(at) = at.filter(|_| !refused(Row::Evict(row as u32)))
                && self.runs[at].stop.is_none()
            {
                self.runs[at].stop = Some(*cause);
                self.touch(self.runs[at].node, NOBODY);
            }
        }
        let mut moved = BTreeSet::new();
        for (row, placement) in transaction.place.iter().enumerate().filter(|(row, _)| expected.accepted[*row] > 0) {
            self.touch(placement.node, session);
            self.use_for_lost(placement, expected.accepted[row]);
            if self.note_placed(placement, expected.accepted[row]) {
                moved.insert(placement.job);
            }
            self.note_admitted(placement.job);
            self.use_hold(placement, expected.accepted[row]);
            self.end_head(placement.job);
            self.note_moved(placement, expected.accepted[row]);
            self.watch_tolerations(placement.node);
        }
        moved.into_iter().for_each(|id| self.restart_survivors(id));
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        jobs.into_iter().for_each(|id| self.settle_start(id));
        let rooms = transaction.nominate.iter().enumerate();
        let rooms = rooms.filter(|(row, _)| !refused(Row::Nominate(*row as u32))).map(|(_, room)| *room);
        self.keep_rooms(&rooms.collect::<Vec<_>>());
        let claims = transaction.claim.iter().enumerate();
        claims.filter(|(row, _)| !refused(Row::Claim(*row as u32))).for_each(|(_, claim)| self.make_claim(claim));
        for (row, job) in transaction.reserve.iter().enumerate() {
            if !refused(Row::Reserve(row as u32)) {
                self.open_round(*job);
            }
        }
        for (row, (run, cause)) in transaction.evict.iter().enumerate() {
            if *cause == StopCause::Preempted && not_refused(row) {
                self.settle_preempted(run.task.job);
            }
        }
        expected
    }

    fn keep_rooms(&mut self, rooms: &[Nomination]) {
        let (head, others): (Vec<_>, Vec<_>) = rooms.iter().copied().partition(Nomination::is_head);
        others.iter().for_each(|room| self.keep_room(room));
        self.make_head(&head);
    }

    fn keep_room(&mut self, row: &Nomination) {
        let (job, group, node) = (row.job, row.group.0, row.node);
        match row.purpose {
            Purpose::Preemptor { expires_ms } => self.hold(job, group, node, row.count, expires_ms),
            _ => self.hold_spare(job, group, node, row.count),
        }
    }

    /// What is kept for a preemptor where it is placed is used up.
    pub(crate) fn use_hold(&mut self, placement: &Placement, count: u32) {
        let key = (placement.job, placement.group.0, placement.node);
        for hold in self.holds.iter_mut().filter(|hold| hold.is_preemptor()) {
            if (hold.job, hold.group, hold.node) == key {
                hold.count = hold.count.saturating_sub(count);
            }
        }
        self.holds.retain(|hold| hold.count > 0);
    }

    pub(crate) fn hold(&mut self, job: JobId, group: u16, node: NodeId, count: u32, expires_ms: u64) {
        let same = |hold: &PlainHold| (hold.job, hold.group, hold.node) == (job, group, node);
        self.holds.retain(|hold| !hold.is_preemptor() || !same(hold));
        let (purpose, since) = (Purpose::Preemptor { expires_ms }, self.index);
        self.holds.push(PlainHold { job, group, node, count, tasks: BTreeSet::new(), purpose, since });
        self.alarm(expires_ms, Alarm::Hold(node));
        self.touch(node, NOBODY);
    }

    pub(crate) fn settle_start(&mut self, id: JobId) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a job");
        if job.live() == 0 {
            return;
        }
        let was_placed = job.first_placed_ms.is_some();
        let first = *job.first_placed_ms.get_or_insert(now_ms);
        for group in 0..job.spec.groups.len() as u16 {
            if job.started[usize::from(group)] || job.count(group, Phase::Live) == 0 {
                continue;
            }
            job.started[usize::from(group)] = true;
            let rigid = !job.spec.groups[usize::from(group)].elastic;
            let waiting = job.tasks.iter_mut().filter(|((at, _), task)| *at == group && task.phase == Phase::Pending);
            for (place, task) in waiting.filter(|_| rigid) {
                task.phase = Phase::Skipped;
                job.moving.remove(place);
            }
        }
        let seconds = job.spec.active_deadline_seconds;
        if !was_placed && seconds > 0 {
            self.alarm(first + seconds * 1000, Alarm::Deadline(id));
        }
        self.settle_rooms(id);
    }
}
