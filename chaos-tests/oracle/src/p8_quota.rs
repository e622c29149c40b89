//! P8, quota: what stands in a queue is within its quota at the moment something is added. Only what really stands is
//! counted, reservations are not, so this judge never claims more than is used. Spares are charged as tasks are; those
//! of a job keep nothing back from its own tasks, but what is over then is given back in the same entry.

use crate::books::Books;
use crate::facts::{Fact, Rules};
use crate::history::Broken;
use ohm_model::{Amounts, EventKind, Index, JobId, QueueSpec, Transaction, Verdict, transaction::Row};
use std::collections::{BTreeMap, BTreeSet};

/// Queues, and what stands in them.
#[derive(Default)]
pub(crate) struct Quotas {
    queues: BTreeMap<String, QueueSpec>,
    used: BTreeMap<String, BTreeMap<String, i64>>,
    /// Jobs that reserved their quota once: what they place was charged then.
    reserved: BTreeSet<JobId>,
    /// What spares are charged to which queue, by group.
    spares: BTreeMap<(JobId, u16), Charge>,
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
        let refused = |row: usize| verdict.conflicts.iter().any(|found| found.row == Row::Reserve(row as u32));
        let reserving = transaction.reserve.iter().enumerate().filter(|(row, _)| !refused(*row));
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
            Fact::Happened { kind: EventKind::Placed { job, group, first, count, .. }, .. } => {
                let is_new = !books.has_restarted(*job, *group, *first);
                let Some(queue) = self.take(*job, *group, i64::from(*count), books) else { return };
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
            Fact::Happened { kind: EventKind::Ended { job, group, .. }, .. } => {
                drop(self.take(*job, *group, -1, books))
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
        for name in &rules.removed_queues {
            self.queues.remove(*name);
        }
        for spec in &rules.queues {
            self.queues.insert(spec.name.clone(), (*spec).clone());
        }
    }

    fn take(&mut self, job: JobId, group: u16, count: i64, books: &Books) -> Option<String> {
        let spec = books.jobs.get(&job)?;
        let wish = spec.groups.get(usize::from(group)).filter(|_| !spec.queue.is_empty())?;
        let unlimited =
            wish.requests.keys().filter(|resource| count > 0 && !limits(&self.queues, &spec.queue, resource));
        self.unlimited.extend(unlimited.cloned());
        let used = self.used.entry(spec.queue.clone()).or_default();
        for (resource, amount) in &wish.requests {
            *used.entry(resource.clone()).or_insert(0) += amount * count;
        }
        Some(spec.queue.clone())
    }

    /// Charges spares, or gives them back, to the queue that they were charged to; returns it.
    fn hold(&mut self, (job, group): (JobId, u16), count: i64, books: &Books) -> Option<String> {
        let spec = books.jobs.get(&job)?;
        let wish = spec.groups.get(usize::from(group));
        let charge = || Charge {
            queue: spec.queue.clone(),
            each: wish.map(|wish| wish.requests.clone()).unwrap_or_default(),
            count: 0,
        };
        let charge = self.spares.entry((job, group)).or_insert_with(charge);
        let unlimited =
            charge.each.keys().filter(|resource| count > 0 && !limits(&self.queues, &charge.queue, resource));
        self.unlimited.extend(unlimited.cloned());
        charge.count += count;
        let queue = charge.queue.clone();
        if !queue.is_empty() {
            let used = self.used.entry(queue.clone()).or_default();
            charge.charge(used, count);
        }
        self.spares.retain(|_, charge| charge.count > 0);
        (!queue.is_empty()).then_some(queue)
    }

    /// Takes what the spares of `job` are charged out of the books, or puts it back.
    fn lend(&mut self, job: JobId, sign: i64) {
        for charge in self.spares.range((job, 0)..=(job, u16::MAX)).map(|(_, charge)| charge) {
            if let Some(used) = self.used.get_mut(&charge.queue) {
                charge.charge(used, charge.count * sign);
            }
        }
    }

    fn check(&self, index: Index, queue: &str, (job, group): (JobId, u16), books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let Some(wish) = spec.groups.get(usize::from(group)) else { return };
        let resources = wish.requests.keys().map(String::as_str);
        self.check_each(index, queue, &spec.name, resources, broken);
    }

    fn check_each<'a>(
        &self,
        index: Index,
        queue: &str,
        job: &str,
        resources: impl Iterator<Item = &'a str>,
        broken: &mut Vec<Broken>,
    ) {
        for resource in resources.filter(|resource| limits(&self.queues, queue, resource)) {
            if let Some((name, over)) = self.overdrawn(queue, resource) {
                let what = format!("entry {index}: {job} takes {name} {over} {resource} over its quota");
                broken.push(Broken::new("P8", what));
            }
        }
    }

    /// The queue or cohort on the way from `queue` to its root that is over what it may use, and by how much.
    fn overdrawn(&self, queue: &str, resource: &str) -> Option<(String, i64)> {
        let mut at = self.queues.get(queue)?;
        for _ in 0..=self.queues.len() {
            let (used, own) = (self.usage(&at.name, resource), self.capacity(&at.name, resource));
            let Some(parent) = self.queues.get(&at.parent) else {
                return (used > own).then(|| (at.name.clone(), used - own));
            };
            if let Some(limit) = at.borrowing_limit.get(resource)
                && used > own.saturating_add(*limit)
            {
                return Some((at.name.clone(), used - own - limit));
            }
            if used <= own - self.lent(at, resource) {
                // What is never lent may be used however much others borrow.
                return None;
            }
            at = parent;
        }
        None
    }

    /// What a queue has: its own, and what its children lend.
    fn capacity(&self, name: &str, resource: &str) -> i64 {
        let own = self.queues.get(name).and_then(|spec| spec.nominal.get(resource)).copied().unwrap_or(0);
        let lent: i64 = self.children(name).map(|child| self.lent(child, resource)).sum();
        own + lent
    }

    fn lent(&self, child: &QueueSpec, resource: &str) -> i64 {
        let capacity = self.capacity(&child.name, resource);
        child.lending_limit.get(resource).map_or(capacity, |limit| capacity.min(*limit))
    }

    /// What is used in a queue, and what its children use of it beyond what they never lend.
    fn usage(&self, name: &str, resource: &str) -> i64 {
        let own = self.used.get(name).and_then(|used| used.get(resource)).copied().unwrap_or(0);
        let beyond: i64 = self
            .children(name)
            .map(|child| {
                let kept = self.capacity(&child.name, resource) - self.lent(child, resource);
                (self.usage(&child.name, resource) - kept).max(0)
            })
            .sum();
        own + beyond
    }

    fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a QueueSpec> {
        self.queues.values().filter(move |spec| spec.parent == name)
    }
}

impl Charge {
    fn charge(&self, used: &mut BTreeMap<String, i64>, count: i64) {
        for (resource, amount) in &self.each {
            *used.entry(resource.clone()).or_insert(0) += amount * count;
        }
    }
}

fn is_changing(rules: &Rules<'_>) -> bool {
    !rules.queues.is_empty() || !rules.removed_queues.is_empty()
}

fn limits(queues: &BTreeMap<String, QueueSpec>, queue: &str, resource: &str) -> bool {
    queues.get(queue).is_some_and(|found| found.nominal.contains_key(resource))
}
