//! What flavors are, and which ones jobs were told to have.

use crate::facts::{Fact, Rules, Taken};
use ohm_model::{
    AdmissionCheck, Command, EventKind, GroupSpec, JobId, Operator, Outcome, Requirement, ResourceFlavor, SelectorTerm,
};
use std::collections::{BTreeMap, BTreeSet};

/// A flavor for each resource.
pub(crate) type OfGroup = BTreeMap<String, String>;

/// The books.
#[derive(Default)]
pub(crate) struct Flavors {
    specs: BTreeMap<String, ResourceFlavor>,
    /// What jobs were told last, by group.
    jobs: BTreeMap<JobId, BTreeMap<String, OfGroup>>,
    /// Queues that give quota by flavor.
    queues: BTreeSet<String>,
    /// Whether the entry at hand changes flavors or queues: no event says when.
    pub(crate) is_changing: bool,
}

impl Flavors {
    /// Takes note of the commands of an entry.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>], rules: &Rules<'_>) {
        self.is_changing = !rules.queues.is_empty() || !rules.removed_queues.is_empty();
        for queue in &rules.queues {
            match queue.resource_groups.is_empty() {
                true => drop(self.queues.remove(&queue.name)),
                false => drop(self.queues.insert(queue.name.clone())),
            }
        }
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::PutResourceFlavor(flavor), Outcome::Done) => {
                    self.specs.insert(flavor.name.clone(), (**flavor).clone());
                }
                (Command::RemoveResourceFlavor { name }, Outcome::Done) => drop(self.specs.remove(name)),
                _ => continue,
            }
            self.is_changing = true;
        }
    }

    /// The entry is over: what it changed holds.
    pub(crate) fn settled(&mut self) {
        self.is_changing = false;
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Happened { kind: EventKind::FlavorsAssigned { job, groups, .. }, .. } => {
                self.jobs.insert(*job, groups.iter().cloned().collect());
            }
            Fact::Updated { job, spec, .. } if !self.has_queue(&spec.queue) => drop(self.jobs.remove(job)),
            _ => {}
        }
    }

    /// Whether a queue gives quota by flavor.
    pub(crate) fn has_queue(&self, queue: &str) -> bool {
        self.queues.contains(queue)
    }

    /// The flavors that a group of a job was told to have; nothing where it never was told any.
    pub(crate) fn of(&self, job: JobId, group: &str) -> Option<&OfGroup> {
        self.jobs.get(&job)?.get(group)
    }

    /// The names of those of these checks that are for all jobs, or for a flavor that the job was told to have.
    pub(crate) fn checks_of<'c>(
        &'c self,
        job: JobId,
        checks: &'c [AdmissionCheck],
    ) -> impl Iterator<Item = &'c String> + 'c {
        let told = self.jobs.get(&job).into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        let has: BTreeSet<&String> = told.collect();
        let is_meant = move |check: &&AdmissionCheck| {
            check.on_flavors.is_empty() || check.on_flavors.iter().any(|flavor| has.contains(flavor))
        };
        checks.iter().filter(is_meant).map(|check| &check.name)
    }

    /// What is known of the flavors that a group has.
    pub(crate) fn specs_of(&self, job: JobId, group: &str) -> impl Iterator<Item = &ResourceFlavor> {
        let names: BTreeSet<&String> = self.of(job, group).into_iter().flat_map(BTreeMap::values).collect();
        names.into_iter().filter_map(|name| self.specs.get(name))
    }

    /// Adds to a group what its flavors add to its filters; while they change, nothing. Where a flavor was
    /// given another label since than the group asks for, no node has both.
    pub(crate) fn filter(&self, job: JobId, wish: &mut GroupSpec) {
        let name = wish.name.clone();
        for flavor in self.specs_of(job, &name).filter(|_| !self.is_changing) {
            for (label, value) in &flavor.node_labels {
                if wish.node_selector.entry(label.clone()).or_insert_with(|| value.clone()) != value {
                    let (key, values) = (label.clone(), vec![value.clone()]);
                    let also = Requirement { key, operator: Operator::In, values };
                    if wish.affinity.is_empty() {
                        wish.affinity.push(SelectorTerm::default());
                    }
                    wish.affinity.iter_mut().for_each(|term| term.requirements.push(also.clone()));
                }
            }
            wish.tolerations.extend(flavor.tolerations.iter().cloned());
        }
    }
}
