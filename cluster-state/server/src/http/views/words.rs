//! Amounts, shards, causes and states in the words of the API.

use ohm_model::resources::display;
use ohm_model::{Amounts, NodeHealth, Shard, StopCause, Toleration, TolerationOperator};
use std::collections::BTreeMap;

pub(super) fn amounts(amounts: &Amounts) -> BTreeMap<String, String> {
    amounts.iter().map(|(name, &amount)| (name.clone(), display(name, amount))).collect()
}

/// The word for `value` among `words`; empty where there is none.
pub(super) fn of<T: Copy + PartialEq>(words: &[(&str, T)], value: T) -> String {
    words.iter().find(|(_, known)| *known == value).map(|(word, _)| word.to_string()).unwrap_or_default()
}

pub(super) fn shard(shard: Shard) -> String {
    format!("{}/{}", shard.class.name(), shard.number)
}

pub(super) fn stop_cause(cause: StopCause) -> &'static str {
    match cause {
        StopCause::Cancelled => "cancelled",
        StopCause::Suspended => "suspended",
        StopCause::Preempted => "preempted",
        StopCause::Moved => "moved",
        StopCause::DeadlineExceeded => "deadlineExceeded",
        StopCause::JobFailed => "jobFailed",
        StopCause::NodeShrunk => "nodeShrunk",
        StopCause::GangRestart => "gangRestart",
        StopCause::RepairFailed => "repairFailed",
        StopCause::Drained => "drained",
        StopCause::ScaledDown => "scaledDown",
        StopCause::RolledOut => "rolledOut",
        StopCause::Restarted => "restarted",
        StopCause::CapacityRevoked => "capacityRevoked",
        StopCause::Reconciled => "reconciled",
        StopCause::QueueHeld => "queueHeld",
        StopCause::ReadyTimeout => "readyTimeout",
    }
}

/// `key=value:Effect`: without the value for any value, without the effect for every effect, with `*` for every key.
pub(super) fn toleration(toleration: &Toleration) -> String {
    let key = if toleration.key.is_empty() { "*" } else { &toleration.key };
    let value = match (toleration.operator, toleration.value.as_str()) {
        (TolerationOperator::Exists, _) => String::new(),
        (TolerationOperator::Equal, value) => format!("={value}"),
        (TolerationOperator::Gt, value) => format!(">{value}"),
        (TolerationOperator::Lt, value) => format!("<{value}"),
    };
    let effect = toleration.effect.map_or_else(String::new, |effect| format!(":{effect:?}"));
    let time = toleration.toleration_seconds.map_or_else(String::new, |seconds| format!(" for {seconds}s"));
    format!("{key}{value}{effect}{time}")
}

/// The word for what is held of a node.
pub(super) fn health(health: NodeHealth) -> &'static str {
    match health {
        NodeHealth::Ready => "ready",
        NodeHealth::Suspect => "suspect",
        NodeHealth::Lost => "lost",
    }
}
