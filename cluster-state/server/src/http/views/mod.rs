//! The cell as the API shows it: pure functions from a copy of the cell to the types of `ohm_wire::api`.

mod admission;
mod events;
mod jobs;
mod nodes;
mod queues;
mod status;

pub(super) use admission::provisioning_classes;
pub(super) use events::{event, is_event_of};
pub(super) use jobs::{TaskWindow, job, job_summary};
pub(super) use nodes::{causes, node_detail, node_summary};
pub(super) use queues::{priority_classes, queues, topologies};
pub(super) use status::status;

use ohm_model::resources::display;
use ohm_model::{Amounts, Shard, StopCause};
use std::collections::BTreeMap;

fn amounts(amounts: &Amounts) -> BTreeMap<String, String> {
    amounts.iter().map(|(name, &amount)| (name.clone(), display(name, amount))).collect()
}

fn shard(shard: Shard) -> String {
    format!("{}/{}", shard.class.name(), shard.number)
}

fn stop_cause(cause: StopCause) -> &'static str {
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
        StopCause::Restarted => "restarted",
        StopCause::CapacityRevoked => "capacityRevoked",
        StopCause::Reconciled => "reconciled",
    }
}
