//! Shares: how much of what a cohort can lend is borrowed by one of those below it, beside its weight. Kueue's dominant
//! resource share.
//!
//! For each resource, over all flavors, what is used beyond the own quota is divided by all that the cohort above could
//! ever have. The largest of these fractions, that of the *dominant* resource, is divided by the weight. Shares are
//! fractions of integers: two of them compare exactly, however close they are.

use crate::rooms::grid::Grid;
use crate::state::quota::{QueueId, Quota};
use crate::state::resources::ResourceNames;
use ohm_model::{FlavorResource, ResourceId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// How much a queue or cohort has borrowed, beside its weight. Ordered by that: who borrows nothing has the least, who
/// borrows with weight 0 has more than anybody with another weight. Equal shares may be of different resources.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Of the dominant resource.
    borrowed: i64,
    /// More than 0.
    lendable: i64,
    weight_milli: u64,
    dominant: Option<ResourceId>,
}

impl Default for Share {
    /// The share of who borrows nothing.
    fn default() -> Self {
        Share { borrowed: 0, lendable: 1, weight_milli: 1000, dominant: None }
    }
}

impl Share {
    /// What [`Share::weighted`] is where much is borrowed without a weight.
    pub const INFINITE: i64 = i64::MAX;

    /// The resource of which most is borrowed; nothing where nothing is.
    pub fn dominant(&self) -> Option<ResourceId> {
        self.dominant
    }

    /// Whether something is borrowed with weight 0.
    pub fn is_infinite(&self) -> bool {
        self.dominant.is_some() && self.weight_milli == 0
    }

    /// 1000 times the fraction, divided by the weight and rounded up; [`Share::INFINITE`] where that is more than any
    /// number.
    pub fn weighted(&self) -> i64 {
        if self.is_infinite() {
            return Share::INFINITE;
        }
        // A weight of one is 1000.
        let parts = self.borrowed.max(0) as u128 * 1_000_000;
        let whole = parts.div_ceil(self.weighted_lendable());
        i64::try_from(whole).unwrap_or(Share::INFINITE)
    }

    fn weighted_lendable(&self) -> u128 {
        self.lendable.max(1) as u128 * u128::from(self.weight_milli.max(1))
    }

    /// Compares without the weights.
    fn compare_unweighted(&self, other: &Self) -> Ordering {
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        product(self.borrowed, other.lendable).cmp(&product(other.borrowed, self.lendable))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) => self.compare_unweighted(other),
            (false, false) => {
                let fraction = |share: &Self| (share.borrowed.max(0) as u128, share.weighted_lendable());
                compare_fractions(fraction(self), fraction(other))
            }
            (left, right) => left.cmp(&right),
        }
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

/// Compares `a / b` with `c / d`, of which `b` and `d` are not 0. Products would need more bits than there are, so the
/// whole parts are compared, then what is left over turned upside down: as Euclid would.
fn compare_fractions((mut a, mut b): (u128, u128), (mut c, mut d): (u128, u128)) -> Ordering {
    loop {
        let (left, right) = (a % b, c % d);
        match ((a / b).cmp(&(c / d)), left == 0, right == 0) {
            (Ordering::Equal, false, false) => (a, b, c, d) = (d, right, b, left),
            (Ordering::Equal, true, true) => return Ordering::Equal,
            (Ordering::Equal, true, false) => return Ordering::Less,
            (Ordering::Equal, false, true) => return Ordering::Greater,
            (order, _, _) => return order,
        }
    }
}

/// What a queue or cohort has of one resource of one flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    /// The resource and its flavor.
    pub column: FlavorResource,
    /// What is used: by the jobs of a queue; of a cohort, by those below beyond what they keep to themselves.
    pub used: i64,
    /// What of that is borrowed from the cohort above.
    pub borrowed: i64,
    /// How much more can be used now; 0 or more.
    pub available: i64,
    /// How much could be used were nothing used by others; of a root, all that it has.
    pub potential: i64,
}

impl Quota {
    /// The share of the queue or cohort called `name`; the least for one that is not known.
    pub fn share(&self, name: &str, resources: &ResourceNames) -> Share {
        self.find(name).map(|queue| self.share_over(queue, resources, &Grid::default())).unwrap_or_default()
    }

    /// As [`Quota::share`], with the usage that `over` adds. A root has the least: nobody lends to it.
    pub(crate) fn share_over(&self, queue: QueueId, resources: &ResourceNames, over: &Grid) -> Share {
        let Some(above) = self.above(queue) else { return Share::default() };
        let mut borrowed: BTreeMap<&str, (ResourceId, i64)> = BTreeMap::new();
        for (column, _, resource) in self.columns.iter() {
            let amount = self.borrowed_over(queue, column, over);
            if amount > 0 {
                let (_, sum) = borrowed.entry(resources.name(resource)).or_insert((resource, 0));
                *sum = sum.saturating_add(amount);
            }
        }
        let weight_milli = self.at(queue).spec.weight_milli;
        let mut most: Option<Share> = None;
        for (resource, borrowed) in borrowed.into_values() {
            let lendable = self.lendable(above, resource);
            let (borrowed, lendable) = if lendable > 0 { (borrowed, lendable) } else { (0, 1) };
            let share = Share { borrowed, lendable, weight_milli, dominant: Some(resource) };
            // Of equal ones the first by name.
            if most.is_none_or(|most| share.compare_unweighted(&most).is_gt()) {
                most = Some(share);
            }
        }
        most.unwrap_or_default()
    }

    /// How much of a column the queue or cohort called `name` borrows.
    pub fn borrowed(&self, name: &str, column: FlavorResource) -> i64 {
        self.find(name).map_or(0, |queue| self.borrowed_over(queue, column, &Grid::default()))
    }

    /// How much of a column the queue or cohort borrows, with the usage that `over` adds.
    pub(crate) fn borrowed_over(&self, queue: QueueId, column: FlavorResource, over: &Grid) -> i64 {
        if !self.counts(queue, column) || self.above(queue).is_none() {
            return 0;
        }
        self.used_of_own(queue, column, over).beyond.max(0)
    }

    /// Whether what is used of a column counts here: a queue limits it, or quota is given for it in the cohort.
    fn counts(&self, queue: QueueId, column: FlavorResource) -> bool {
        let (node, level) = (self.at(queue), self.at(queue).level(column));
        if node.spec.is_cohort { level.given } else { level.limited }
    }

    /// All that a cohort could ever have of a resource, whatever its flavor.
    fn lendable(&self, cohort: QueueId, resource: ResourceId) -> i64 {
        let columns = self.columns.iter().filter(|(_, _, of)| *of == resource);
        columns.map(|(column, _, _)| self.potential_at(cohort, column)).fold(0, i64::saturating_add)
    }

    /// What each queue and cohort has and uses, in the order of [`Quota::iter`]: of every flavor and resource that it,
    /// or anything below it, has quota for or uses; by flavor and resource.
    pub fn uses(&self, resources: &ResourceNames) -> Vec<Vec<QuotaUse>> {
        let mut known: Vec<BTreeSet<FlavorResource>> = vec![BTreeSet::new(); self.iter().len()];
        let all = || self.iter().filter_map(|node| Some((self.find(&node.spec.name)?, node)));
        for (queue, node) in all() {
            let columns = self.columns.iter().map(|(column, _, _)| column);
            let is_used = |column| node.used(column) > 0 && self.counts(queue, column);
            let own = columns.filter(|column| node.level(*column).given || is_used(*column));
            let own: Vec<FlavorResource> = own.collect();
            let mut here = Some(queue);
            while let Some(queue) = here {
                known[queue.place()].extend(&own);
                here = self.above(queue);
            }
        }
        all().zip(known).map(|((queue, _), columns)| self.uses_of(queue, columns, resources)).collect()
    }

    fn uses_of(&self, queue: QueueId, columns: BTreeSet<FlavorResource>, names: &ResourceNames) -> Vec<QuotaUse> {
        let over = Grid::default();
        let uses = columns.into_iter().map(|column| QuotaUse {
            column,
            used: self.at(queue).used(column),
            borrowed: self.borrowed_over(queue, column, &over),
            available: self.spare_of(queue, column, &over).max(0),
            potential: self.potential_at(queue, column),
        });
        let mut uses: Vec<QuotaUse> = uses.collect();
        uses.sort_by_key(|quota| (self.columns.flavor(quota.column), names.name(self.columns.resource(quota.column))));
        uses
    }
}

#[cfg(test)]
mod tests;
