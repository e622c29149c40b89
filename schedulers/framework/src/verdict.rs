//! What becomes of plans: accepted, tried again at once, or parked.

use crate::explain::{Explanation, Obstacle};
use crate::flight::{Fate, Flight, FlyingJob};
use crate::planner::Planner;
use crate::repair::may_claim;
use crate::scheduler::SchedulerCore;
use crate::ticket::blocker_of;
use ohm_model::{ConflictReason, Index, JobId, Outcome, Verdict};
use ohm_queueing::Blocker;
use std::sync::Arc;

impl<P: Planner> SchedulerCore<P> {
    /// The answer in the log to the transaction under `tag`, or one of a server that is not a verdict.
    pub(crate) fn on_answer(&mut self, now_ms: u64, tag: u64, outcome: Outcome) {
        match outcome {
            Outcome::Verdict(verdict) => self.land(now_ms, tag, &verdict),
            Outcome::Refused(refusal) => self.on_refusal(now_ms, tag, &refusal.to_string()),
            other => self.on_refusal(now_ms, tag, &format!("a verdict; the answer was {other:?}")),
        }
    }

    /// The verdict on the transaction under `tag`, which the own copy contains if anything came of it.
    pub(crate) fn land(&mut self, now_ms: u64, tag: u64, verdict: &Verdict) {
        let Some(flight) = self.take_down(tag, !verdict.conflicts.is_empty()) else { return };
        for conflict in &verdict.conflicts {
            *self.counters.conflicts.entry(conflict.reason.name()).or_insert(0) += 1;
        }
        let fates = flight.fates(verdict);
        let is_news = flight.improvements != self.changes.improvements;
        for (job, fate) in flight.jobs.into_iter().zip(fates) {
            self.counters.tasks += fate.accepted_tasks;
            self.refresh(job.job);
            if fate.accepted_tasks > 0 {
                self.abroad.note_own(true, now_ms);
            }
            let (refused, of) = fate.refused();
            self.backlog.settle(job.fare, refused, of);
            match fate.conflict {
                Some(reason) => self.retry(now_ms, job.job, &fate, reason, verdict.refresh),
                None => {
                    self.counters.committed += 1;
                    self.attempts.remove(&job.job);
                    // What is lost and was not placed claims room first.
                    if let Some(rest) = job.rest.filter(|_| !is_news && !may_claim(self.follower.cell(), job.job)) {
                        self.park(now_ms, job.job, *rest);
                    }
                }
            }
        }
    }

    /// Lands everything that a server has judged: its entry will not be seen, or does not matter any more.
    pub(crate) fn land_judged(&mut self, now_ms: u64) {
        for (tag, verdict) in self.flights.orphan_judged() {
            self.land(now_ms, tag, &verdict);
        }
    }

    /// The transaction under `tag` was never judged, or nobody will ever say how: its jobs are planned again from the
    /// state.
    pub(crate) fn abandon(&mut self, tag: u64) {
        let Some(flight) = self.take_down(tag, true) else { return };
        for job in flight.jobs {
            self.refresh(job.job);
            self.backlog.settle(job.fare, 1, 1);
        }
    }

    /// The cell does not take transactions like this one; trying at once would not help.
    fn on_refusal(&mut self, now_ms: u64, tag: u64, refusal: &str) {
        let Some(flight) = self.take_down(tag, true) else { return };
        let due_ms = now_ms.saturating_add(self.config.collided_ms);
        for FlyingJob { job, fare, .. } in flight.jobs {
            self.refresh(job);
            self.backlog.settle(fare, 1, 1);
            let what = format!("the cell to take its plan: {refusal}");
            let note = Explanation::of_obstacle(job, self.follower.cell().applied(), 0, Obstacle::Waiting { what });
            self.backlog.wait_until(job, due_ms, note);
        }
    }

    /// Takes a transaction out of flight and gives back what it held: what was taken stands in the own copy by now, and
    /// what was `refused` is room again. Where the own copy jumped, what was taken may have been held too for a while
    /// and may have ended already, so that giving it back may make room as well.
    fn take_down(&mut self, tag: u64, refused: bool) -> Option<Flight> {
        let flight = self.flights.remove(tag)?;
        let better = refused || flight.is_orphan();
        self.holds.give_back(&flight.taken);
        for node in flight.taken.nodes() {
            self.changes.nodes.insert(node);
            if better {
                self.changes.improved.insert(node);
                self.changes.improvements += 1;
            }
        }
        if better {
            let jobs = flight.jobs.iter().filter_map(|job| self.follower.cell().jobs().get(job.job));
            let queues = jobs.map(|job| job.spec.queue.as_str()).filter(|queue| !queue.is_empty());
            self.changes.quota.extend(queues.map(|queue| Arc::from(self.follower.cell().quota().root(queue))));
        }
        self.changes.jobs.extend(flight.jobs.iter().map(|job| job.job));
        Some(flight)
    }

    /// A plan collided. The own copy knows better now, or will when it has reached `refresh`, so the job is planned
    /// again at once; only one that collides again and again waits a while. Whoever made progress starts counting anew.
    fn retry(&mut self, now_ms: u64, job: JobId, fate: &Fate, reason: ConflictReason, refresh: Index) {
        if !self.backlog.contains(job) {
            return;
        }
        let attempts = self.attempts.entry(job).or_insert(0);
        *attempts = if fate.accepted_tasks > 0 { 1 } else { *attempts + 1 };
        if *attempts <= self.config.retries {
            self.counters.retries += 1;
            if refresh > self.follower.cell().applied() {
                self.backlog.wait_for(job, refresh);
            }
            return;
        }
        let obstacle = Obstacle::Conflicts { attempts: *attempts, reason };
        self.attempts.remove(&job);
        self.counters.collided += 1;
        let note = Explanation::of_obstacle(job, self.follower.cell().applied(), 0, obstacle);
        self.backlog.wait_until(job, now_ms.saturating_add(self.config.collided_ms), note);
    }

    /// No place was found for `job`, nor for equal ones behind it, until something that might help changes. What one
    /// job waits for by itself says nothing about its equals: that one alone is looked at again when it changes.
    pub(crate) fn park(&mut self, now_ms: u64, job: JobId, explanation: Explanation) {
        if !self.backlog.contains(job) {
            return;
        }
        self.counters.unplaced += 1;
        if self.is_second_pass(job) {
            return self.postpone(now_ms, job, explanation);
        }
        if matches!(explanation.obstacle, Obstacle::Waiting { .. }) {
            return self.backlog.wait_for_change(job, now_ms.saturating_add(self.config.sweep_ms), explanation);
        }
        let blocker = blocker_of(self.follower.cell(), &explanation);
        if let (Blocker::Quota { root }, Obstacle::Quota { ceded: 1.., .. }) = (&blocker, &explanation.obstacle) {
            self.ceding.note(root, now_ms);
        }
        self.backlog.park(job, blocker, explanation);
    }
}
