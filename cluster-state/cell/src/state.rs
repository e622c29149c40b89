//! The data of the cell: each file is one kind of record with its columns, its names and its own invariants. Nothing
//! here decides; commands change it in `apply/`, rules read it.

pub(crate) mod admission;
pub(crate) mod backup;
pub(crate) mod brought;
pub(crate) mod classes;
pub(crate) mod conditions;
pub(crate) mod digest;
pub(crate) mod drain;
pub(crate) mod flaps;
pub(crate) mod flavors;
mod job_repairs;
pub(crate) mod job_store;
pub(crate) mod jobs;
pub(crate) mod kept;
pub(crate) mod nodes;
pub(crate) mod offers;
pub(crate) mod preemptions;
pub(crate) mod priorities;
pub(crate) mod profiles;
pub(crate) mod provisioning;
pub(crate) mod quota;
pub(crate) mod ready;
pub(crate) mod release;
pub(crate) mod repairs;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod shapes;
pub(crate) mod shares;
pub(crate) mod snapshot;
pub(crate) mod timers;
pub(crate) mod tolerance;
pub(crate) mod topologies;
pub(crate) mod turns;
pub(crate) mod waiting;
