//! NodeAffinity: how much of what the group likes about nodes is there.

use super::ground::{Ground, Place};
use super::normal::normalised;

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let preferred = &ground.own.group.preferred;
    if preferred.is_empty() {
        return None;
    }
    let weight = |place: &Place<'_>| {
        let met = preferred.iter().filter(|(_, term)| term.matches(&place.record.spec.name, place.labels()));
        met.map(|(weight, _)| i64::from(*weight)).sum()
    };
    Some(normalised(&ground.fitting().map(weight).collect::<Vec<i64>>()))
}
