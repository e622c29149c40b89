//! Preemptions under way: who waits for whom to stop. See `policy/preemptions.rs`.

use crate::state::jobs::Job;
use ohm_model::{Index, JobId, PreemptionNeed, RunRef};
use ohm_stdx::bug::{self, Bug};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So long a job waits after others stopped for it in vain once; twice as long each time.
const BACK_OFF_MS: u64 = 1_000;
/// No longer than this.
pub(crate) const BACK_OFF_MAX_MS: u64 = 60_000;

/// Jobs were told to stop, whole or in part, for one that lacks what they have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// What it lacks.
    pub need: PreemptionNeed,
    /// For how many tasks of each group that is; for all that wait where nothing is said.
    pub wanted: Vec<u32>,
    /// The entry that told them.
    pub since: Index,
    /// What they give back is kept until then at most, in stamped time.
    pub until_ms: u64,
    /// The version of the job that waits: with another one it is not the job that they were told for.
    pub version: Index,
    /// Who was told, and which of its runs; all of them where none is named. One that has ended and stands again holds
    /// its quota by itself.
    pub victims: BTreeMap<JobId, Vec<RunRef>>,
}

/// A job, or the part of one, that stops.
#[derive(Clone, Copy, Debug)]
pub struct Stopping<'a> {
    /// The job.
    pub job: &'a Job,
    /// Those of its runs that stop; all of it where there are none.
    pub runs: &'a [RunRef],
}

impl<'a> Stopping<'a> {
    /// All of `job`.
    pub fn whole(job: &'a Job) -> Self {
        Stopping { job, runs: &[] }
    }

    /// This one of its runs.
    pub(crate) fn only(self, run: &'a RunRef) -> Self {
        Stopping { runs: std::slice::from_ref(run), ..self }
    }

    /// Whether all of it stops.
    pub(crate) fn is_whole(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Others stopped for a job that did not get what they gave back: it waits before it stops others again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InVain {
    /// How often in a row.
    pub times: u32,
    /// It stops nobody before, in stamped time.
    pub until_ms: u64,
}

/// The preemptions of a cell by the job that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Preemptions {
    by_job: ByJob,
    /// For how many jobs each victim stops.
    victims: BTreeMap<JobId, StopsFor>,
    /// By a job that has what others gave back for it, or waits for that: those others, and whether it was in return,
    /// since it had been stopped for them before.
    taken_from: TakenFrom,
    /// By a job that waits: for which others stopped in vain.
    in_vain: BTreeMap<JobId, InVain>,
}

type ByJob = BTreeMap<JobId, Preemption>;
type TakenFrom = BTreeMap<JobId, BTreeMap<JobId, bool>>;
type Stored = (ByJob, TakenFrom, BTreeMap<JobId, InVain>);

/// For how many jobs a victim stops whole, and for how many in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StopsFor {
    whole: u32,
    in_part: u32,
}

impl From<Stored> for Preemptions {
    fn from((by_job, taken_from, in_vain): Stored) -> Self {
        let mut preemptions = Preemptions { taken_from, in_vain, ..Preemptions::default() };
        by_job.into_iter().for_each(|(job, preemption)| preemptions.put(job, preemption));
        preemptions
    }
}

impl From<Preemptions> for Stored {
    fn from(preemptions: Preemptions) -> Self {
        (preemptions.by_job, preemptions.taken_from, preemptions.in_vain)
    }
}

impl Preemptions {
    /// What the job waits for.
    pub fn get(&self, job: JobId) -> Option<&Preemption> {
        self.by_job.get(&job)
    }

    /// All of them, by the job that waits.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (JobId, &Preemption)> {
        self.by_job.iter().map(|(job, preemption)| (*job, preemption))
    }

    /// Whether anybody waits for this job to stop.
    pub(crate) fn stops(&self, job: JobId) -> bool {
        self.victims.contains_key(&job)
    }

    /// Whether anybody waits for all of this job to stop: what stands of it again stops for nobody meanwhile.
    pub fn stops_whole(&self, job: JobId) -> bool {
        self.victims.get(&job).is_some_and(|known| known.whole > 0)
    }

    /// Whether anybody waits for parts of this job to stop.
    pub fn stops_in_part(&self, job: JobId) -> bool {
        self.victims.get(&job).is_some_and(|known| known.in_part > 0)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }

    /// Whether `job` was stopped in return for `other`, which it had stopped before, and which has what it got by that.
    pub(crate) fn has_returned(&self, job: JobId, other: JobId) -> bool {
        self.taken_from.get(&other).and_then(|from| from.get(&job)).copied().unwrap_or(false)
    }

    /// Whether nothing is known of who was stopped for whom.
    pub(crate) fn knows_nobody(&self) -> bool {
        self.taken_from.is_empty() && self.in_vain.is_empty()
    }

    /// How often others stopped in vain for the job since it had what it needs, and until when it stops nobody.
    pub fn in_vain(&self, job: JobId) -> Option<&InVain> {
        self.in_vain.get(&job)
    }

    /// Whether the job waits before it stops others again.
    pub fn backs_off(&self, job: JobId, now_ms: u64) -> bool {
        self.in_vain.get(&job).is_some_and(|known| now_ms < known.until_ms) && !bug::is_planted(Bug::PreemptAtOnce)
    }

    /// All jobs for which others stopped in vain.
    pub(crate) fn all_in_vain(&self) -> impl Iterator<Item = (JobId, &InVain)> {
        self.in_vain.iter().map(|(job, known)| (*job, known))
    }

    /// Others stopped for the job once more in vain; it waits twice as long as the last time, in all no longer than
    /// [`BACK_OFF_MAX_MS`]. Returns until when.
    pub(crate) fn note_in_vain(&mut self, job: JobId, now_ms: u64) -> u64 {
        let known = self.in_vain.entry(job).or_insert(InVain { times: 0, until_ms: 0 });
        known.times = known.times.saturating_add(1);
        let back_off_ms = (BACK_OFF_MS << (known.times - 1).min(20)).min(BACK_OFF_MAX_MS);
        known.until_ms = now_ms.saturating_add(back_off_ms);
        known.until_ms
    }

    /// The job has what it needs, or needs it no more.
    pub(crate) fn forget_in_vain(&mut self, job: JobId) {
        self.in_vain.remove(&job);
    }

    /// Whether the job has something that others gave back, or waits for that.
    pub(crate) fn has_taken(&self, job: JobId) -> bool {
        self.taken_from.contains_key(&job)
    }

    /// Takes note that `victim` is stopped for `job`. What it had got from others it has no more, if it is stopped
    /// whole.
    pub(crate) fn take_from(&mut self, job: JobId, victim: JobId, is_whole: bool) {
        let in_return = self.taken_from.get(&victim).is_some_and(|from| from.contains_key(&job));
        if is_whole {
            self.taken_from.remove(&victim);
        }
        *self.taken_from.entry(job).or_default().entry(victim).or_default() |= in_return;
    }

    /// What `job` had got from others it has no more.
    pub(crate) fn forget_taken(&mut self, job: JobId) {
        self.taken_from.remove(&job);
    }

    /// The job is another one from now on.
    pub(crate) fn forget_turns_of(&mut self, job: JobId) {
        self.taken_from.remove(&job);
        self.in_vain.remove(&job);
        self.taken_from.values_mut().for_each(|from| _ = from.remove(&job));
        self.taken_from.retain(|_, from| !from.is_empty());
    }

    /// Other rules hold from now on.
    pub(crate) fn forget_turns(&mut self) {
        self.taken_from.clear();
    }

    /// Who has something from others, or waits for it.
    pub(crate) fn takers(&self) -> impl Iterator<Item = JobId> {
        self.taken_from.keys().copied()
    }

    pub(crate) fn put(&mut self, job: JobId, preemption: Preemption) {
        self.remove(job);
        for (victim, runs) in &preemption.victims {
            *count(self.victims.entry(*victim).or_default(), runs) += 1;
        }
        self.by_job.insert(job, preemption);
    }

    pub(crate) fn remove(&mut self, job: JobId) -> Option<Preemption> {
        let preemption = self.by_job.remove(&job)?;
        for (victim, runs) in &preemption.victims {
            if let Some(known) = self.victims.get_mut(victim) {
                *count(known, runs) -= 1;
                if *known == StopsFor::default() {
                    self.victims.remove(victim);
                }
            }
        }
        Some(preemption)
    }
}

/// The number that a victim counts in of which these runs stop: all of it where none is named.
fn count<'a>(known: &'a mut StopsFor, runs: &[RunRef]) -> &'a mut u32 {
    if runs.is_empty() { &mut known.whole } else { &mut known.in_part }
}
