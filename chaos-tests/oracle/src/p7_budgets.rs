//! P7, disruption budgets: no task is told to leave its node, by a drain or a condition, while too few tasks of one of
//! its budgets are healthy. What budgets mean is spelled out here once more, on purpose: every task is looked at.
//! The deadline of a drain asks no budget.

use crate::books::Books;
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p7_probes::waits_for_probes;
use crate::p8_neighbours::fits;
use ohm_model::{
    Budget, BudgetLimit, BudgetTerms, Command, EventKind, GroupSpec, Index, JobId, JobSpec, NodeId, Outcome,
    RolloutKind, StopCause, TaskAmount, UnhealthyEviction, split_job_name,
};
use std::collections::{BTreeMap, BTreeSet};

/// The books.
#[derive(Default)]
pub(crate) struct BudgetBooks {
    named: BTreeMap<String, Budget>,
    /// Tasks that are ready and were not told to stop.
    healthy: BTreeSet<(JobId, u16, u32)>,
    /// Tasks that were told to stop and still run.
    stopping: BTreeSet<(JobId, u16, u32)>,
    /// Jobs of which tasks are to run.
    active: BTreeSet<JobId>,
    /// Nodes whose deadline has passed in the entry at hand.
    overdue: BTreeSet<NodeId>,
    /// Whether the entry at hand changes budgets: no fact says when.
    is_unclear: bool,
}

/// Whether a budget is about a group of a job.
type About<'b> = dyn Fn(&JobSpec, &GroupSpec) -> bool + 'b;

/// One budget.
struct Asked<'b> {
    name: String,
    terms: BudgetTerms,
    is_about: Box<About<'b>>,
}

impl BudgetBooks {
    /// Takes note of the budgets that an entry puts and removes.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>]) {
        (self.overdue, self.is_unclear) = (BTreeSet::new(), false);
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::PutBudget(budget), Outcome::Done) => {
                    self.is_unclear |= self.named.insert(budget.name.clone(), budget.clone()).as_ref() != Some(budget);
                }
                (Command::RemoveBudget { name }, Outcome::Done) => {
                    self.is_unclear |= self.named.remove(name).is_some();
                }
                _ => {}
            }
        }
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        match *fact {
            Fact::Submitted { job, spec, .. } => self.note_state(job, !spec.suspended),
            Fact::Updated { job, spec, .. } if spec.suspended => self.note_state(job, false),
            Fact::Updated { .. } | Fact::Registered { .. } => {}
            Fact::Happened { kind, .. } => self.watch_event(index, kind, books, broken),
        }
    }

    fn note_state(&mut self, job: JobId, is_active: bool) {
        if is_active {
            self.active.insert(job);
        } else {
            self.active.remove(&job);
        }
    }

    fn watch_event(&mut self, index: Index, kind: &EventKind, books: &Books, broken: &mut Vec<Broken>) {
        match kind {
            EventKind::DrainDeadline { node, .. } => _ = self.overdue.insert(*node),
            EventKind::JobState { job, state, .. } => {
                let is_active = matches!(state.as_str(), "pending" | "running");
                self.note_state(*job, is_active);
            }
            EventKind::Started { job, group, task, .. } if !waits_for_probes((*job, *group, *task), books) => {
                self.healthy.insert((*job, *group, *task));
            }
            EventKind::Readiness(told) => {
                let task = (told.job, told.group, told.task);
                if told.ready && !self.stopping.contains(&task) {
                    self.healthy.insert(task);
                } else {
                    self.healthy.remove(&task);
                }
            }
            EventKind::Placed { job, group, first, count, .. } => {
                (*first..first + count).for_each(|task| _ = self.healthy.remove(&(*job, *group, task)));
            }
            EventKind::Stopping { job, group, task, node, cause, .. } => {
                // What is not healthy may be replaced by what might be.
                let is_healthy = self.healthy.contains(&(*job, *group, *task));
                let is_replaced = *cause == StopCause::RolledOut && is_healthy;
                let is_replaced = is_replaced && rolls_singly(books, (*job, *group, *task));
                let is_moved = *cause == StopCause::Drained && !self.overdue.contains(node);
                let is_asked = (is_moved || is_replaced) && !self.is_unclear;
                if is_asked && let Some(budget) = self.objection(books, (*job, *group, *task)) {
                    let name = books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                    let what =
                        format!("entry {index}: task {group}/{task} of {name} is stopped against budget {budget}");
                    broken.push(Broken::new("P7", what));
                }
                self.healthy.remove(&(*job, *group, *task));
                self.stopping.insert((*job, *group, *task));
            }
            EventKind::Ended { job, group, task, .. } => {
                self.healthy.remove(&(*job, *group, *task));
                self.stopping.remove(&(*job, *group, *task));
            }
            _ => {}
        }
    }

    /// Whether there are budgets about the group of a task.
    pub(crate) fn are_about(&self, task: (JobId, u16, u32), spec: &JobSpec) -> bool {
        spec.groups.get(usize::from(task.1)).is_some_and(|group| !self.budgets(task, spec, group).is_empty())
    }

    /// The budget that does not let a task go.
    pub(crate) fn objection(&self, books: &Books, task: (JobId, u16, u32)) -> Option<String> {
        let spec = books.jobs.get(&task.0)?;
        let group = spec.groups.get(usize::from(task.1))?;
        let is_healthy = self.healthy.contains(&task);
        let against = |asked: &Asked<'_>| {
            let (healthy, desired) = self.counts(books, asked);
            match (is_healthy, asked.terms.unhealthy) {
                (true, _) => healthy <= desired,
                (false, UnhealthyEviction::IfHealthyBudget) => healthy < desired,
                (false, UnhealthyEviction::AlwaysAllow) => false,
            }
        };
        self.budgets(task, spec, group).into_iter().find(against).map(|asked| asked.name)
    }

    /// The budgets that are about a group.
    fn budgets<'b>(&'b self, (job, at, _): (JobId, u16, u32), spec: &'b JobSpec, group: &GroupSpec) -> Vec<Asked<'b>> {
        let is_about = |budget: &Budget, spec: &JobSpec, group: &GroupSpec| {
            let is_near = split_job_name(&budget.name).0 == split_job_name(&spec.name).0;
            is_near && budget.selector.as_ref().is_some_and(|all| all.iter().all(|one| fits(one, &group.labels)))
        };
        let named = self.named.values().filter(|budget| is_about(budget, spec, group)).map(|budget| Asked {
            name: budget.name.clone(),
            terms: budget.terms,
            is_about: Box::new(move |spec: &JobSpec, group: &GroupSpec| is_about(budget, spec, group)),
        });
        let own = group.disruption_budget.as_deref().map(|terms| {
            let (of, name) = (&spec.name, format!("of group {at} of job {job}"));
            let own_name = group.name.clone();
            let is_own = move |other: &JobSpec, group: &GroupSpec| other.name == *of && group.name == own_name;
            Asked { name, terms: *terms, is_about: Box::new(is_own) }
        });
        named.chain(own).collect()
    }

    /// How many tasks of a budget are healthy, and how many have to be at least: a group that may have started with its
    /// minimum is expected to have no more.
    fn counts(&self, books: &Books, asked: &Asked<'_>) -> (u64, u64) {
        let (mut healthy, mut expected) = (0, 0);
        for (job, spec) in books.jobs.iter().filter(|(job, _)| self.active.contains(job)) {
            for (at, group) in (0u16..).zip(&spec.groups).filter(|(_, group)| (asked.is_about)(spec, group)) {
                let of_group = (*job, at, 0)..=(*job, at, u32::MAX);
                healthy += self.healthy.range(of_group).count() as u64;
                let grows = group.elastic || books.is_endless(*job);
                let count = if grows { books.declared_count(*job, at) } else { group.min_count };
                expected += u64::from(count.saturating_sub(books.done(*job, at)));
            }
        }
        let share = |amount: TaskAmount| match amount {
            TaskAmount::Tasks(tasks) => u64::from(tasks),
            TaskAmount::Percent(percent) => (expected * u64::from(percent)).div_ceil(100),
        };
        let desired = match asked.terms.limit {
            BudgetLimit::MinAvailable(amount) => share(amount),
            BudgetLimit::MaxUnavailable(amount) => expected.saturating_sub(share(amount)),
        };
        (healthy, desired)
    }
}

/// Whether a rollout asks before it stops this task: not where a group ends whole, nor of one beyond the count.
fn rolls_singly(books: &Books, (job, group, task): (JobId, u16, u32)) -> bool {
    let Some(spec) = books.jobs.get(&job) else { return false };
    let asked = &spec.groups[usize::from(group)];
    let is_whole = spec.strategy().kind == RolloutKind::Recreate || asked.topology.is_asked();
    !is_whole && asked.place_with.is_empty() && task < books.declared_count(job, group)
}
