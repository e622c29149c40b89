//! P8, quota: what stands in a queue is within its quota at the moment something is added. Only what really stands is
//! counted, reservations are not, so this judge never claims more than is used. Spares are charged as tasks are; those
//! of a job keep nothing back from its own tasks, but what is over then is given back in the same entry.

use crate::amounts::{add, asks};
use crate::books::Books;
use crate::facts::{Fact, Rules, is_granted};
use crate::history::Broken;
use crate::quota::{QuotaTree, flavored};
use ohm_model::resources::PODS;
use ohm_model::{Amounts, EventKind, Index, JobId, Transaction, Verdict, transaction::Row};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Queues, and what stands in them.
#[derive(Default)]
pub(crate) struct Quotas {
    tree: QuotaTree,
    /// Jobs that reserved their quota once: what they place was charged then.
    reserved: BTreeSet<JobId>,
    /// What spares are charged to which queue, by group.
    spares: BTreeMap<(JobId, u16), Charge>,
    /// The flavors that jobs have, by group and resource, as they were told last.
    flavors: BTreeMap<JobId, Vec<BTreeMap<String, String>>>,
    /// Jobs to which something was added in the entry at hand.
    grown: BTreeSet<JobId>,
    /// What queues that don't limit it gave away in the entry at hand: it counts in the cohorts above all the same.
    unlimited: BTreeSet<String>,
}

/// Spares of a group: their queue, what each one asks for, and how many there are.
struct Charge {
    queue: String,
    each: Amounts,
    count: i64,
}

impl Quotas {
    /// Takes note of a committed transaction, before its entry's facts.
    pub(crate) fn commit(&mut self, transaction: &Transaction, verdict: &Verdict) {
        let granted = |row: usize| is_granted(transaction, verdict, Row::Reserve(row as u32));
        let reserving = transaction.reserve.iter().enumerate().filter(|(row, _)| granted(*row));
        self.reserved.extend(reserving.map(|(_, job)| *job));
    }

    /// Judges one fact, unless the entry changes queues: then nothing says which came first.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        books: &Books,
        rules: &Rules<'_>,
        broken: &mut Vec<Broken>,
    ) {
        match *fact {
            Fact::Updated { job, spec, .. } if !self.tree.gives_by_flavor(&spec.queue) => {
                drop(self.flavors.remove(&job));
            }
            Fact::Happened { kind: EventKind::FlavorsAssigned { job, groups, .. }, .. } => {
                self.flavors.insert(*job, groups.iter().map(|(_, flavors)| flavors.clone()).collect());
            }
            Fact::Happened { kind: EventKind::Placed { job, group, first, count, .. }, .. } => {
                let is_new = !books.has_restarted(*job, *group, *first);
                let tasks = *first..first + count;
                let Some(queue) = self.take((*job, *group), tasks, 1, books) else { return };
                self.grown.insert(*job);
                if is_new && !is_changing(rules) && !self.reserved.contains(job) {
                    self.lend(*job, -1);
                    self.check(index, &queue, (*job, *group), books, broken);
                    self.lend(*job, 1);
                }
            }
            Fact::Happened { kind: EventKind::SpareHeld { job, group, count, .. }, .. } => {
                self.grown.insert(*job);
                let Some(queue) = self.hold((*job, *group), i64::from(*count), books) else { return };
                if !is_changing(rules) {
                    self.check(index, &queue, (*job, *group), books, broken);
                }
            }
            Fact::Happened { kind: EventKind::SpareGone { job, group, count, .. }, .. } => {
                drop(self.hold((*job, *group), -i64::from(*count), books));
            }
            Fact::Happened { kind: EventKind::Ended { job, group, task, .. }, .. } => {
                drop(self.take((*job, *group), *task..task + 1, -1, books))
            }
            _ => {}
        }
    }

    /// Judges what must hold when the entry is over, and takes note of its rules, after its facts. A job to which
    /// something was added has given back the spares that are over, unless nothing says what came first: other rules,
    /// or what nobody limits.
    pub(crate) fn entry_over(&mut self, index: Index, rules: &Rules<'_>, books: &Books, broken: &mut Vec<Broken>) {
        let grown = std::mem::take(&mut self.grown);
        let holding = self.spares.iter().filter(|((job, _), _)| grown.contains(job) && !is_changing(rules));
        for ((job, _), charge) in holding {
            let name = books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
            let known = charge.each.keys().map(String::as_str).filter(|resource| !self.unlimited.contains(*resource));
            self.check_each(index, &charge.queue, name, known, broken);
        }
        self.unlimited.clear();
        self.tree.rule(rules);
    }

    /// What stands in queues, and the spares.
    pub(crate) fn tree(&self) -> &QuotaTree {
        &self.tree
    }

    /// What tasks and spares of a job that stand are charged.
    pub(crate) fn charged(&self, job: JobId, books: &Books) -> Amounts {
        let mut charged = Amounts::new();
        for at in 0..books.jobs.get(&job).map_or(0, |spec| spec.groups.len()) as u16 {
            add(&mut charged, &self.named(job, at, books.held(job, at, |_| true)));
        }
        for charge in self.spares.range((job, 0)..=(job, u16::MAX)).map(|(_, charge)| charge) {
            charge
                .each
                .iter()
                .for_each(|(name, each)| *charged.entry(name.clone()).or_insert(0) += each * charge.count);
        }
        charged
    }

    /// The flavors that a job was given for a group, by resource; nothing where it never was given any.
    pub(crate) fn flavors_of(&self, job: JobId, group: u16) -> Option<&BTreeMap<String, String>> {
        self.flavors.get(&job)?.get(usize::from(group))
    }

    /// Charges tasks as they are made, or gives back what they were charged.
    fn take(&mut self, (job, group): (JobId, u16), tasks: Range<u32>, sign: i64, books: &Books) -> Option<String> {
        let spec = books.jobs.get(&job).filter(|spec| !spec.queue.is_empty())?;
        self.charge(&spec.queue, &self.named(job, group, books.asked(job, group, tasks)), sign);
        Some(spec.queue.clone())
    }

    /// What is asked for by a group, by the flavors that its job has. Of what has none while others do, only tasks are
    /// in a quota.
    pub(crate) fn named(&self, job: JobId, group: u16, asked: Amounts) -> Amounts {
        let Some(flavors) = self.flavors_of(job, group) else { return asked };
        let named = asked.into_iter().filter_map(|(name, amount)| match flavors.get(&name) {
            Some(flavor) => Some((flavored(flavor, &name), amount)),
            None => (name == PODS).then_some((name, amount)),
        });
        named.collect()
    }

    fn charge(&mut self, queue: &str, each: &Amounts, count: i64) {
        let unlimited = each.keys().filter(|resource| count > 0 && !self.tree.limits(queue, resource));
        self.unlimited.extend(unlimited.cloned());
        self.tree.charge(queue, each, count);
    }

    /// Charges spares, or gives them back, to the queue that they were charged to; returns it.
    fn hold(&mut self, (job, group): (JobId, u16), count: i64, books: &Books) -> Option<String> {
        let spec = books.jobs.get(&job)?;
        let wish = spec.groups.get(usize::from(group));
        let each = self.named(job, group, wish.map(|wish| asks(wish, 1)).unwrap_or_default());
        let charge = || Charge { queue: spec.queue.clone(), each, count: 0 };
        let charge = self.spares.entry((job, group)).or_insert_with(charge);
        charge.count += count;
        let (queue, each) = (charge.queue.clone(), charge.each.clone());
        if !queue.is_empty() {
            self.charge(&queue, &each, count);
        }
        self.spares.retain(|_, charge| charge.count > 0);
        (!queue.is_empty()).then_some(queue)
    }

    /// Takes what the spares of `job` are charged out of the books, or puts it back.
    fn lend(&mut self, job: JobId, sign: i64) {
        for charge in self.spares.range((job, 0)..=(job, u16::MAX)).map(|(_, charge)| charge) {
            if !charge.queue.is_empty() {
                self.tree.charge(&charge.queue, &charge.each, charge.count * sign);
            }
        }
    }

    fn check(&self, index: Index, queue: &str, (job, group): (JobId, u16), books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let Some(wish) = spec.groups.get(usize::from(group)) else { return };
        let asked = self.named(job, group, asks(wish, 1));
        self.check_each(index, queue, &spec.name, asked.keys().map(String::as_str), broken);
    }

    fn check_each<'a>(
        &self,
        index: Index,
        queue: &str,
        job: &str,
        resources: impl Iterator<Item = &'a str>,
        broken: &mut Vec<Broken>,
    ) {
        for resource in resources.filter(|resource| self.tree.limits(queue, resource)) {
            let left = self.tree.left(queue, resource);
            if left < 0 {
                let what = format!("entry {index}: {job} takes queue {queue} {} {resource} over its quota", -left);
                broken.push(Broken::new("P8", what));
            }
        }
    }
}

fn is_changing(rules: &Rules<'_>) -> bool {
    !rules.queues.is_empty() || !rules.removed_queues.is_empty()
}
