//! Rollouts, as people and programs are told of them.

use ohm_model::{RolloutEvent, RolloutStep};
use ohm_wire::api::EventView;

/// What became of a rollout.
pub(super) fn of_rollout(told: &RolloutEvent, view: EventView) -> EventView {
    let (name, revision) = (&told.name, told.revision);
    let (kind, message) = match &told.step {
        RolloutStep::Started => ("rolloutStarted", format!("{name} is rolled out to revision {revision}")),
        RolloutStep::Aimed { group, revision, count } => {
            let what = format!("group {group} of {name}: {count} tasks are wanted; revision {revision} is placed");
            ("rolloutAimed", what)
        }
        RolloutStep::Waits => ("rolloutWaits", format!("the canaries of {name} are available: promote it, or undo")),
        RolloutStep::Promoted => ("rolloutPromoted", format!("revision {revision} of {name} was promoted")),
        RolloutStep::Stalled { reason } => {
            ("rolloutStalled", format!("revision {revision} of {name} stalled: {reason}"))
        }
        RolloutStep::Reverted { from } => {
            ("rolloutReverted", format!("revision {from} of {name} did not come up: back to revision {revision}"))
        }
        RolloutStep::Finished => ("rolloutFinished", format!("all of {name} is of revision {revision}")),
    };
    EventView { kind: kind.into(), message, job: name.clone(), ..view }
}
