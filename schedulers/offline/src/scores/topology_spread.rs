//! PodTopologySpread: the fewer tasks of the same kind are in the node's domains, the better.

use super::fixed::{self, ONE};
use super::ground::{Ground, Place};
use super::normal::SCORE_MAX;
use ohm_model::SpreadConstraint;
use ohm_model::neighbours::selects;
use ohm_model::node::HOSTNAME_LABEL;
use std::collections::BTreeMap;

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let constraints = ground.own.neighbours.iter().flat_map(|neighbours| &neighbours.spread);
    let soft: Vec<&SpreadConstraint> = constraints.filter(|constraint| !constraint.is_hard).collect();
    if soft.is_empty() {
        return None;
    }
    let has_all = |place: &&Place<'_>| soft.iter().all(|soft| place.labels().contains_key(&soft.topology_key));
    let scored: Vec<&Place<'_>> = ground.fitting().filter(has_all).collect();
    let counted: Vec<&Place<'_>> = ground.nodes.iter().filter(has_all).collect();
    let spreads: Vec<Spread<'_>> = soft.iter().map(|soft| Spread::new(ground, soft, &scored, &counted)).collect();
    let raw = |place: &Place<'_>| fixed::rounded(spreads.iter().map(|spread| spread.of(ground, place)).sum());
    let raw: Vec<Option<i64>> = ground.fitting().map(|place| has_all(&place).then(|| raw(place))).collect();
    let least = raw.iter().flatten().copied().min().unwrap_or(0);
    let most = raw.iter().flatten().copied().max().unwrap_or(0);
    let score = |raw: &Option<i64>| match raw {
        None => 0,
        Some(_) if most == 0 => SCORE_MAX,
        Some(raw) => SCORE_MAX * (most + least - raw) / most,
    };
    Some(raw.iter().map(score).collect())
}

/// A constraint, and how many tasks it counts in each domain that has a node that fits.
struct Spread<'g> {
    constraint: &'g SpreadConstraint,
    counts: BTreeMap<&'g str, i64>,
    /// What a task counts: more where there are many domains, so that each of them matters less.
    weight: i128,
}

impl<'g> Spread<'g> {
    fn new(
        ground: &Ground<'_>,
        constraint: &'g SpreadConstraint,
        scored: &[&'g Place<'_>],
        counted: &[&'g Place<'_>],
    ) -> Self {
        let key = &constraint.topology_key;
        let value = |place: &'g Place<'_>| place.labels().get(key).map(String::as_str);
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        if key == HOSTNAME_LABEL {
            let weight = fixed::ln(scored.len() as u64 + 2);
            return Spread { constraint, counts, weight };
        }
        counts.extend(scored.iter().filter_map(|place| Some((value(place)?, 0))));
        for place in counted.iter().filter(|place| is_eligible(ground, constraint, place)) {
            if let Some(count) = value(place).and_then(|value| counts.get_mut(value)) {
                *count += count_on(ground, constraint, place);
            }
        }
        let weight = fixed::ln(counts.len() as u64 + 2);
        Spread { constraint, counts, weight }
    }

    /// What it says of a node; less is better.
    fn of(&self, ground: &Ground<'_>, place: &Place<'_>) -> i128 {
        let Some(value) = place.labels().get(&self.constraint.topology_key) else { return 0 };
        let count = match self.constraint.topology_key.as_str() {
            HOSTNAME_LABEL => count_on(ground, self.constraint, place),
            _ => self.counts.get(value.as_str()).copied().unwrap_or(0),
        };
        i128::from(count) * self.weight + (i128::from(self.constraint.max_skew) - 1) * ONE
    }
}

/// Whether the tasks on a node count.
fn is_eligible(ground: &Ground<'_>, constraint: &SpreadConstraint, place: &Place<'_>) -> bool {
    (!constraint.honours_affinity || ground.own.likes(place))
        && (!constraint.honours_taints || ground.own.tolerates(place))
}

/// How many tasks on a node the constraint means. An empty selector means none of those that stand.
fn count_on(ground: &Ground<'_>, constraint: &SpreadConstraint, place: &Place<'_>) -> i64 {
    if constraint.selector.as_ref().is_none_or(Vec::is_empty) {
        return 0;
    }
    let is_meant = |kind: usize| {
        let kind = &ground.kinds[kind];
        kind.namespace.name == ground.own.namespace.name && selects(&constraint.selector, &kind.group.labels)
    };
    place.tasks.iter().filter(|task| !task.is_ending && is_meant(task.kind)).count() as i64
}
