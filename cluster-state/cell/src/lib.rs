//! The cell: what is true. A deterministic state machine, commands in, outcomes and events out, and the rules that
//! decide whether a placement may stand, which planners call too.
//!
//! Invariants, all swept by [`Cell::invariants`]: no node over its capacity in any resource, port or device (P1); a
//! task has at most one live run (P2); a group that has not started holds nothing (P4); a required domain holds all
//! of its group (P5); nothing closed has a run placed after it closed (P6); every sum equals what it sums.
//!
//! Absent on purpose: clocks (time is stamped into entries), randomness, floats, iteration over unordered maps, and any
//! knowledge of who leads.

mod admission;
mod apply;
mod backup;
mod cell;
mod classes;
mod conditions;
mod digest;
mod drains;
mod flaps;
mod invariants;
mod jobs;
mod judge;
mod kept;
mod nodes;
mod nominations;
mod priorities;
mod provisioning;
mod quota;
mod repairs;
mod resources;
mod runs;
mod sessions;
mod shapes;
mod snapshot;
mod spares;
mod topologies;

pub use admission::{Admission, Check, CheckState, FailedCheck, Round, Standing};
pub use apply::Applied;
pub use backup::{BackupError, BackupSource, read_backup, write_backup};
pub use cell::{Cell, HealthState, STAMP_MAX_MS, VERSION};
pub use classes::{Classes, NodeClass};
pub use conditions::StandingCondition;
pub use drains::Drain;
pub use flaps::{FLAP_WINDOW_MS, FLAPS_MAX, Flaps, HOLD_DOWN_MAX_MS, HOLD_DOWN_MS};
pub use invariants::Sweep;
pub use jobs::{Finish, Group, Job, JobState, Jobs, PAST_RUNS_MAX, PastRun, Task, TaskState};
pub use judge::Scratch;
pub use kept::{Kept, KeptRun};
pub use nodes::{CORDONED, DRAINING, NOMINATED, PRESENT, READY, SCHEDULABLE, SHRUNK, STATE_MASK};
pub use nodes::{DeviceBank, NodeRecord, NodeVersion, Nodes};
pub use nominations::{Held, Nominations};
pub use priorities::PriorityClasses;
pub use provisioning::ProvisioningClasses;
pub use quota::{DEPTH_MAX, Quota, QuotaNode};
pub use repairs::{
    OpenRepair, PAST_REPAIRS_MAX, PastRepair, RepairEnd, RepairState, Repairs, UnhealthyCause, UnhealthyNode,
};
pub use resources::{CPU, MEMORY, PODS, RESOURCES_MAX, ResourceNames};
pub use runs::{NO_RUN, Run, Runs};
pub use sessions::{ANSWERS_MAX, LeaseState, SESSION_TTL_MS, Session, Sessions};
pub use shapes::{ClassMiss, Shape, Shapes};
pub use snapshot::{RestoreError, SNAPSHOT_FORMAT, restore};
pub use topologies::{Domain, NO_DOMAIN, Topologies, Topology};
