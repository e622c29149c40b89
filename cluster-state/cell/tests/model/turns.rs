//! Who comes before whom in a queue, from the promise: what a job that waits to start needs is left to it by those that
//! come after it and are planned by others.

use crate::admission::Stand;
use crate::judge::Facts;
use crate::state::{Phase, Plain, PlainJob, State, request};
use crate::world::World;
use ohm_model::{Amounts, Command, JobId, QueueSpec};
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl Plain {
    /// What `id` leaves to others of its queue, when what `trial` has placed is charged already.
    pub(crate) fn ceded_by(&self, trial: &Plain, id: JobId, facts: &dyn Facts) -> Amounts {
        let mut ceded = Amounts::new();
        let own = &self.jobs[&id];
        let Some(holder) = facts.holder(own.shard) else { return ceded };
        let goes_first = own.reserved || !own.repair.lost.is_empty() || !own.moving.is_empty();
        let limits = self.queues.get(&own.spec.queue).is_some_and(|queue| !queue.nominal.is_empty());
        if goes_first || !limits || self.waits_to_start(own) && self.is_enough_for_all(trial, &own.spec.queue) {
            return ceded;
        }
        let turn = |id: JobId| (Reverse(self.jobs[&id].spec.priority), self.jobs[&id].queued, id);
        let is_before = |other: &&JobId| {
            let job = &self.jobs[*other];
            let foreign = facts.holder(job.shard).is_some_and(|other| other != holder);
            job.spec.queue == own.spec.queue && turn(**other) < turn(id) && foreign
        };
        let mut before: Vec<JobId> = self.jobs.keys().filter(is_before).copied().collect();
        before.sort_by_key(|id| turn(*id));
        for other in before {
            let patient = self.now_ms < self.patient_until_ms(other) || self.is_head(other);
            let Some(ask) = self.ask_of(other).filter(|_| patient) else { continue };
            let left = |name: &String| {
                let left = self.available(&own.spec.queue, name)?;
                Some(left - ceded.get(name).copied().unwrap_or(0))
            };
            if ask.iter().all(|(name, amount)| left(name).is_none_or(|left| left >= *amount)) {
                ask.into_iter().for_each(|(name, amount)| *ceded.entry(name).or_default() += amount);
            }
        }
        ceded
    }

    fn waits_to_start(&self, job: &PlainJob) -> bool {
        let idle = job.state == State::Active && !job.reserved && job.live() == 0 && job.admission.round.is_none();
        idle && job.tasks.values().any(|task| task.phase == Phase::Pending)
    }

    /// Whether the quota that `trial` leaves has all that the jobs which wait in the queue ask for.
    fn is_enough_for_all(&self, trial: &Plain, queue: &str) -> bool {
        let waits = |job: &&PlainJob| job.spec.queue == queue && self.waits_to_start(job);
        let mut asked: BTreeMap<String, i128> = BTreeMap::new();
        for group in self.jobs.values().filter(waits).flat_map(|job| &job.spec.groups) {
            for (name, amount) in request(group) {
                *asked.entry(name).or_default() += i128::from(amount) * i128::from(group.count + group.spares);
            }
        }
        asked.iter().all(|(name, asked)| trial.available(queue, name).is_none_or(|left| i128::from(left) >= *asked))
    }

    /// What a job that waits to start needs for that; nothing when it does not wait, or could not start.
    fn ask_of(&self, id: JobId) -> Option<Amounts> {
        let job = &self.jobs[&id];
        let stand = self.stand(id);
        if !self.waits_to_start(job) || !matches!(stand, Stand::Free | Stand::Unreserved) {
            return None;
        }
        let mut ask = Amounts::new();
        for (at, group) in job.spec.groups.iter().enumerate() {
            let needed = if stand == Stand::Unreserved { group.count } else { job.needed(at as u16) };
            if stand == Stand::Free && job.count(at as u16, Phase::Pending) < needed {
                if job.whole() {
                    return None;
                }
                continue;
            }
            let amounts = request(group).into_iter();
            amounts.for_each(|(name, amount)| *ask.entry(name).or_default() += amount * i64::from(needed));
        }
        Some(ask)
    }

    /// The job judged from here on is `id`.
    pub(crate) fn cede(&mut self, before: &Plain, id: JobId, facts: &dyn Facts) {
        self.ceded = if before.adopts { Amounts::new() } else { before.ceded_by(self, id, facts) };
        self.have_ceded += u64::from(!self.ceded.is_empty());
    }

    /// How much of `resource` is left to jobs before the one that is judged.
    pub(crate) fn ceded(&self, resource: &str) -> i64 {
        self.ceded.get(resource).copied().unwrap_or(0)
    }
}

impl World {
    /// Some histories begin with a queue that has little and no checks.
    pub(crate) fn busy_queue(seed: u64) -> Option<Command> {
        let queue =
            QueueSpec { name: "q0".into(), nominal: [("cpu".to_string(), 5_000)].into(), ..QueueSpec::default() };
        seed.is_multiple_of(3).then_some(Command::PutQueue(queue))
    }
}
