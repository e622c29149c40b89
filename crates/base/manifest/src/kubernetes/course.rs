//! How a Job of Kubernetes that is to run here goes: what has to succeed, how often that is tried, and when it is over.
//!
//! A job here has all of its tasks at once, each with retries of its own, and fails with the first task that fails for
//! good. What a Job says is honoured where that is the same, and refused by its field where it is not.

use super::env::Numbers;
use super::task::only;
use crate::decode::{At, Context, Fields};
use crate::limits::COUNT_RANGE;
use ohm_model::JobSpec;
use ohm_model::job::TTL_SECONDS_DEFAULT;

/// How often a pod may fail where a Job does not say it.
const RETRIES: u32 = 6;

/// What a Job says of its course.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Course {
    retries: u32,
    deadline_seconds: u64,
    ttl_seconds: Option<u64>,
    is_suspended: bool,
}

impl Course {
    /// What `job` says, which has `count` pods.
    pub(super) fn read(cx: &mut Context, job: &Fields<'_>, count: u32) -> Self {
        Course { retries: retries(cx, job, count), deadline_seconds: deadline(cx, job), ..Course::of_whole(cx, job) }
    }

    /// What a JobSet says for all of its jobs, of which each has said this.
    pub(super) fn read_set(cx: &mut Context, set: &Fields<'_>, of_jobs: &[Course]) -> Self {
        only(cx, set, "failurePolicy", ("maxRestarts", "0"), "a job is not started anew as a whole");
        only(cx, set, "startupPolicy", ("startupPolicyOrder", "AnyOrder"), "all groups of a job start together");
        only(cx, set, "successPolicy", ("operator", "All"), "a job has succeeded when all of its tasks have");
        let peers = "tasks have no names in DNS and find each other by `OHM_PEERS_FILE`";
        only(cx, set, "network", ("enableDNSHostnames", "false"), peers);
        let Course { retries, deadline_seconds, .. } = of_jobs.first().copied().unwrap_or_default();
        Course { retries, deadline_seconds, ..Course::of_whole(cx, set) }
    }

    /// What belongs to the whole, be it a Job or a JobSet.
    fn of_whole(cx: &mut Context, whole: &Fields<'_>) -> Self {
        let ttl_seconds = whole.whole(cx, "ttlSecondsAfterFinished", 0..=i64::MAX);
        let is_suspended = whole.boolean(cx, "suspend").unwrap_or(false);
        Course { ttl_seconds, is_suspended, ..Course::default() }
    }

    /// Refuses what the job at `at` of a JobSet says otherwise than the `first` of them, or for itself alone.
    pub(super) fn check_part(&self, cx: &mut Context, at: At<'_>, first: Option<&Course>) {
        let one = "a JobSet is one job";
        if self.ttl_seconds.is_some() || self.is_suspended {
            at.rule(cx, format!("{one}; write `ttlSecondsAfterFinished` and `suspend` beside `replicatedJobs`"));
        }
        if first.is_some_and(|first| first.retries != self.retries) {
            at.rule(cx, format!("{one} and tries each task equally often; write the same `backoffLimit` for all"));
        }
        if first.is_some_and(|first| first.deadline_seconds != self.deadline_seconds) {
            at.rule(cx, format!("{one} with one end; write the same `activeDeadlineSeconds` for all"));
        }
    }

    /// `job` with this course. Kueue suspends all that it is to admit: in a queue it says nothing that a job is
    /// suspended.
    pub(super) fn of(self, job: JobSpec) -> JobSpec {
        JobSpec {
            retries: self.retries,
            active_deadline_seconds: self.deadline_seconds,
            ttl_seconds_after_finished: self.ttl_seconds.unwrap_or(TTL_SECONDS_DEFAULT),
            suspended: self.is_suspended && job.queue.is_empty(),
            ..job
        }
    }
}

fn deadline(cx: &mut Context, job: &Fields<'_>) -> u64 {
    job.whole(cx, "activeDeadlineSeconds", 1..=i64::MAX).unwrap_or(0)
}

/// How often each task may fail. What counts failures of all pods together is the same where there is one pod, or where
/// none may fail.
fn retries(cx: &mut Context, job: &Fields<'_>, count: u32) -> u32 {
    let bound = || 0..=i64::from(u32::MAX);
    let (all, each) = (job.get("backoffLimit"), job.get("backoffLimitPerIndex"));
    let failed = job.get("maxFailedIndexes");
    let may_fail = failed.and_then(|at| at.whole::<u32>(cx, bound()));
    if let Some(at) = failed
        && (may_fail.is_some_and(|number| number > 0) || each.is_none())
    {
        let only = "only `0` beside `backoffLimitPerIndex` can be had";
        at.rule(cx, format!("a job fails with the first task that fails for good; {only}"));
    }
    if let Some(at) = each {
        if may_fail.is_none() && failed.is_none() && count > 1 {
            at.rule(cx, "lets the others go on when one has failed for good; write `maxFailedIndexes: 0`, too");
        }
        if let Some(all) = all {
            all.rule(cx, "is given beside `backoffLimitPerIndex`; keep that one");
        }
        return at.whole(cx, bound()).unwrap_or(0);
    }
    let Some(at) = all else { return RETRIES };
    let retries = at.whole(cx, bound()).unwrap_or(0);
    if retries > 0 && count > 1 {
        let instead = "write `completionMode: Indexed`, `backoffLimitPerIndex` and `maxFailedIndexes: 0`, or 0 here";
        at.rule(cx, format!("counts the failures of all pods together, and here each task has its own; {instead}"));
    }
    retries
}

/// How many pods a Job that runs here has, all of which must succeed.
pub(super) fn count(cx: &mut Context, job: &Fields<'_>) -> u32 {
    let at = |name| job.get(name);
    let (completions, parallelism) = (at("completions"), at("parallelism"));
    let mut number = |at: Option<At<'_>>, zero: &str| {
        let at = at?;
        let number: u32 = at.whole(cx, 0..=*COUNT_RANGE.end())?;
        if number == 0 {
            at.rule(cx, zero);
        }
        Some(number.max(1))
    };
    let wanted = number(completions, "is 0, with which there is nothing to run; leave the whole object out");
    let most = number(parallelism, "is 0, with which nothing starts; write `suspend: true`").unwrap_or(1);
    match (completions, wanted) {
        (Some(at), Some(wanted)) if wanted > most => {
            let instead = format!("write `parallelism: {wanted}`");
            at.rule(cx, format!("is more than `parallelism`, and all tasks of a job may run at once; {instead}"));
        }
        (None, _) if most > 1 => {
            if let Some(at) = parallelism {
                let until = "without `completions` such a job is over once one pod has succeeded, and here all have to";
                at.rule(cx, format!("{until}; write `completions: {most}`, too"));
            }
        }
        _ => {}
    }
    if completions.is_none() { most } else { wanted.unwrap_or(1) }
}

/// Whether the pods of a Job are told their indices. Those of a JobSet are unless it says otherwise; several equal jobs
/// of one are one group, whose ranks go on from one job to the next.
pub(super) fn numbers(cx: &mut Context, job: &Fields<'_>, replicas: Option<u32>) -> Numbers {
    const MODES: [(&str, Numbers); 2] = [("NonIndexed", Numbers::None), ("Indexed", Numbers::Completions)];
    let default = if replicas == Some(1) { Numbers::Completions } else { Numbers::None };
    let Some(at) = job.get("completionMode") else { return default };
    let numbers = at.choice(cx, &MODES).unwrap_or(default);
    if numbers == Numbers::Completions && replicas.is_some_and(|replicas| replicas > 1) {
        at.rule(cx, "numbers the pods of each job from 0, and `replicas` jobs are one group here; write `NonIndexed`");
    }
    numbers
}
