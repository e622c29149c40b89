//! TaintToleration: the fewer `PreferNoSchedule` taints that are not tolerated, the better.

use super::ground::{Ground, Place};
use super::normal::normalised_reversed;
use ohm_model::{TaintEffect, Toleration};

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let is_soft = |effect: TaintEffect| effect == TaintEffect::PreferNoSchedule;
    // A toleration of another effect covers none of these taints.
    let tolerations: Vec<&Toleration> =
        ground.own.group.tolerations.iter().filter(|toleration| toleration.effect.is_none_or(is_soft)).collect();
    let count = |place: &Place<'_>| {
        let soft = place.record.taints.iter().filter(|taint| is_soft(taint.effect));
        soft.filter(|taint| !tolerations.iter().any(|toleration| toleration.covers(taint))).count() as i64
    };
    Some(normalised_reversed(&ground.fitting().map(count).collect::<Vec<i64>>()))
}
