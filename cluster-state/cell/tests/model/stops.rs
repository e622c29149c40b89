//! Held queues in the plain model, from the promise: nothing of them starts or grows, what runs goes on.

use crate::state::{Phase, Plain, State};
use crate::world::World;
use ohm_model::{ConflictReason, JobId, QueueSpec, StopCause, StopPolicy};

impl Plain {
    fn stop_policy(&self, id: JobId) -> StopPolicy {
        let queue = self.queues.get(&self.jobs[&id].spec.queue);
        queue.map_or(StopPolicy::None, |queue| queue.stop_policy)
    }

    fn stands(&self, id: JobId) -> bool {
        self.runs.iter().any(|run| run.job == id && run.stop.is_none())
    }

    /// Whether the queue keeps this task from being placed.
    pub(crate) fn keeps_back(&self, id: JobId, place: (u16, u32)) -> bool {
        let job = &self.jobs[&id];
        let stood = || self.stands(id) && job.tasks.get(&place).is_some_and(|task| task.stood);
        self.stop_policy(id) != StopPolicy::None && !job.reserved && !job.moving.contains(&place) && !stood()
    }

    /// The policy that keeps all of the job that waits from being placed.
    pub(crate) fn held(&self, id: JobId) -> Option<StopPolicy> {
        let (job, policy) = (&self.jobs[&id], self.stop_policy(id));
        if policy == StopPolicy::None || job.reserved || job.state != State::Active {
            return None;
        }
        let mut waiting = job.tasks.iter().filter(|(_, task)| task.phase == Phase::Pending).peekable();
        let is_whole = self.stands(id) && waiting.peek().is_none();
        (!is_whole && waiting.all(|(place, _)| self.keeps_back(id, *place))).then_some(policy)
    }

    pub(crate) fn judge_not_held(&self, id: JobId) -> Result<(), ConflictReason> {
        self.held(id).map_or(Ok(()), |_| Err(ConflictReason::QueueHeld))?;
        self.jobs[&id].ready.until_ms.map_or(Ok(()), |until_ms| Err(ConflictReason::BacksOff(until_ms)))
    }

    pub(crate) fn judge_more_spares(&self, id: JobId) -> Result<(), ConflictReason> {
        if self.stop_policy(id) == StopPolicy::None { Ok(()) } else { Err(ConflictReason::QueueHeld) }
    }

    /// What a queue that was put takes from its jobs, if it has another policy than before.
    pub(crate) fn stop_queue(&mut self, spec: &QueueSpec, former: StopPolicy) {
        if spec.stop_policy == StopPolicy::None || spec.stop_policy == former {
            return;
        }
        let of_queue = |id: &JobId| self.jobs[id].spec.queue == spec.name && self.jobs[id].state == State::Active;
        for id in self.jobs.keys().copied().filter(of_queue).collect::<Vec<_>>() {
            let kept = self.kept.iter().any(|kept| kept.run.job == id);
            let lives = self.stands(id) || !self.jobs[&id].moving.is_empty() || kept;
            if lives && spec.stop_policy == StopPolicy::Hold {
                continue;
            }
            let version = self.index;
            let job = self.jobs.get_mut(&id).expect("a job");
            if lives || job.reserved {
                job.version = version;
            }
            job.release();
            self.end_head(id);
            self.clear_holds_of(id, crate::state::PlainHold::is_preemptor);
            if lives {
                self.jobs.get_mut(&id).expect("a job").drop_repair();
                self.forget_kept_of(id);
                self.stop_job(id, StopCause::QueueHeld);
                self.stopped += 1;
            }
        }
    }
}

impl World {
    /// A queue under another policy, of which something stands if there is one; one that is held mostly ends so.
    pub(crate) fn held_queue(&mut self) -> Option<QueueSpec> {
        let of_queues = |queue: &&QueueSpec| !queue.is_cohort;
        let stands = |queue: &&QueueSpec| {
            let mut jobs = self.plain.jobs.iter().filter(|(_, job)| job.spec.queue == queue.name);
            queue.stop_policy != StopPolicy::None || jobs.any(|(id, _)| self.plain.stands(*id))
        };
        let all: Vec<&QueueSpec> = self.plain.queues.values().filter(of_queues).collect();
        let standing: Vec<&QueueSpec> = all.iter().copied().filter(stands).collect();
        let known = self.dice.pick(if standing.is_empty() { &all } else { &standing })?;
        let known = (*known).clone();
        let policies = match known.stop_policy {
            StopPolicy::None => [StopPolicy::Hold, StopPolicy::HoldAndDrain],
            _ => [StopPolicy::None, StopPolicy::HoldAndDrain],
        };
        Some(QueueSpec { stop_policy: policies[self.dice.below(2) as usize], ..known })
    }
}
