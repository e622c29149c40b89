//! InterPodAffinity: whether the tasks are near that the group likes, and that like the group.

use super::ground::{Ground, Kind, Place};
use super::normal::SCORE_MAX;
use ohm_model::Neighbours;
use std::collections::BTreeMap;

/// What is liked about each domain: by label, and by its value.
type Liked<'w> = BTreeMap<&'w str, BTreeMap<&'w str, i64>>;

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let own = &ground.own;
    let likes = own.neighbours.as_ref().is_some_and(|neighbours| !neighbours.preferred.is_empty());
    if ground.plugins.neighbours.ignores_standing && !likes {
        return None;
    }
    // The same for all tasks of a group: where they stand comes later.
    let by_kind: Vec<Vec<(&str, i64)>> = ground.kinds.iter().map(|kind| between(ground, kind)).collect();
    let mut liked = Liked::new();
    for place in &ground.nodes {
        for (key, weight) in place.tasks.iter().flat_map(|task| &by_kind[task.kind]) {
            if let Some(value) = place.labels().get(*key) {
                *liked.entry(key).or_default().entry(value).or_insert(0) += weight;
            }
        }
    }
    if liked.is_empty() {
        return None;
    }
    let raw: Vec<i64> = ground.fitting().map(|place| sum(&liked, place)).collect();
    let (least, most) = (raw.iter().copied().min()?, raw.iter().copied().max()?);
    let score = |value: &i64| if most > least { SCORE_MAX * (value - least) / (most - least) } else { 0 };
    Some(raw.iter().map(score).collect())
}

/// What a task of `other` counts in its domains: what the group likes about it, and what it likes about the group.
fn between<'g>(ground: &'g Ground<'_>, other: &'g Kind<'_>) -> Vec<(&'g str, i64)> {
    let preferred = |neighbours: &'g Option<Neighbours>| neighbours.iter().flat_map(|neighbours| &neighbours.preferred);
    let own = preferred(&ground.own.neighbours).filter(|(_, term)| other.is_meant(term));
    let others = preferred(&other.neighbours).filter(|(_, term)| ground.own.is_meant(term));
    let liked = own.chain(others).map(|(weight, term)| (term.topology_key.as_str(), i64::from(*weight)));
    let hard_weight = i64::from(ground.plugins.neighbours.hard_weight);
    let required = other.neighbours.iter().filter(|_| hard_weight > 0).flat_map(|neighbours| &neighbours.affinity);
    let required = required.filter(|term| ground.own.is_meant(term));
    liked.chain(required.map(|term| (term.topology_key.as_str(), hard_weight))).collect()
}

fn sum(liked: &Liked<'_>, place: &Place<'_>) -> i64 {
    let of_label =
        |(key, values): (&&str, &BTreeMap<&str, i64>)| values.get(place.labels().get(*key)?.as_str()).copied();
    liked.iter().filter_map(of_label).sum()
}
