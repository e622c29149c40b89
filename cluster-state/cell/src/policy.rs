//! What the cell wants next, by itself: what follows from a change beyond what its command says.

pub(crate) mod admission;
pub(crate) mod brought;
pub(crate) mod claims;
pub(crate) mod conditions;
pub(crate) mod evictions;
pub(crate) mod heads;
pub(crate) mod kept;
pub(crate) mod moves;
pub(crate) mod preemptions;
pub(crate) mod ready;
pub(crate) mod repair;
pub(crate) mod repair_requests;
pub(crate) mod rollout;
pub(crate) mod spares;
pub(crate) mod start_deadlines;
pub(crate) mod stops;
pub(crate) mod subqueues;
pub(crate) mod survivors;
pub(crate) mod tolerations;
pub(crate) mod turns;
pub(crate) mod waiting;
