//! The cell as a whole, and how it is read.

use crate::judge::scratch::Scratch;
use crate::rooms::nominations::Nominations;
use crate::state::brought::Brought;
use crate::state::budgets::book::Budgets;
use crate::state::classes::Classes;
use crate::state::job_store::Jobs;
use crate::state::jobs::Job;
use crate::state::kept::Kept;
use crate::state::namespaces::Namespaces;
use crate::state::nodes::Nodes;
use crate::state::preemptions::Preemptions;
use crate::state::priorities::PriorityClasses;
use crate::state::profiles::Profiles;
use crate::state::provisioning::ProvisioningClasses;
use crate::state::quota::Quota;
use crate::state::resources::ResourceNames;
use crate::state::runs::Runs;
use crate::state::sessions::Sessions;
use crate::state::shapes::{Shape, Shapes};
use crate::state::subqueues::Subqueues;
use crate::state::task_counts::counts::TaskCounts;
use crate::state::timers::Timer;
use crate::state::topologies::Topologies;
use crate::state::turns::Turns;
use crate::state::waiting::Waiting;
use ohm_model::{Index, NodeId, NodeSpec, ShapeId, Taint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The apply version this code has: a cell never applies commands of a higher one.
pub const VERSION: u32 = 1;

/// The last stamped time there is. A stamp beyond it would leave no room for time-outs after it.
pub const STAMP_MAX_MS: u64 = 1 << 53;

/// What the health duty has laid down for the cell as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthState {
    /// No node lease that may be in force is longer, in milliseconds. 0 until the first duty says it.
    pub lease_bound_ms: u64,
    /// How many nodes were silent when the duty began to put off conclusions; 0 while it does not.
    pub silent: u32,
    /// Stamped time up to which it does so at most.
    pub held_until_ms: u64,
}

/// One copy of the truth. Cloning it is cheap and is how a snapshot is taken: the clone shares every chunk until either
/// side writes to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub(crate) applied: Index,
    pub(crate) now_ms: u64,
    pub(crate) version: u32,
    pub(crate) chain: u64,
    pub(crate) resources: ResourceNames,
    pub(crate) classes: Classes,
    pub(crate) shapes: Shapes,
    pub(crate) nodes: Nodes,
    pub(crate) jobs: Jobs,
    pub(crate) runs: Runs,
    pub(crate) topologies: Topologies,
    pub(crate) quota: Quota,
    pub(crate) namespaces: Namespaces,
    pub(crate) budgets: Budgets,
    pub(crate) priority_classes: PriorityClasses,
    pub(crate) provisioning_classes: ProvisioningClasses,
    pub(crate) profiles: Profiles,
    pub(crate) subqueues: Subqueues,
    pub(crate) sessions: Sessions,
    pub(crate) nominations: Nominations,
    pub(crate) preemptions: Preemptions,
    pub(crate) timers: BTreeMap<u64, Arc<Vec<Timer>>>,
    pub(crate) health: HealthState,
    pub(crate) kept: Kept,
    pub(crate) brought: Brought,
    pub(crate) turns: Turns,
    pub(crate) waiting: Waiting,
    pub(crate) task_counts: TaskCounts,
    pub(crate) scratch: Scratch,
}

impl Cell {
    /// An empty cell.
    pub fn new() -> Self {
        Cell { version: VERSION, ..Cell::default() }
    }

    /// The last entry applied.
    pub fn applied(&self) -> Index {
        self.applied
    }

    /// Stamped time in milliseconds; never falls.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The apply version commands may use.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// A running hash over every applied entry and everything it caused: equal on equal histories (P9), at no cost of a
    /// sweep. [`Cell::digest`] hashes the state itself.
    pub fn chain(&self) -> u64 {
        self.chain
    }

    /// Resource names and their columns.
    pub fn resources(&self) -> &ResourceNames {
        &self.resources
    }

    /// Node classes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Shapes of groups.
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Jobs.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Live runs.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Topologies.
    pub fn topologies(&self) -> &Topologies {
        &self.topologies
    }

    /// Queues and cohorts, and the flavors of which they give quota.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Priority classes.
    pub fn priority_classes(&self) -> &PriorityClasses {
        &self.priority_classes
    }

    /// Provisioning classes.
    pub fn provisioning_classes(&self) -> &ProvisioningClasses {
        &self.provisioning_classes
    }

    /// Scheduling profiles, and with them the classes of work.
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Sessions and leases.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Room kept for preemptors, by node.
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// Runs that may live on where the cell can't see them.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// What the health duty has laid down for the cell as a whole.
    pub fn health(&self) -> &HealthState {
        &self.health
    }

    /// The shape of group `group` of `job`: that of the runs that are placed from now on.
    pub fn shape_of(&self, job: &Job, group: usize) -> Option<&Arc<Shape>> {
        self.shapes.get(job.groups.get(group)?.shape)
    }

    /// Whether the labels and taints of `node` let `shape` stand there, the host name included.
    #[inline]
    pub fn admits(&self, shape: ShapeId, node: NodeId) -> bool {
        let Some(content) = self.shapes.get(shape) else { return false };
        if !content.names_hosts {
            return self.shapes.admits(shape, self.nodes.class(node), &self.classes);
        }
        let is_admitted =
            |spec: &NodeSpec, taints: &[Taint]| content.admits((&spec.name, &spec.labels), taints).is_ok();
        self.nodes.get(node).is_some_and(|record| is_admitted(&record.spec, &record.taints))
    }

    /// The domain that `node` puts group `group` of `job` into, if the group is bound to one; see `Topology::key_of`.
    #[inline]
    pub(crate) fn domain_key(&self, job: &Job, group: usize, node: NodeId) -> Option<u32> {
        let (name, level) = job.binding_level(group)?;
        let topology = self.topologies.get(name)?;
        topology.key_of(node, topology.level(level)?)
    }

    /// The stamped time at which a `Tick` would change something; nothing when no time-out is pending.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.timers.keys().next().copied()
    }
}
