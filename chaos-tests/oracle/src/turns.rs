//! Who comes before whom in a queue, and who plans them: the order from submissions, the holders of shards from the
//! leases that were taken.

use crate::books::Books;
use crate::claims::Claims;
use crate::facts::{Fact, Taken};
use crate::waiting::Waiting;
use ohm_model::profile::HEAD_PATIENCE_SECONDS;
use ohm_model::{Class, Command, EventKind, Index, JobId, JobSpec, Lease, Outcome, SessionId, Shard};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The place of a job among those of its line: by priority, then by age.
pub(crate) type Turn = (Reverse<i32>, Index, JobId);

/// The books.
#[derive(Default)]
pub(crate) struct Turns {
    holders: BTreeMap<Shard, SessionId>,
    patience_ms: BTreeMap<Class, u64>,
    /// The entry by which a job queues: that which submitted it, or stopped it last because it was not ready in time.
    queued: BTreeMap<JobId, Index>,
    /// When a job was submitted, or something of it ended last.
    since_ms: BTreeMap<JobId, u64>,
    /// Whether the entry at hand changes who plans what, or for how long jobs are patient.
    pub(crate) is_changing: bool,
}

impl Turns {
    /// Takes note of the commands of an entry.
    pub(crate) fn entry_begins(&mut self, taken: &[(SessionId, Taken<'_>)]) {
        self.is_changing = false;
        taken.iter().for_each(|(session, (command, outcome))| self.note_command(*session, command, outcome));
    }

    fn note_command(&mut self, session: SessionId, command: &Command, outcome: &Outcome) {
        let changes = match (command, outcome) {
            (Command::TakeLease { lease: Lease::Shard(shard), .. }, Outcome::Lease(_)) => {
                self.holders.insert(*shard, session) != Some(session)
            }
            (Command::ReleaseLease { lease: Lease::Shard(shard), .. }, Outcome::Done) => {
                let holds = self.holders.get(shard) == Some(&session);
                holds && self.holders.remove(shard).is_some()
            }
            (Command::CloseSession, _) => {
                self.holders.retain(|_, holder| *holder != session);
                true
            }
            (Command::PutSchedulingProfile(profile), Outcome::Done) => {
                self.patience_ms.insert(profile.class, u64::from(profile.head_patience_seconds) * 1000);
                true
            }
            (Command::RemoveSchedulingProfile { name }, Outcome::Done) => {
                self.patience_ms.retain(|class, _| class.to_string() != *name);
                true
            }
            _ => false,
        };
        self.is_changing |= changes;
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, (index, now_ms): (Index, u64), fact: &Fact<'_>) {
        match *fact {
            Fact::Submitted { job, .. } => {
                self.queued.insert(job, index);
                self.since_ms.insert(job, now_ms);
            }
            Fact::Happened { kind: EventKind::ReadyTimeout(late), .. } => {
                self.queued.insert(late.job, index);
            }
            Fact::Happened { kind: EventKind::Ended { job, .. }, .. } => {
                self.since_ms.insert(*job, now_ms);
            }
            _ => {}
        }
    }

    /// The turn of a job.
    pub(crate) fn of(&self, job: JobId, spec: &JobSpec) -> Turn {
        (Reverse(spec.priority), self.queued.get(&job).copied().unwrap_or_default(), job)
    }

    /// Whether the two are planned by different schedulers.
    pub(crate) fn are_apart(&self, one: &JobSpec, other: &JobSpec) -> bool {
        let holder = |spec: &JobSpec| self.holders.get(&Shard::of(spec.class, &spec.name));
        matches!((holder(one), holder(other)), (Some(one), Some(other)) if one != other)
    }

    /// For how long jobs of a class wait before they may be heads.
    pub(crate) fn patience_ms(&self, class: Class) -> u64 {
        self.patience_ms.get(&class).copied().unwrap_or(u64::from(HEAD_PATIENCE_SECONDS) * 1000)
    }

    /// Until when a job waits for its turn, if it is no head.
    pub(crate) fn patient_until_ms(&self, job: JobId, spec: &JobSpec) -> u64 {
        let patience_ms = self.patience_ms(spec.class);
        self.since_ms.get(&job).map_or(0, |since_ms| since_ms.saturating_add(patience_ms))
    }

    /// Whether quota may be left to a job that comes before `job` in its queue; any may where what their parts have
    /// used says who does.
    pub(crate) fn may_cede(
        &self,
        (job, spec, by_usage): (JobId, &JobSpec, bool),
        (books, waiting, claims): (&Books, &Waiting, &Claims),
    ) -> bool {
        let comes_before = |other: JobId| {
            let Some(found) = books.jobs.get(&other).filter(|found| found.queue == spec.queue) else { return false };
            let patient = waiting.now_ms < self.patient_until_ms(other, found);
            (patient || claims.heads().any(|head| head == other))
                && (by_usage || self.of(other, found) < self.of(job, spec))
                && self.are_apart(found, spec)
                && books.live_of(other).next().is_none()
        };
        waiting.active().any(|(other, _)| comes_before(other))
    }
}
