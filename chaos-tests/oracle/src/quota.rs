//! The quota tree: what queues and cohorts have, lend, borrow and use. What is charged to whom is told by those who
//! judge it.
//!
//! Amounts are told apart by names: that of the resource, with its flavor before it where the queue gives quota by
//! flavor ([`flavored`]).

use crate::facts::Rules;
use ohm_model::{Amounts, QueueSpec, ResourceQuota};
use std::collections::BTreeMap;

/// Queues and cohorts, and what each is charged itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaTree {
    queues: BTreeMap<String, QueueSpec>,
    used: BTreeMap<String, Amounts>,
}

impl QuotaTree {
    /// Takes note of the rules of an entry.
    pub(crate) fn rule(&mut self, rules: &Rules<'_>) {
        for name in &rules.removed_queues {
            self.queues.remove(*name);
        }
        for spec in &rules.queues {
            self.queues.insert(spec.name.clone(), (*spec).clone());
        }
    }

    /// The queue or cohort of this name.
    pub(crate) fn queue(&self, name: &str) -> Option<&QueueSpec> {
        self.queues.get(name)
    }

    /// Whether the queue gives quota by flavor.
    pub(crate) fn gives_by_flavor(&self, queue: &str) -> bool {
        self.queues.get(queue).is_some_and(|found| !found.resource_groups.is_empty())
    }

    /// Charges `times` the amounts to a queue; negative gives back.
    pub(crate) fn charge(&mut self, queue: &str, amounts: &Amounts, times: i64) {
        let used = self.used.entry(queue.to_string()).or_default();
        for (resource, amount) in amounts {
            *used.entry(resource.clone()).or_insert(0) += amount * times;
        }
    }

    /// Whether the queue limits the resource at all.
    pub(crate) fn limits(&self, queue: &str, resource: &str) -> bool {
        let named = |found: &QueueSpec| match found.resource_groups.is_empty() {
            true => found.nominal.contains_key(resource),
            false => quota_of(found, resource).is_some(),
        };
        self.queues.get(queue).is_some_and(named)
    }

    /// How much more of a resource the queue or cohort may use. Less than nothing is what it is over by.
    ///
    /// At the root that is what is there less what is used. Below, it is what is kept from the others and not used, and
    /// what the cohort can spare, as far as may be borrowed. A cohort that was cut below what is used in it spares less
    /// than nothing: what its queues keep from each other has to make up for that. A cohort that is named and that
    /// nobody has put is a root without quota.
    pub(crate) fn left(&self, name: &str, resource: &str) -> i64 {
        let (has, used) = (self.capacity(name, resource), self.usage(name, resource));
        let Some(spec) = self.queues.get(name).filter(|spec| !spec.parent.is_empty()) else { return has - used };
        let kept = has - self.lent(spec, resource);
        let spared = self.left(&spec.parent, resource);
        let borrowable = |limit: &i64| has.saturating_add(*limit) - used.max(kept);
        let limit = quota_of(spec, resource).and_then(|quota| quota.borrowing_limit);
        let spared = limit.map_or(spared, |limit| spared.min(borrowable(&limit)));
        (kept - used).max(0).saturating_add(spared)
    }

    /// How much more a queue or cohort uses than it has by itself and from below. Less than nothing is what it has left
    /// of that.
    pub(crate) fn over_own(&self, name: &str, resource: &str) -> i64 {
        self.usage(name, resource) - self.capacity(name, resource)
    }

    /// What is left of that which a queue or cohort never lends.
    pub(crate) fn kept_left(&self, name: &str, resource: &str) -> i64 {
        let has = self.capacity(name, resource);
        let lent = self.queues.get(name).map_or(has, |spec| self.lent(spec, resource));
        (has - lent - self.usage(name, resource)).max(0)
    }

    /// A queue, the cohort above it, and so on to the root. A cohort that nobody has put has none above it.
    pub(crate) fn path<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let above = |name: &&'a str| self.queues.get(*name).map(|spec| spec.parent.as_str());
        std::iter::successors(Some(name), |name| above(name).filter(|above| !above.is_empty())).collect()
    }

    /// What a queue has: its own, and what its children lend.
    fn capacity(&self, name: &str, resource: &str) -> i64 {
        let own = self.queues.get(name).and_then(|spec| quota_of(spec, resource)).map_or(0, |quota| quota.nominal);
        own + self.children(name).map(|child| self.lent(child, resource)).sum::<i64>()
    }

    fn lent(&self, child: &QueueSpec, resource: &str) -> i64 {
        let capacity = self.capacity(&child.name, resource);
        let limit = quota_of(child, resource).and_then(|quota| quota.lending_limit);
        limit.map_or(capacity, |limit| capacity.min(limit))
    }

    /// What is used in a queue, and what its children use of it beyond what they never lend.
    fn usage(&self, name: &str, resource: &str) -> i64 {
        let own = self.used.get(name).and_then(|used| used.get(resource)).copied().unwrap_or(0);
        let beyond = self.children(name).map(|child| {
            let kept = self.capacity(&child.name, resource) - self.lent(child, resource);
            (self.usage(&child.name, resource) - kept).max(0)
        });
        own + beyond.sum::<i64>()
    }

    fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a QueueSpec> {
        self.queues.values().filter(move |spec| spec.parent == name)
    }
}

/// What a resource of a flavor is called.
pub(crate) fn flavored(flavor: &str, resource: &str) -> String {
    format!("{flavor}:{resource}")
}

/// The quota that a queue or cohort gives for what is called `name`.
fn quota_of(spec: &QueueSpec, name: &str) -> Option<ResourceQuota> {
    if spec.resource_groups.is_empty() {
        let limit = |limits: &Amounts| limits.get(name).copied();
        let (borrowing_limit, lending_limit) = (limit(&spec.borrowing_limit), limit(&spec.lending_limit));
        // Limits of what a queue does not limit itself count in the cohorts all the same.
        let any = spec.nominal.contains_key(name) || lending_limit.is_some() || borrowing_limit.is_some();
        let nominal = spec.nominal.get(name).copied().unwrap_or(0);
        return any.then_some(ResourceQuota { nominal, borrowing_limit, lending_limit });
    }
    let (flavor, resource) = name.split_once(':')?;
    let mut flavors = spec.resource_groups.iter().flat_map(|group| &group.flavors);
    flavors
        .find(|quota| quota.name == flavor && quota.resources.contains_key(resource))?
        .resources
        .get(resource)
        .copied()
}
