//! P7 for time: what ends or forgets a job when its time is over lets that time really pass, whatever somebody sets the
//! clock of a server to. The time of the cell may go a tenth faster than real time while it closes in on a clock.

use crate::facts::{Fact, Taken};
use crate::history::Broken;
use ohm_model::{Command, EventKind, Index, JobId};
use std::collections::BTreeMap;

/// The least part of a time that must really have passed, in hundredths.
const PERCENT: u64 = 90;
/// What clocks that drift may add up to.
const DRIFT_MS: u64 = 1_500;

/// How long a job has been in the cell, and what it asks for.
struct Job {
    name: String,
    submitted_ms: u64,
    deadline_ms: u64,
    start_ms: u64,
    kept_ms: u64,
}

/// The jobs of the cell.
#[derive(Default)]
pub(crate) struct RealTime {
    jobs: BTreeMap<JobId, Job>,
    /// When entries were stamped, by their stamps: some are long on their way into the log.
    stamped_ms: BTreeMap<u64, u64>,
    /// A majority of the clocks was moved, or the operator said that one is right: time may jump.
    excused: bool,
}

impl RealTime {
    /// Time may move forward from here on.
    pub(crate) fn clocks_moved(&mut self) {
        self.excused = true;
    }

    /// An entry was stamped at `at_ms`, in real time.
    pub(crate) fn stamped(&mut self, at_ms: u64, stamp_ms: u64) {
        self.stamped_ms.entry(stamp_ms).or_insert(at_ms);
    }

    /// Judges what happened in an entry with this stamp that was first applied at `at_ms`, in real time. What it brings
    /// came when it was stamped.
    pub(crate) fn entry(
        &mut self,
        (index, at_ms, stamp_ms): (Index, u64, u64),
        taken: &[Taken<'_>],
        facts: &[Fact<'_>],
        broken: &mut Vec<Broken>,
    ) {
        let submitted_ms = self.stamped_ms.get(&stamp_ms).map_or(at_ms, |stamped_ms| at_ms.min(*stamped_ms));
        for fact in facts {
            match fact {
                Fact::Submitted { job, spec, .. } => {
                    let [deadline_ms, start_ms, kept_ms] = times(spec);
                    let name = spec.name.clone();
                    self.jobs.insert(*job, Job { name, submitted_ms, deadline_ms, start_ms, kept_ms });
                }
                Fact::Updated { job, spec, .. } => {
                    if let Some(known) = self.jobs.get_mut(job) {
                        [known.deadline_ms, known.start_ms, known.kept_ms] = times(spec);
                    }
                }
                Fact::Happened { kind: EventKind::JobState { job, state, reason, .. }, .. }
                    if state == "failed" && reason.contains("activeDeadlineSeconds") =>
                {
                    self.judge(index, at_ms, *job, "ended by its deadline", |job| job.deadline_ms, broken);
                }
                Fact::Happened { kind: EventKind::JobState { job, state, reason, .. }, .. }
                    if state == "failed" && reason.contains("pendingTimeoutSeconds") =>
                {
                    self.judge(index, at_ms, *job, "ended by its start deadline", |job| job.start_ms, broken);
                }
                Fact::Happened { kind: EventKind::JobForgotten { name }, .. } => {
                    let known = self.jobs.iter().find(|(_, job)| job.name == *name).map(|(job, _)| *job);
                    let asked = taken
                        .iter()
                        .any(|(command, _)| matches!(command, Command::ForgetJob { name: asked, .. } if asked == name));
                    if let Some(job) = known {
                        if !asked {
                            self.judge(index, at_ms, job, "forgotten", |job| job.kept_ms, broken);
                        }
                        self.jobs.remove(&job);
                    }
                }
                _ => {}
            }
        }
    }

    fn judge(
        &self,
        index: Index,
        at_ms: u64,
        job: JobId,
        what: &str,
        least_ms: fn(&Job) -> u64,
        broken: &mut Vec<Broken>,
    ) {
        let Some(known) = self.jobs.get(&job).filter(|_| !self.excused) else { return };
        let (in_cell_ms, least_ms) = (at_ms.saturating_sub(known.submitted_ms), least_ms(known));
        if in_cell_ms + DRIFT_MS < least_ms / 100 * PERCENT {
            let name = &known.name;
            let what = format!("entry {index}: job {name} is {what} {in_cell_ms} ms after it came, not {least_ms} ms");
            broken.push(Broken::new("P7", what));
        }
    }
}

/// How long the job may run, and wait to start, and how long it is kept.
fn times(spec: &ohm_model::JobSpec) -> [u64; 3] {
    let seconds = [spec.active_deadline_seconds, spec.pending_timeout_seconds, spec.ttl_seconds_after_finished];
    seconds.map(|seconds| seconds.saturating_mul(1000))
}
