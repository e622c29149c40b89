//! Ready timeouts in the plain model, from the promise: what is placed of a job and does not run in time is stopped
//! whole, and waits; it begins afresh when it is ready, resumed or updated, and in a queue without such a time.

use crate::state::{Alarm, Phase, Plain, PlainHold, State};
use crate::world::World;
use ohm_model::{JobId, QueueSpec, ReadyTimeout, StopCause};

/// What is known of the readiness of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlainReady {
    /// Since when something of it stands and not all of it runs.
    pub(crate) since_ms: Option<u64>,
    pub(crate) was_ready: bool,
    pub(crate) due_ms: Option<u64>,
    pub(crate) timeouts: u32,
    pub(crate) until_ms: Option<u64>,
}

impl PlainReady {
    /// With its first attempt again.
    pub(crate) fn afresh(self) -> Self {
        PlainReady { timeouts: 0, until_ms: None, ..self }
    }
}

impl Plain {
    fn ready_timeout(&self, id: JobId) -> Option<ReadyTimeout> {
        self.queues.get(&self.jobs[&id].spec.queue)?.ready_timeout.as_deref().copied()
    }

    /// Whether every group runs what it is to have.
    fn is_ready(&self, id: JobId) -> bool {
        let job = &self.jobs[&id];
        job.spec.groups.iter().zip(0u16..).all(|(spec, at)| {
            let of_group = self.runs.iter().filter(|run| run.job == id && run.group == at);
            let running = of_group.filter(|run| run.started_ms.is_some() && run.task < spec.count).count() as u32;
            let over = [Phase::Succeeded, Phase::Failed, Phase::Skipped].map(|phase| job.count(at, phase));
            running
                >= match spec.elastic || job.endless {
                    _ if !job.started[usize::from(at)] && job.count(at, Phase::Live) == 0 => 0,
                    true => job.needed(at),
                    false => spec.count - over.iter().sum::<u32>().min(spec.count),
                }
        })
    }

    fn ready_now(&self, id: JobId) -> PlainReady {
        let (job, timeout) = (&self.jobs[&id], self.ready_timeout(id));
        let mut ready = job.ready;
        if timeout.is_none() {
            (ready.timeouts, ready.until_ms) = (0, None);
        }
        let stands = self.runs.iter().any(|run| run.job == id && run.stop.is_none());
        if job.state != State::Active || job.spec.queue.is_empty() || !stands {
            let is_open = matches!(job.state, State::Active | State::Suspended);
            let until_ms = ready.until_ms.filter(|_| is_open);
            return PlainReady { timeouts: ready.timeouts, until_ms, ..PlainReady::default() };
        }
        if self.is_ready(id) {
            return PlainReady { was_ready: true, ..PlainReady::default() };
        }
        let since_ms = ready.since_ms.unwrap_or(self.now_ms);
        let seconds = |timeout: ReadyTimeout| match ready.was_ready {
            true => timeout.recovery_timeout_seconds,
            false => timeout.timeout_seconds,
        };
        ready.since_ms = Some(since_ms);
        ready.due_ms = timeout.map(|timeout| since_ms + seconds(timeout) * 1000);
        ready
    }

    /// Brings up to date since when each job is not ready.
    pub(crate) fn settle_ready(&mut self) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let (former, now) = (self.jobs[&id].ready, self.ready_now(id));
            self.jobs.get_mut(&id).expect("a job").ready = now;
            if let Some(due_ms) = now.due_ms.filter(|_| now.due_ms != former.due_ms) {
                self.alarm(due_ms, Alarm::Ready(id));
            }
        }
    }

    /// The job has its first attempt again.
    pub(crate) fn forget_timeouts(&mut self, id: JobId) {
        let ready = &mut self.jobs.get_mut(&id).expect("a job").ready;
        *ready = ready.afresh();
    }

    pub(crate) fn ready_due(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let now_ms = self.now_ms;
        job.ready.until_ms = job.ready.until_ms.filter(|until_ms| *until_ms > now_ms);
        let due_ms = job.ready.due_ms;
        let is_late = due_ms.is_some_and(|due_ms| due_ms <= now_ms) && self.ready_now(id).due_ms == due_ms;
        let Some(timeout) = self.ready_timeout(id).filter(|_| is_late) else { return };
        let (version, times) = (self.index, self.jobs[&id].ready.timeouts + 1);
        let job = self.jobs.get_mut(&id).expect("a job");
        job.release();
        job.drop_repair();
        (job.version, job.queued, job.ready.timeouts) = (version, version, times);
        self.end_head(id);
        self.clear_holds_of(id, PlainHold::is_preemptor);
        self.forget_kept_of(id);
        self.stop_job(id, StopCause::ReadyTimeout);
        self.timed_out += 1;
        let job = self.jobs.get_mut(&id).expect("a job");
        if timeout.backoff_limit.is_some_and(|limit| times > limit) {
            (job.state, job.ready.until_ms) = (State::Suspended, None);
            return;
        }
        let mut seconds = timeout.backoff_base_seconds;
        (1..times).for_each(|_| seconds *= 2);
        let until_ms = now_ms + seconds.min(timeout.backoff_max_seconds) * 1000;
        job.ready.until_ms = Some(until_ms);
        self.alarm(until_ms, Alarm::Ready(id));
    }
}

impl World {
    /// A queue that gives its jobs other times than before, or none.
    pub(crate) fn timed_queue(&mut self) -> Option<QueueSpec> {
        let queues: Vec<&QueueSpec> = self.plain.queues.values().filter(|queue| !queue.is_cohort).collect();
        let known = (*self.dice.pick(&queues)?).clone();
        let dice = &mut self.dice;
        let ready_timeout = (known.ready_timeout.is_none() || dice.chance(600)).then(|| ReadyTimeout {
            timeout_seconds: dice.between(1, 4),
            recovery_timeout_seconds: dice.between(1, 4),
            backoff_base_seconds: dice.between(1, 20),
            backoff_max_seconds: dice.between(1, 60),
            backoff_limit: dice.chance(400).then(|| dice.below(3) as u32),
        });
        Some(QueueSpec { ready_timeout: ready_timeout.map(Box::new), ..known })
    }
}
