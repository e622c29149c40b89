//! What a job was made of before, and the begin and the end of a rollout.

use crate::apply::Tx;
use crate::apply::steps::aims::{Aim, aim_groups, forget_failures, hold_tasks, tell_rollout};
use crate::apply::steps::kept::forget_kept_where;
use crate::state::jobs::{Job, TaskState};
use crate::state::rollouts::{Former, GroupRollout, Revision, RevisionState, Rollout, Rollouts};
use ohm_model::{GroupSpec, JobId, JobSpec, REVISIONS_MAX, RolloutStep};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `declared` is asked for from now on, `by` somebody, or by the cell because the one before did not come up. The
/// rollout goes on from where the one before it is.
pub(crate) fn begin_rollout(tx: &mut Tx<'_>, id: JobId, declared: JobSpec, by: &str, reverts: bool) {
    let job = Arc::clone(tx.job(id));
    let mut rollouts = job.rollouts.as_deref().cloned().unwrap_or_else(|| first_revision(&job));
    let targets = targets(&job, &rollouts, &declared);
    let is_proven = rollouts.history.iter().any(|revision| revision.groups == targets && revision.proven);
    let declared = Arc::new(declared);
    let number = note_revision(&mut rollouts, &targets, Arc::clone(&declared), (by, tx.now_ms));
    let groups = targets.iter().enumerate().map(|(at, target)| GroupRollout {
        target: *target,
        restore: to_restore(&job, (at, *target), tx.now_ms),
        best: (0, 0, u32::MAX),
    });
    // One that was complete once needs no canaries.
    let needs_canaries = declared.strategy().canary > 0 && !reverts && !is_proven && job.live() > 0;
    rollouts.open = Some(Rollout {
        number,
        since_ms: tx.now_ms,
        progress_ms: tx.now_ms,
        promoted: !needs_canaries,
        waits: false,
        stalled: false,
        reverts,
        due_ms: 0,
        groups: groups.collect(),
        declared,
    });
    forget_revisions(tx, &job, &mut rollouts);
    tx.job_mut(id).rollouts = Some(Box::new(rollouts));
    tx.touch_job(id);
    for (at, target) in targets.into_iter().enumerate() {
        begin_anew(tx, &job, at, target);
    }
    tell_rollout(tx, id, RolloutStep::Started);
}

/// What waits of a group and is made of something else from now on has not failed as that.
fn begin_anew(tx: &mut Tx<'_>, known: &Job, at: usize, target: u32) {
    let former = known.rollout().map_or(known.groups[at].revision, |rollout| rollout.groups[at].target);
    if former != target {
        let job = Arc::clone(tx.job(known.id));
        let restore = job.rollout().map(|rollout| &rollout.groups[at].restore);
        forget_failures(tx, (known.id, at), |task| restore.is_none_or(|restore| !restore.contains_key(&task)));
    }
}

/// What the job is made of before it is changed for the first time.
fn first_revision(job: &Job) -> Rollouts {
    let groups: Vec<u32> = job.groups.iter().map(|group| group.revision).collect();
    let first = Revision {
        number: job.revision(),
        groups,
        spec: Arc::clone(&job.spec),
        since_ms: job.submitted_ms,
        owner: Arc::clone(&job.owner),
        state: RevisionState::Complete,
        proven: true,
    };
    Rollouts { history: vec![first], open: None }
}

/// By group: the revision in which its tasks were first made of what `declared` asks for.
fn targets(job: &Job, rollouts: &Rollouts, declared: &JobSpec) -> Vec<u32> {
    let next = next_revision(job, rollouts);
    let target = |(at, wanted): (usize, &GroupSpec)| {
        let mut known = rollouts.history.iter().rev();
        let known = known.find(|revision| revision.spec.groups.get(at).is_some_and(|spec| spec.is_made_as(wanted)));
        known.and_then(|revision| revision.groups.get(at)).copied().unwrap_or(next)
    };
    declared.groups.iter().enumerate().map(target).collect()
}

/// A number that no revision of the job and of its groups has.
pub(crate) fn next_revision(job: &Job, rollouts: &Rollouts) -> u32 {
    let known = rollouts.history.iter().flat_map(|revision| revision.groups.iter().copied().chain([revision.number]));
    known.chain(job.groups.iter().map(|group| group.revision)).max().unwrap_or(0).saturating_add(1)
}

/// Makes the revision with these groups the present one. Returns its number: that which it had before, if it had one.
fn note_revision(rollouts: &mut Rollouts, groups: &[u32], spec: Arc<JobSpec>, (by, now_ms): (&str, u64)) -> u32 {
    if let Some(last) = rollouts.history.last_mut().filter(|last| last.state == RevisionState::Rolling) {
        last.state = RevisionState::Left;
    }
    let highest = rollouts.history.iter().map(|revision| revision.number).max().unwrap_or(0);
    let newest = groups.iter().copied().max().unwrap_or(0).max(highest + 1);
    let known = rollouts.history.iter().position(|revision| revision.groups == groups);
    let known = known.map(|at| rollouts.history.remove(at));
    let number = known.as_ref().map_or(newest, |known| known.number);
    rollouts.history.push(Revision {
        number,
        groups: groups.to_vec(),
        spec,
        since_ms: now_ms,
        owner: by.into(),
        state: RevisionState::Rolling,
        proven: known.is_some_and(|known| known.proven),
    });
    number
}

/// The tasks of group `at` that wait and are placed as what they were before: those whose nodes were lost.
fn to_restore(job: &Job, (at, target): (usize, u32), since_ms: u64) -> BTreeMap<u32, Former> {
    let group = &job.groups[at];
    let known = job.rollout().map(|rollout| rollout.groups[at].restore.clone()).unwrap_or_default();
    let waits = |task: &u32| group.tasks.get(*task as usize).is_some_and(|task| task.state == TaskState::Pending);
    let lost =
        group.lost.values().filter(waits).map(|task| (task, Former { revision: group.revision, lost: true, since_ms }));
    lost.chain(known).filter(|(_, former)| former.revision != target).collect()
}

/// Forgets the oldest revisions beyond [`REVISIONS_MAX`] that nothing runs of.
fn forget_revisions(tx: &Tx<'_>, job: &Job, rollouts: &mut Rollouts) {
    let group_of = |run: &ohm_model::RunRef| usize::from(run.task.group.0);
    let tasks = job.groups.iter().flat_map(|group| group.tasks.iter());
    let live = tasks.filter_map(|task| tx.runs.get(task.run)).map(|run| (group_of(&run.run), run.revision));
    let kept = tx.kept.of_job(job.id).map(|(run, kept)| (group_of(run), kept.revision));
    let aimed = job.groups.iter().enumerate().map(|(at, group)| (at, group.revision));
    let open = rollouts.open.iter().flat_map(|open| open.groups.iter().enumerate());
    let restored = open.flat_map(|(at, group)| group.restore.values().map(move |former| (at, former.revision)));
    let used: BTreeSet<(usize, u32)> = live.chain(kept).chain(aimed).chain(restored).collect();
    let stable = rollouts.stable().map(|revision| revision.number);
    while rollouts.history.len() > REVISIONS_MAX {
        let last = rollouts.history.len() - 1;
        let is_used = |revision: &Revision| {
            let mut groups = revision.groups.iter().enumerate();
            groups.any(|(at, number)| used.contains(&(at, *number))) || Some(revision.number) == stable
        };
        let Some(at) = rollouts.history[..last].iter().position(|revision| !is_used(revision)) else { return };
        rollouts.history.remove(at);
    }
}

/// The rollout of `job` is over, and its groups are what their owner asks for.
pub(crate) fn end_rollout(tx: &mut Tx<'_>, id: JobId, state: RevisionState) {
    let job = Arc::clone(tx.job(id));
    let Some(rollout) = job.rollout() else { return };
    let counts = rollout.declared.groups.iter().map(|group| group.count);
    let aims = rollout.groups.iter().zip(counts).map(|(group, count)| Aim { revision: group.target, count });
    aim_groups(tx, id, &aims.collect::<Vec<_>>());
    (0..job.groups.len()).for_each(|at| hold_tasks(tx, (id, at), |_| false));
    if let Some(rollouts) = tx.job_mut(id).rollouts.as_mut() {
        rollouts.open = None;
        if let Some(last) = rollouts.history.last_mut() {
            last.state = state;
            last.proven |= state == RevisionState::Complete;
        }
    }
    if state == RevisionState::Complete {
        // A node that was away brings nothing back that was replaced.
        let revisions: Vec<u32> = tx.job(id).groups.iter().map(|group| group.revision).collect();
        forget_kept_where(tx, id, |run, kept| revisions.get(usize::from(run.task.group.0)) != Some(&kept.revision));
    }
    tx.touch_job(id);
}

/// A service was changed while nothing of it stood: what it is made of now is its present revision.
pub(crate) fn note_made_anew(tx: &mut Tx<'_>, known: &Job, by: &str) {
    let (job, now_ms) = (Arc::clone(tx.job(known.id)), tx.now_ms);
    let Some(mut rollouts) = job.rollouts.as_deref().cloned() else { return };
    let names = |spec: &JobSpec| spec.groups.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    let same_groups = names(&known.spec) == names(&job.spec);
    let groups: Vec<u32> = job.groups.iter().map(|group| group.revision).collect();
    let is_other = rollouts.history.last().is_none_or(|last| last.groups != groups);
    if same_groups && is_other {
        note_revision(&mut rollouts, &groups, Arc::clone(&job.spec), (by, now_ms));
        forget_revisions(tx, &job, &mut rollouts);
    }
    if let Some(last) = rollouts.history.last_mut() {
        (last.spec, last.state, last.proven) = (Arc::clone(&job.spec), RevisionState::Complete, true);
    }
    // Runs and revisions are named by the place of their group.
    tx.job_mut(known.id).rollouts = same_groups.then(|| Box::new(rollouts));
}
