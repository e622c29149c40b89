//! The cell: what is true. A deterministic state machine, commands in, outcomes and events out, and the rules that
//! decide whether a placement may stand, which planners call too.
//!
//! Invariants, all swept by [`Cell::invariants`]: no node over its capacity in any resource, port or device (P1); a
//! task has at most one live run (P2); a group that has not started holds nothing (P4); a required domain holds all
//! of its group (P5); nothing closed has a run placed after it closed (P6); every sum equals what it sums.
//!
//! Absent on purpose: clocks (time is stamped into entries), randomness, floats, iteration over unordered maps, and any
//! knowledge of who leads.

mod apply;
mod cell;
mod check;
mod judge;
mod operations;
mod planted;
mod policy;
mod rooms;
mod rules;
mod state;

pub use apply::{Applied, Freed, changed_fields};
pub use cell::{Cell, HealthState, STAMP_MAX_MS, VERSION};
pub use check::Sweep;
pub use judge::scratch::Scratch;
pub use policy::brought::{idle_until_ms, releasing_nodes, requester};
pub use policy::preemptions::kept_until_ms;
pub use policy::repair_requests::domain_labels;
pub use policy::spares::{as_if_spared, spares_at_most};
pub use policy::start_deadlines::START_DEADLINE;
pub use rooms::checks::{asks_unknown, checks_of, standing_as_is};
pub use rooms::heads::{HEAD_MS_MAX, NoHead, may_head};
pub use rooms::laying::{drop_preemption, free_quota, lay_preemption, reserve_quota, resume_run};
pub use rooms::moves::{moves_now, runs_to_move};
pub use rooms::neighbours::{has_neighbour_rules, is_surrounded};
pub use rooms::nominations::{Held, Nominations, OpenClaim};
pub use rooms::order::{
    HeldUsage, SubqueueUsage, is_ordered_by_usage, is_served_first, subqueue_usage, subqueues, usage_key, waiting_jobs,
};
pub use rooms::overlay::{Overlay, Savepoint, ShapesAndQuota, Taken, TasksOn};
pub use rooms::planned_rooms::PlannedRooms;
pub use rooms::preferences::{Lack, Preferences};
pub use rooms::quota_if::{QuotaIf, borrowing_of, holders, preemptions};
pub use rooms::reads::{live_run, live_runs, namespaces};
pub use rooms::room::{Asker, Room, Wish};
pub use rooms::stops::{goes_on, stop_policy_of};
pub use rooms::strict_order::{kept_back_by, kept_back_over};
pub use rooms::surroundings::{Change, Surroundings};
pub use rooms::turns::{others_come_first, waiting_queues, waits_elsewhere};
pub use rooms::what_if::{QuotaLeft, WhatIf};
pub use rules::devices::device_room;
pub use rules::disruption::{Disruptions, breaks_alone, broken_by, has_no_budgets};
pub use rules::miss::{Miss, short_of};
pub use rules::preemption::room::{RoomPreemptor, affordable};
pub use rules::preemption::{Preemptor, Refused, Variant, placed_since_ms, promised_victims};
pub use rules::topology_domain::miss_outside;
pub use state::admission::{Admission, Check, CheckState, FailedCheck, Round, Standing};
pub use state::backup::{BackupError, BackupSource, read_backup, write_backup};
pub use state::budgets::states::{BudgetState, budget, budget_name, budget_state, budgets};
pub use state::classes::{Classes, NodeClass};
pub use state::conditions::StandingCondition;
pub use state::drain::Drain;
pub use state::endpoints::{Endpoint, endpoints, stop_delay_ms};
pub use state::flaps::{FLAP_WINDOW_MS, FLAPS_MAX, Flaps, HOLD_DOWN_MAX_MS, HOLD_DOWN_MS};
pub use state::flavors::{Charges, NO_FLAVOR, QuotaColumns, ResourceFlavors};
pub use state::health::RunHealth;
pub use state::job_rollouts::{RolloutCounts, available_before_ms, is_recreated, ready_since_ms, rollout_counts};
pub use state::job_store::Jobs;
pub use state::jobs::{
    Finish, Group, Job, JobState, PAST_RUNS_MAX, PastRun, STOPS_WITHIN_MS, Task, TaskState, repair_request_id,
    request_id,
};
pub use state::kept::{Kept, KeptRun};
pub use state::namespaces::Namespaces;
pub use state::nodes::{CORDONED, DRAINING, NOMINATED, PRESENT, READY, SCHEDULABLE, SHRUNK, STATE_MASK};
pub use state::nodes::{DeviceBank, NodeRecord, NodeVersion, Nodes};
pub use state::offers::{
    Filters, FlavorMiss, NoOffer, column_name, filters_of, flavors_by_group, flavors_in_use, flavors_of, no_offer,
    own_filters_of,
};
pub use state::preemptions::{Preemption, Preemptions, Stopping};
pub use state::priorities::PriorityClasses;
pub use state::profiles::Profiles;
pub use state::provisioning::ProvisioningClasses;
pub use state::quota::{DEPTH_MAX, QueueId, Quota, QuotaNode};
pub use state::ready::Readiness;
pub use state::release::Release;
pub use state::repairs::{
    OpenRepair, PAST_REPAIRS_MAX, PastRepair, RepairEnd, RepairRequest, RepairState, Repairs, RequestState,
    UnhealthyCause, UnhealthyNode,
};
pub use state::requests::charged;
pub use state::resources::{CPU, MEMORY, PODS, RESOURCES_MAX, ResourceNames};
pub use state::rollouts::{Former, GroupRollout, Revision, RevisionState, Rollout, Rollouts};
pub use state::runs::{NO_RUN, Run, Runs};
pub use state::sessions::{ANSWERS_MAX, LeaseState, SESSION_TTL_MS, Session, Sessions};
pub use state::shapes::{ClassMiss, Shape, Shapes};
pub use state::shares::{QuotaUse, Share};
pub use state::snapshot::{RestoreError, SNAPSHOT_FORMAT, restore};
pub use state::subqueues::{Subqueues, UsageKey};
pub use state::topologies::{Domain, Fence, NO_DOMAIN, Topologies, Topology};
