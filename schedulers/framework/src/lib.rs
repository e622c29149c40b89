//! The scheduler as a core: it follows the log, asks a planner, commits what it decided, and tries again what collided.
pub mod explain;
pub mod holds;
pub mod plan;
pub mod planner;
pub mod view;

pub use explain::{Explanation, Miss, NearMiss, Obstacle};
pub use holds::{Holds, Taken};
pub use plan::{Decision, Plan, PlannedJob};
pub use planner::{Budget, Need, Planner, Work, WorkItem, need_of};
pub use view::View;
