//! What is wanted of jobs while they are rolled out. Their owners say how they are to be in the end; events say what is
//! placed until then, by the number of a revision. What a revision is made of is worked out here from what owners said.

use crate::history::Caused;
use ohm_model::{
    Command, EventKind, GroupSpec, JobId, JobOutcome, JobSpec, Outcome, RolloutAction, RolloutEvent, RolloutStep,
    RolloutStrategy,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A job as its owner asks for it, and as it is wanted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) declared: JobSpec,
    pub(crate) wanted: JobSpec,
}

/// What is known of one job.
#[derive(Clone, Debug)]
struct Known {
    wish: Wish,
    is_open: bool,
    /// What its groups are made of, by place and revision of the group.
    contents: BTreeMap<(u16, u32), GroupSpec>,
    /// What its owner asked for, by revision of the job, in the order in which they were asked for last. The number of
    /// the one before the first that was rolled out is not told: it is 0 here.
    revisions: Vec<(u32, JobSpec)>,
    /// Revisions that were complete once.
    proven: BTreeSet<u32>,
    /// The revision of each group that is placed now.
    aims: BTreeMap<u16, u32>,
}

/// All jobs.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    jobs: BTreeMap<JobId, Known>,
}

/// By place among the events of an entry: what a job is from there on.
pub(crate) type Wishes = BTreeMap<usize, Wish>;

/// What somebody asks for of a job.
enum Change<'a> {
    Spec(&'a JobSpec),
    Action(RolloutAction),
}

impl Wanted {
    /// What jobs become in an entry.
    pub(crate) fn entry_begins(&mut self, taken: &[(&Command, &Outcome)], applied: &Caused) -> Wishes {
        let mut submitted: BTreeMap<JobId, &JobSpec> = BTreeMap::new();
        let mut changes: BTreeMap<JobId, VecDeque<Change<'_>>> = BTreeMap::new();
        for (command, outcome) in taken {
            let Outcome::Jobs(outcomes) = outcome else { continue };
            match (command, outcomes.as_slice()) {
                (Command::SubmitJobs { jobs, .. }, outcomes) => {
                    let accepted = jobs.iter().zip(outcomes).filter_map(|(spec, outcome)| match outcome {
                        JobOutcome::Accepted(job) => Some((*job, spec)),
                        _ => None,
                    });
                    submitted.extend(accepted);
                }
                (Command::UpdateJob { spec, .. }, [JobOutcome::Updated(job)]) => {
                    changes.entry(*job).or_default().push_back(Change::Spec(spec));
                }
                (Command::Rollout { action, .. }, [JobOutcome::Updated(job)]) if *action != RolloutAction::Promote => {
                    changes.entry(*job).or_default().push_back(Change::Action(*action));
                }
                _ => {}
            }
        }
        let mut wishes = Wishes::new();
        for (at, event) in applied.events.iter().enumerate() {
            let mut rest = applied.events[at + 1..].iter().map(|event| &event.kind);
            match &event.kind {
                EventKind::JobSubmitted { job, .. } => {
                    let Some(spec) = submitted.get(job) else { continue };
                    self.jobs.insert(*job, Known::of(spec));
                }
                EventKind::JobUpdated { job, .. } => {
                    let change = changes.get_mut(job).and_then(VecDeque::pop_front);
                    let Some((known, change)) = self.jobs.get_mut(job).zip(change) else { continue };
                    known.change(&change, started_next(*job, rest));
                    wishes.insert(at, known.wish.clone());
                }
                EventKind::Rollout(told) => {
                    let Some(known) = self.jobs.get_mut(&told.job) else { continue };
                    let is_taken_back = rest.next().is_some_and(|kind| reverts(told.job, kind));
                    if told.step == RolloutStep::Started && is_taken_back {
                        known.take_back(told.revision);
                    }
                    let before = known.wish.clone();
                    known.step(told);
                    if known.wish != before {
                        wishes.insert(at, known.wish.clone());
                    }
                }
                _ => {}
            }
        }
        wishes
    }
}

/// Which revision a job is rolled out to before it is changed again.
fn started_next<'a>(job: JobId, mut rest: impl Iterator<Item = &'a EventKind>) -> Option<u32> {
    rest.find_map(|kind| match kind {
        EventKind::JobUpdated { job: other, .. } if *other == job => Some(None),
        EventKind::Rollout(RolloutEvent { job: other, revision, step: RolloutStep::Started, .. }) if *other == job => {
            Some(Some(*revision))
        }
        _ => None,
    })?
}

fn reverts(job: JobId, kind: &EventKind) -> bool {
    let EventKind::Rollout(RolloutEvent { job: other, step: RolloutStep::Reverted { .. }, .. }) = kind else {
        return false;
    };
    *other == job
}

/// Whether the tasks of all groups are made of the same.
fn is_made_as(one: &JobSpec, other: &JobSpec) -> bool {
    one.groups.len() == other.groups.len()
        && one.groups.iter().zip(&other.groups).all(|(one, other)| one.is_made_as(other))
}

impl Known {
    /// What is asked for is what was asked for in this revision.
    fn take_back(&mut self, revision: u32) {
        if let Some(back) = self.former(Some(revision)).cloned() {
            self.wish.declared = made_as(&self.wish.declared, &back);
        }
    }

    fn of(spec: &JobSpec) -> Self {
        let contents = (0u16..).zip(&spec.groups).map(|(at, group)| ((at, 0), group.clone())).collect();
        let wish = Wish { declared: spec.clone(), wanted: spec.clone() };
        Known { wish, is_open: false, contents, revisions: Vec::new(), proven: BTreeSet::new(), aims: BTreeMap::new() }
    }

    /// Its owner asks for something else. Where that is rolled out nothing but sizes and what is no part of a task
    /// changes before the events say so.
    fn change(&mut self, change: &Change<'_>, started: Option<u32>) {
        let former = &self.wish.declared;
        let declared = match change {
            Change::Spec(spec) => (*spec).clone(),
            Change::Action(RolloutAction::Undo { revision }) => {
                let back = self.former(*revision);
                let mut spec = back.map_or_else(|| former.clone(), |back| made_as(former, back));
                spec.strategy.iter_mut().for_each(|strategy| strategy.pause = false);
                spec
            }
            Change::Action(action) => {
                let pause = *action == RolloutAction::Pause;
                let strategy = former.strategy.is_some() || pause;
                let strategy = strategy.then(|| Box::new(RolloutStrategy { pause, ..former.strategy() }));
                JobSpec { strategy, ..former.clone() }
            }
        };
        let wanted = if started.is_some() || self.is_open {
            self.sized(&declared)
        } else {
            self.contents = (0u16..).zip(&declared.groups).map(|(at, group)| ((at, 0), group.clone())).collect();
            self.aims.clear();
            declared.clone()
        };
        let former = former.clone();
        if started.is_some() && self.revisions.is_empty() {
            self.revisions.push((0, former.clone()));
            self.proven.insert(0);
        }
        let is_other = !is_made_as(&former, &declared);
        if started.is_none() && !self.is_open && !self.revisions.is_empty() && is_other {
            // Nothing of it stood: it is of its next revision at once.
            let next = self.revisions.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
            self.revisions.push((next, declared.clone()));
            self.proven.insert(next);
        }
        self.wish = Wish { declared, wanted };
    }

    /// The revision with this number; the last one before the present one that was complete once where none is named.
    fn former(&self, revision: Option<u32>) -> Option<&JobSpec> {
        let mut earlier = self.revisions[..self.revisions.len().saturating_sub(1)].iter().rev();
        let found = match revision {
            Some(number) => self.revisions.iter().find(|(known, _)| *known == number).or(self.revisions.first()),
            None => earlier.clone().find(|(known, _)| self.proven.contains(known)).or_else(|| earlier.next()),
        };
        found.map(|(_, spec)| spec)
    }

    /// The job as it is wanted now, with everything of `declared` that is no part of a task.
    fn sized(&self, declared: &JobSpec) -> JobSpec {
        let mut spec = declared.clone();
        for (at, asked) in spec.groups.iter_mut().enumerate() {
            let known = self.wish.declared.groups.get(at).zip(self.wish.wanted.groups.get(at));
            let Some((old, now)) = known.filter(|(old, _)| old.name == asked.name) else { continue };
            let beyond = now.count.saturating_sub(old.count);
            let count = if asked.count < old.count { asked.count.saturating_add(beyond) } else { now.count };
            *asked = with_content(asked, now, count.max(asked.count));
        }
        spec
    }

    fn step(&mut self, told: &RolloutEvent) {
        match &told.step {
            RolloutStep::Started => {
                self.is_open = true;
                let declared = self.wish.declared.clone();
                let is_first = |(number, spec): &(u32, JobSpec)| *number == 0 && is_made_as(spec, &declared);
                let was_first = self.revisions.iter().any(is_first);
                self.proven.extend(was_first.then_some(told.revision));
                self.revisions.retain(|known| known.0 != told.revision && !is_first(known));
                self.revisions.push((told.revision, declared));
            }
            RolloutStep::Aimed { group, revision, count } => self.aim(*group, *revision, *count),
            RolloutStep::Finished => {
                self.proven.insert(told.revision);
                self.is_open = false;
                self.wish.wanted = self.wish.declared.clone();
            }
            RolloutStep::Waits | RolloutStep::Promoted | RolloutStep::Stalled { .. } | RolloutStep::Reverted { .. } => {
            }
        }
    }

    fn aim(&mut self, group: u16, revision: u32, count: u32) {
        let Some(asked) = self.wish.declared.groups.get(usize::from(group)) else { return };
        let Some(now) = self.wish.wanted.groups.get_mut(usize::from(group)) else { return };
        let is_other = self.aims.get(&group).is_none_or(|aim| *aim != revision);
        if is_other {
            let is_newest = self.revisions.last().is_some_and(|(newest, _)| *newest == revision);
            let first = self.contents.get(&(group, 0)).filter(|_| !is_newest);
            let unknown = first.unwrap_or(asked).clone();
            let made = self.contents.entry((group, revision)).or_insert(unknown);
            if made.is_made_as(asked) {
                *made = asked.clone();
            }
            *now = with_content(asked, made, count);
            self.aims.insert(group, revision);
        } else {
            now.count = count;
        }
    }
}

/// `asked`, with tasks made as in `made`, and this count.
fn with_content(asked: &GroupSpec, made: &GroupSpec, count: u32) -> GroupSpec {
    GroupSpec {
        name: asked.name.clone(),
        count,
        min_count: asked.min_count,
        labels: asked.labels.clone(),
        spares: asked.spares,
        disruption_budget: asked.disruption_budget.clone(),
        ..made.clone()
    }
}

/// What is asked for, with groups made as they were in `former`.
fn made_as(asked: &JobSpec, former: &JobSpec) -> JobSpec {
    let mut spec = asked.clone();
    for (group, former) in spec.groups.iter_mut().zip(&former.groups) {
        *group = with_content(group, former, group.count);
    }
    spec
}
