//! How far the rollout of a job is.

use ohm_cell::{
    Cell, GroupRollout, Job, JobState, Revision, RevisionState, Rollout, RolloutCounts, available_before_ms,
    changed_fields, rollout_counts,
};
use ohm_model::{RolloutEvent, RolloutStep};
use ohm_wire::api::{EventView, GroupRolloutView, RevisionView, RolloutSummary, RolloutView};

/// The rollout of a job by group, and its revisions.
pub(crate) fn rollout(cell: &Cell, job: &Job) -> RolloutView {
    let open = job.rollout();
    RolloutView {
        job: job.spec.name.clone(),
        summary: summary(cell, job),
        reverts: open.is_some_and(|open| open.reverts),
        since_ms: open.map_or(0, |open| open.since_ms),
        deadline_ms: open.map_or(0, |open| deadline_ms(job, open)),
        groups: (0..job.groups.len()).map(|at| group(cell, job, at)).collect(),
        history: history(job),
    }
}

/// How far the rollout of a job is, while one is under way.
pub(super) fn of_open(cell: &Cell, job: &Job) -> RolloutSummary {
    if job.rollout().is_some() { summary(cell, job) } else { RolloutSummary::default() }
}

/// A sentence about the rollout of a job, while one is under way.
pub(crate) fn rollout_text(cell: &Cell, job: &Job) -> Option<String> {
    let (state, told, hint) = of_rollout(cell, job, job.rollout()?);
    // Who asks why has no need of being told to ask why.
    let hint = if hint.is_empty() || state == "stalled" { String::new() } else { format!("; {hint}") };
    Some(format!("It is rolled out to revision {}: {told}{hint}.", job.revision()))
}

fn summary(cell: &Cell, job: &Job) -> RolloutSummary {
    let (revision, name) = (job.revision(), &job.spec.name);
    let (state, told, hint) = match job.rollout() {
        Some(open) => of_rollout(cell, job, open),
        None => match last_state(job) {
            RevisionState::Complete if stands(job) => {
                ("complete", format!("every task is of revision {revision}"), next_waits(job))
            }
            RevisionState::Complete => {
                let hint = format!("`ohm wait --for=ready {name}` waits for those that are not ready");
                ("complete", "nothing is being rolled out".into(), hint)
            }
            _ => {
                let told = format!("it is {}, and revision {revision} was not complete before", job.phase());
                ("left", told, String::new())
            }
        },
    };
    let message = if hint.is_empty() { told } else { format!("{told}; {hint}") };
    RolloutSummary { revision, state: state.into(), message }
}

/// What is to be said of the next rollout of a job that was paused.
fn next_waits(job: &Job) -> String {
    let resume = || format!("`ohm rollout resume {}` or a file without `pause`", job.spec.name);
    let hint = || format!("it is paused: the next revision waits for {}", resume());
    if job.spec.strategy().pause { hint() } else { String::new() }
}

fn last_state(job: &Job) -> RevisionState {
    let last = job.rollouts.as_ref().and_then(|rollouts| rollouts.history.last());
    last.map_or(RevisionState::Complete, |last| last.state)
}

/// Whether as many tasks are ready as are asked for.
fn stands(job: &Job) -> bool {
    job.groups.iter().zip(&job.declared().groups).all(|(group, spec)| group.ready() >= spec.count)
}

/// The state of a rollout under way, what is to be said of it, and what somebody can do.
fn of_rollout(cell: &Cell, job: &Job, open: &Rollout) -> (&'static str, String, String) {
    let (name, strategy) = (&job.spec.name, open.declared.strategy());
    let lacks = lacks(cell, job);
    if job.state == JobState::Suspended {
        let told = "nothing is placed while it is suspended".to_string();
        return ("paused", told, format!("`ohm resume {name}` lets it go on"));
    }
    if strategy.pause {
        let told = "nothing is replaced while it is paused".to_string();
        let hint = format!("`ohm rollout resume {name}` lets it go on, `ohm rollout undo {name}` takes it back");
        return ("paused", told, hint);
    }
    if open.stalled {
        let told = format!("it has come no further for {} s: {lacks}", strategy.progress_deadline_seconds);
        let hint =
            format!("`ohm explain {name}` and `ohm job {name}` say why, `ohm rollout undo {name}` takes it back");
        return ("stalled", told, hint);
    }
    if open.waits {
        let hint =
            format!("`ohm rollout promote {name}` replaces the others, `ohm rollout undo {name}` takes them back");
        return ("waiting", format!("its canaries are available: {lacks}"), hint);
    }
    let told = if open.promoted { lacks } else { format!("its canaries are placed: {lacks}") };
    ("rolling", told, String::new())
}

/// What is missing, for each group that is not yet as it is to be.
fn lacks(cell: &Cell, job: &Job) -> String {
    let groups = (0..job.groups.len()).map(|at| group(cell, job, at));
    let lacks = groups.filter_map(|group| {
        let GroupRolloutView { updated_available, count, name, revision, waiting, .. } = &group;
        if updated_available < count || group.old > 0 {
            let what = format!("{updated_available} of {count} tasks of group {name} are of revision {revision}");
            return Some(format!("{what} and available"));
        }
        // Those beside the count may be available, and some within it not.
        (*waiting > 0).then(|| format!("{waiting} of group {name} wait to be placed, in back-off or not"))
    });
    let lacks: Vec<String> = lacks.collect();
    let none = "as many tasks are of the revision and available as are to be".to_string();
    if lacks.is_empty() { none } else { lacks.join("; ") }
}

fn group(cell: &Cell, job: &Job, at: usize) -> GroupRolloutView {
    let count = job.declared_count(at);
    let (revision, strategy) = match job.rollout() {
        Some(open) => (target(job, open, at), open.declared.strategy()),
        None => (job.groups[at].revision, job.spec.strategy()),
    };
    let RolloutCounts { updated, updated_ready, updated_available, old, old_available, stopping, waiting } =
        rollout_counts(&job.groups[at], revision, available_before_ms(cell.now_ms(), &strategy), |slot| {
            cell.runs().get(slot)
        });
    GroupRolloutView {
        name: job.declared().groups.get(at).map_or_else(String::new, |spec| spec.name.clone()),
        revision,
        count,
        updated,
        updated_ready,
        updated_available,
        old,
        old_available,
        stopping,
        waiting,
        surge: job.spec.groups.get(at).map_or(0, |spec| spec.count.saturating_sub(count)),
    }
}

fn target(job: &Job, open: &Rollout, at: usize) -> u32 {
    open.groups.get(at).map_or(job.groups[at].revision, |group: &GroupRollout| group.target)
}

/// When it stalls; 0 where nothing lets it.
fn deadline_ms(job: &Job, open: &Rollout) -> u64 {
    if job.state == JobState::Active { open.stalls_ms().unwrap_or(0) } else { 0 }
}

/// The revisions of a job; of one that was never changed the only one.
fn history(job: &Job) -> Vec<RevisionView> {
    let Some(rollouts) = &job.rollouts else {
        return vec![RevisionView {
            revision: job.revision(),
            since_ms: job.submitted_ms,
            owner: job.owner.to_string(),
            state: state_name(RevisionState::Complete).into(),
            changed: Vec::new(),
        }];
    };
    let before = [None].into_iter().chain(rollouts.history.iter().map(Some));
    let view = |(known, before): (&Revision, Option<&Revision>)| RevisionView {
        revision: known.number,
        since_ms: known.since_ms,
        owner: known.owner.to_string(),
        state: state_name(known.state).into(),
        changed: before.map_or_else(Vec::new, |before| changed_fields(&before.spec, &known.spec)),
    };
    rollouts.history.iter().zip(before).map(view).collect()
}

fn state_name(state: RevisionState) -> &'static str {
    match state {
        RevisionState::Rolling => "rolling",
        RevisionState::Complete => "complete",
        RevisionState::Stalled => "stalled",
        RevisionState::Left => "left",
    }
}

/// What became of a rollout.
pub(super) fn of_step(told: &RolloutEvent, view: EventView) -> EventView {
    let (name, revision) = (&told.name, told.revision);
    let (kind, message) = match &told.step {
        RolloutStep::Started => ("rolloutStarted", format!("{name} is rolled out to revision {revision}")),
        RolloutStep::Aimed { group, revision, count } => {
            let what = format!("group {group} of {name}: {count} tasks are wanted; revision {revision} is placed");
            ("rolloutAimed", what)
        }
        RolloutStep::Waits => ("rolloutWaits", format!("the canaries of {name} are available: promote it, or undo")),
        RolloutStep::Promoted => ("rolloutPromoted", format!("revision {revision} of {name} was promoted")),
        RolloutStep::Stalled { reason } => {
            ("rolloutStalled", format!("revision {revision} of {name} stalled: {reason}"))
        }
        RolloutStep::Reverted { from } => {
            ("rolloutReverted", format!("revision {from} of {name} did not come up: back to revision {revision}"))
        }
        RolloutStep::Finished => ("rolloutFinished", format!("all of {name} is of revision {revision}")),
    };
    EventView { kind: kind.into(), message, job: name.clone(), ..view }
}
